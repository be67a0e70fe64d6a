"""`advise` for a load on more devices than one node has. It compares one pool of servers with separate
prefill and decode pools, within latency limits.
"""
