"""Answers about a server under a load: a request rate, or a number of clients."""
