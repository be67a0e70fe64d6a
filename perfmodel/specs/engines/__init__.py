"""Serving engines: what they run, and their costs outside kernels."""
