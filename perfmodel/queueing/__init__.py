"""Latency and throughput of a continuous-batching server at a request rate or with a number of clients.

A closed form predicts latency and throughput. A discrete-event replay checks the closed form.
"""
