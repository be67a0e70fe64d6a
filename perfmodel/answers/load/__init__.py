"""A server under a request rate or a number of clients."""
