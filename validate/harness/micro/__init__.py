"""Times single kernels with the shapes of a plan's models, and fits calibration constants to them.

`jobs` lists the kernels, `kernels` makes them ready to call, and `run` times them. `fit` fits the constants,
and `further` those of kernels that the first record lacks (`further_kernels` reads them). `host` finds facts
about a CPU that vendors do not publish.
"""
