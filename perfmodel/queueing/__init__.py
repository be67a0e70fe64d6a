"""A continuous-batching server under a load, which is a request rate or a number of clients: a closed form,
and a discrete-event replay that checks it.
"""
