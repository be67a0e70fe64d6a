"""A continuous-batching server under a request rate: a closed form, and a discrete-event replay that checks
it.
"""
