"""Measures the decoder: points of a plan, kernels alone, and the acceptance of drafted tokens.

Read it in this order: `session` (one sitting of a run), `measure` (the points of a plan), `point_runner` (one
point, ready to run), `journal` (recovery after an interruption), `micro` (kernels), `acceptance`.
"""
