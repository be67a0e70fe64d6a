"""Fits constants of kernels that the main record of a fit does not have: attention with many query rows,
attention that does not split its cache, and products in fp8.

The constants of the main fit stay unchanged. A further record adds the constants of its own kernels. They are
fitted with the same formula as predictions use (`Machine.op_predicted_s`).
"""

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from perfmodel.costs.roofline import Machine
from perfmodel.errors import InputError
from perfmodel.operations import Array
from perfmodel.specs import Calibration, Constant, GPUSpec, Precision
from perfmodel.validate.harness.micro.further_kernels import Timed, kernels_of
from perfmodel.validate.harness.micro.roofline_fit import SOFT_RESIDUAL
from perfmodel.validate.solving import Values, estimate, significant


def with_further(
    calibration: Calibration, gpu: GPUSpec, precision: Precision, paths: Iterable[Path]
) -> Calibration:
    """The calibration with the additional constants that each further file determines. Raises InputError for
    a file without such kernels.

    - precision: the formats of weights and caches.
    - paths: kernel records, or tables that ``benchmarks/attention.py`` wrote.
    """
    for path in paths:
        kernels = kernels_of(path, precision)
        if not kernels:
            raise InputError(f"--further: {path} must have unsplit or wide attention, or products in fp8")
        for timed in kernels:
            calibration = _fitted(calibration, gpu, timed, f"results/{path.parent.name}/{path.name}")
    return calibration


def _fitted(calibration: Calibration, gpu: GPUSpec, timed: Timed, source: str) -> Calibration:
    """The calibration with the constants that are fitted to some kernels, by least squares on the logarithms
    of their times.
    """

    def stated(values: Values, digits: int | None = None, stderr: Values | None = None) -> Calibration:
        constants = {}
        for name, value in values.items():
            error = None if stderr is None else significant(stderr[name], 4)
            rounded = value if digits is None else significant(value, digits)
            constants[name] = Constant(value=rounded, stderr=error, source=source)
        return calibration.replace(**constants)

    def residuals(values: Values) -> Array:
        machine = Machine(gpu, stated(values), attention_backend=timed.backend)
        return np.asarray(timed.weight * np.log(machine.op_predicted_s(timed.op) / timed.seconds))

    solved = estimate(timed.parameters, residuals, soft=SOFT_RESIDUAL)
    off = residuals(solved.values)
    freedom = max(1, len(off) - len(timed.parameters))
    deviation = math.sqrt(float(np.sum(off**2)) / freedom)
    return stated(solved.values, 4, solved.scaled(deviation).stderr)
