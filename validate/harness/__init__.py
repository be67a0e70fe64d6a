"""Turns the real decoder into evidence: plans, timed runs, microbenchmarks, and the append-only records they leave.

Read it in this order: `plans` (what to run), `rig` (a point set up), `measure` (its clock), `journal` and `recorder`
(what survives an interruption), `environment` (on what it ran), `micro` (kernels alone), `acceptance` and `imports`.
"""
