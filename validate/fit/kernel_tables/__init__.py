"""Fits the constants of kernels to public tables of timed calls. Each kind of kernel has a module."""
