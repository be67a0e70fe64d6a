"""Measures the decoder: the points of a plan, single kernels, and the acceptance of drafted tokens.

Read the modules in this order: `session` (one session of a run, which can be resumed), `measure` (the points
of a plan), `point_runner` (one point, ready to run), `journal` (recovery after an interruption), `micro`
(kernels), `acceptance`.
"""
