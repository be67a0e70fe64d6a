"""Measures the decoder: the points of a plan, single kernels, and the acceptance of drafted tokens.

`session` runs one session of a run, which can be resumed. `measure` times the points of a plan, and
`point_runner` makes one point ready to run. `journal` keeps finished rows after an interruption. `micro`
times kernels.
"""
