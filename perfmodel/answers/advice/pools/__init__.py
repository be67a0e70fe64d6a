"""Compares one pool of servers with separate prefill and decode pools, for `advise` under a load on more
devices than one node has.
"""
