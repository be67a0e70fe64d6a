"""`advise` for more devices than one node has: compares one pool of servers with a prefill pool and a
decode pool, for a request rate within latency limits.
"""
