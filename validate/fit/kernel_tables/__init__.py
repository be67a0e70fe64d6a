"""Fits the constants of each kind of kernel to public tables of timed calls. Each kind is a module."""
