"""Kernels by themselves, at the shapes that a plan's models really have, and the constants they give a
calibration.

`grid` (which kernels), `kernels` (each made ready to be called), `run` (timed), `fit` (constants of the
engine), `host` (the facts of a CPU that no vendor prints).
"""
