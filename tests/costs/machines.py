"""An ideal A100 with some constants changed, and single operations whose ideal times are given."""

from perfmodel.costs.roofline import Machine
from perfmodel.operations import Cost, Op
from perfmodel.specs import Calibration, files, load_calibration, load_gpu
from perfmodel.specs.calibrations.constants import AllReduce

A100 = load_gpu("a100-sxm-80gb")
F, BW, LINK = 312e12, 2.039e12, 300e9
IDEAL = load_calibration("ideal")
CALIBRATIONS = files.bundled_names("calibrations")
HAIR = 1e-12


def calibrated(**values: float | AllReduce | None) -> Calibration:
    """The ideal calibration with some constants changed."""
    changed = {
        name: getattr(IDEAL, name).model_copy(update={"value": value}) if isinstance(value, float) else value
        for name, value in values.items()
    }
    return IDEAL.model_copy(update=changed)


def machine(tp: int = 1, kv_reread: float | None = None, **values) -> Machine:
    return Machine(A100, calibrated(**values), tp, kv_reread)


def linear(memory_s: float, compute_s: float, kernels: int = 0) -> Op:
    return Op("gemm", "linear", kernels, Cost(flops=compute_s * F, weight_bytes=memory_s * BW))


def attention(kv_s: float, compute_s: float = 0.0, kernels: int = 0, query: float = 1.0) -> Op:
    return Op("attention", "attention", kernels, Cost(flops=compute_s * F, kv_bytes=kv_s * BW), query=query)
