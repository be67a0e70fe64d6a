"""Serving engines: the features that they support, and their costs outside kernels."""
