"""Serving engines: what they run, and what they cost besides their kernels."""
