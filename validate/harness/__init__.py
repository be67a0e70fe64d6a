"""Measuring the decoder: points of a plan, kernels alone, and how often drafted tokens are accepted.

Read it in this order: `session` (one sitting of a run), `measure` (the points of a plan), `point_runner` (one
point made ready), `journal` (what survives an interruption), `micro` (kernels), `acceptance`.
"""
