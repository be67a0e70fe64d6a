"""Kernels alone, at the shapes of a plan's models, and the calibration constants from them.

`grid` (which kernels), `kernels` (each one ready to call), `run` (timed), `fit` (constants of the engine),
`host` (facts of a CPU that no vendor publishes).
"""
