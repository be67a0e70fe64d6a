"""Times single kernels with the shapes of a plan's models, and fits calibration constants to them.

The modules are `jobs` (the list of kernels), `kernels` (makes them ready to call), `run` (times them), `fit`
(fits the constants) and `host` (facts about a CPU that vendors do not publish).
"""
