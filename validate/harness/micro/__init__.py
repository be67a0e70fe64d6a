"""Kernels alone, with the shapes of a plan's models, and the calibration constants from them.

`grid` (the kernels), `kernels` (each one ready to call), `run` (times them), `fit` (constants of the engine),
`host` (facts of a CPU that no vendor publishes).
"""
