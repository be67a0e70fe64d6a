"""Counts to seconds: the ideal roofline of each op, and the calibrated time of a pass.

``lower_s`` is physics (perfect overlap inside an op, none between ops), ``serial_s`` has no overlap at all, and
``predicted_s`` uses the calibration's efficiencies and fixed costs. The roofline is Williams et al. 2009; the op-level
calibration is described and worked through in docs/model.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perfmodel.errors import InputError
from perfmodel.ops import Floats, Op
from perfmodel.specs.calibration import Calibration
from perfmodel.specs.gpu import GPUSpec

LIMITERS = {
    "param_load": "weights",
    "kv_load": "KV",
    "flops": "compute",
    "activations": "activations",
    "comm": "all-reduce",
    "fixed": "launches",
}
"""Name of each term of a pass -> the word for it."""


@dataclass(frozen=True, slots=True)
class PassTime:
    """One pass over ``[batch, context, ...]``, in seconds of the whole tensor-parallel group.

    param_load_s, kv_load_s, activation_s and flop_s are bytes and FLOPs at the device's peak rates; comm_s and fixed_s
    are the calibration's. They overlap, so they do not add up to any of lower_s, predicted_s and serial_s.
    """

    lower_s: Floats
    serial_s: Floats
    predicted_s: Floats
    param_load_s: Floats
    kv_load_s: Floats
    flop_s: Floats
    activation_s: Floats
    comm_s: Floats
    fixed_s: Floats

    @property
    def limiter(self) -> NDArray[np.str_]:
        """The largest of the six terms, by name (`LIMITERS`)."""
        terms = (self.param_load_s, self.kv_load_s, self.flop_s, self.activation_s, self.comm_s, self.fixed_s)
        return np.asarray(tuple(LIMITERS))[np.argmax(np.stack(np.broadcast_arrays(*terms)), axis=0)]


@dataclass(frozen=True)
class Machine:
    """A device, how many of it, and how well its software stack uses it.

    kv_reread: factor on the verification pass's KV bytes; None takes the calibration's. It is clipped to 1 ... query.
    """

    gpu: GPUSpec
    calibration: Calibration
    tensor_parallel: int = 1
    kv_reread: float | None = None
    _peaks: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)
    _constants: "_Constants" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_constants", _Constants.of(self.gpu, self.calibration))
        if self.tensor_parallel > 1 and self.gpu.link_bytes_per_s is None:
            raise InputError(f"--tp: {self.gpu.name} has no link to another device, given {self.tensor_parallel}")

    def peak(self, precision: str) -> float:
        """Dense peak in FLOP/s."""
        if precision not in self._peaks:
            self._peaks[precision] = self.gpu.peak_flops(precision)
        return self._peaks[precision]

    def reread(self, query: Floats) -> Floats:
        """How often a pass with `query` tokens per sequence reads the cache: 1 for one token, at most `query`."""
        if self.kv_reread is not None:
            return np.clip(self.kv_reread, 1.0, query)
        slope = self._constants.reread_per_query
        return 1.0 if slope == 0 else np.minimum(1.0 + slope * (np.asarray(query) - 1.0), query)

    def predicted_s(self, ops: Sequence[Op], tokens: Floats) -> Floats:
        """Calibrated time of a pass of `tokens` tokens over all sequences, in seconds."""
        times = [self.op_predicted_s(op) for op in ops]
        times.sort(key=np.size)
        k = self._constants
        return sum(times, start=k.pass_s + k.token_s * tokens)

    def op_predicted_s(self, op: Op) -> Floats:
        """Calibrated time of one op, all its kernels."""
        k, c = self._constants, op.cost
        if op.kind == "linear":
            memory = c.bytes * (k.per_byte / k.gemm_bandwidth) + op.packed_weights * k.weight_unpack_s
            memory = memory + op.columns * k.gemm_column_s
            compute = c.flops * (1.0 / (self.peak(op.compute) * k.gemm_flops))
            return op.kernels * k.gemm_s + _blend(memory, compute, k.gemm_power)
        if op.kind == "attention":
            memory = (c.kv_bytes * self.reread(op.query) + c.activation_bytes) * (k.per_byte / k.attention_bandwidth)
            if k.attention_slots:
                memory = memory * wave_factor(op.work_items, k.attention_slots, k.multiprocessors)
            compute = c.flops * (1.0 / (self.peak(op.compute) * k.attention_flops))
            return op.kernels * k.attention_s + np.maximum(memory, compute)
        if op.kind == "small":
            return op.kernels * k.small_s + c.activation_bytes * (k.per_byte / k.small_bandwidth)
        if op.kind == "upkeep":
            return op.kernels * k.full_cache_s + op.work_items * k.sparse_cache_s
        return op.kernels * self._allreduce_s(op.message_bytes)

    def op_lower_s(self, op: Op) -> Floats:
        """Physical lower bound of one op: max(FLOPs/peak, bytes/bandwidth); an all-reduce sends its payload once."""
        if op.kind == "allreduce":
            return op.kernels * op.message_bytes * self._constants.per_link_byte
        return np.maximum(op.cost.flops / self.peak(op.compute), op.cost.bytes * self._constants.per_byte)

    def time(self, ops: Sequence[Op], tokens: Floats) -> PassTime:
        """All of a pass's times; broadcasts over whatever the op counts broadcast over."""
        k = self._constants
        compute = [op for op in ops if op.kind != "allreduce"]
        comm = [op for op in ops if op.kind == "allreduce"]
        flop_s = sum((op.cost.flops / self.peak(op.compute) for op in compute), start=0.0)
        total = sum((op.cost.bytes for op in compute), start=0.0) * k.per_byte
        comm_lower = sum((self.op_lower_s(op) for op in comm), start=0.0)
        upkeep = sum((self.op_predicted_s(op) for op in compute if op.kind == "upkeep"), start=0.0)
        launches = {"linear": k.gemm_s, "attention": k.attention_s, "small": k.small_s, "upkeep": 0.0}
        return PassTime(
            lower_s=sum((self.op_lower_s(op) for op in ops), start=0.0),
            serial_s=flop_s + total + comm_lower,
            predicted_s=self.predicted_s(ops, tokens),
            param_load_s=sum((op.cost.weight_bytes for op in compute), start=0.0) * k.per_byte,
            kv_load_s=sum((op.cost.kv_bytes for op in compute), start=0.0) * k.per_byte,
            flop_s=flop_s,
            activation_s=sum((op.cost.activation_bytes for op in compute), start=0.0) * k.per_byte,
            comm_s=sum((self.op_predicted_s(op) for op in comm), start=0.0),
            fixed_s=sum(
                (op.kernels * launches[op.kind] + op.columns * k.gemm_column_s for op in compute),
                start=k.pass_s + k.token_s * tokens + upkeep,
            ),
        )

    def load_and_compute_s(self, ops: Sequence[Op]) -> tuple[Floats, Floats]:
        """Weight-plus-KV load time and FLOP time of a pass at calibrated efficiencies, without fixed costs."""
        k = self._constants
        load: Floats = 0.0
        compute: Floats = 0.0
        for op in ops:
            if op.kind in ("linear", "attention"):
                linear = op.kind == "linear"
                bandwidth, flops = (
                    (k.gemm_bandwidth, k.gemm_flops) if linear else (k.attention_bandwidth, k.attention_flops)
                )
                load = load + (op.cost.weight_bytes + op.cost.kv_bytes) * (k.per_byte / bandwidth)
                compute = compute + op.cost.flops / (self.peak(op.compute) * flops)
        return load, compute

    def op_limiter(self, op: Op) -> str:
        """What limits one op whose counts are scalars: the largest of its calibrated terms."""
        k, c = self._constants, op.cost
        if op.kind == "allreduce":
            return "comm"
        if op.kind == "upkeep":
            return "fixed"
        launch = {"linear": k.gemm_s, "attention": k.attention_s, "small": k.small_s}[op.kind] * op.kernels
        bandwidth = {"linear": k.gemm_bandwidth, "attention": k.attention_bandwidth, "small": k.small_bandwidth}[
            op.kind
        ]
        flops = {"linear": k.gemm_flops, "attention": k.attention_flops, "small": 1.0}[op.kind]
        per_byte = k.per_byte / bandwidth
        reread = self.reread(op.query) if op.kind == "attention" else 1.0
        terms = {
            "flops": float(c.flops) / (self.peak(op.compute) * flops),
            "param_load": float(c.weight_bytes) * per_byte,
            "kv_load": float(c.kv_bytes * reread) * per_byte,
            "activations": float(c.activation_bytes) * per_byte,
            "fixed": launch + float(op.columns) * k.gemm_column_s,
        }
        return max(terms, key=lambda name: terms[name])

    def _allreduce_s(self, message_bytes: Floats) -> Floats:
        """One all-reduce, never faster than the link: log-log between knots, flat below them, linear above them."""
        floor = message_bytes * self._constants.per_link_byte
        table = self.calibration.allreduce
        if table is None:
            return floor
        if self.tensor_parallel not in table.knots:
            known = ", ".join(map(str, sorted(table.knots)))
            raise InputError(
                f"--tp: calibration {self.calibration.name} has all-reduce times for {known} devices, "
                f"given {self.tensor_parallel}; use one of these or --calibration ideal"
            )
        sizes, seconds = np.asarray(table.knots[self.tensor_parallel]).T
        within = np.exp(np.interp(np.log(message_bytes), np.log(sizes), np.log(seconds)))
        beyond = np.maximum(message_bytes / sizes[-1], 1.0)
        return np.maximum(self._constants.allreduce * within * beyond, floor)


def _blend(a: Floats, b: Floats, power: float) -> Floats:
    """(a^p + b^p)^(1/p): the sum at p = 1, the larger at infinity."""
    if power == np.inf:
        return np.maximum(a, b)
    if power == 1:
        return a + b
    if power == 2:
        return np.hypot(a, b)
    return (np.asarray(a) ** power + np.asarray(b) ** power) ** (1.0 / power)


def wave_factor(items: Floats, slots: float, multiprocessors: float) -> Floats:
    """How much longer `items` equal pieces of work take on `slots` places than if they kept the memory busy to the end.

    Below `slots` the kernel cuts the pieces up until they fill the device: factor 1. From there on a piece is not cut
    (FlashInfer's plan, arXiv 2501.01005), and the last, partial wave takes at least as long as one piece per
    multiprocessor, however few pieces it has.
    """
    items = np.asarray(items, float)
    left = items % slots
    idle = np.where((items < slots) | (left == 0), 0.0, np.maximum(multiprocessors - left, 0.0))
    return 1.0 + idle / np.maximum(items, 1.0)


@dataclass(frozen=True, slots=True)
class _Constants:
    """A calibration's values as plain floats, with the device's byte times."""

    per_byte: float
    per_link_byte: float
    gemm_bandwidth: float
    gemm_flops: float
    gemm_s: float
    gemm_power: float
    gemm_column_s: float
    attention_bandwidth: float
    attention_flops: float
    attention_s: float
    reread_per_query: float
    small_s: float
    small_bandwidth: float
    allreduce: float
    pass_s: float
    token_s: float
    weight_unpack_s: float
    full_cache_s: float
    sparse_cache_s: float
    multiprocessors: float
    attention_slots: float

    @classmethod
    def of(cls, gpu: GPUSpec, c: Calibration) -> "_Constants":
        multiprocessors = gpu.multiprocessors.value if gpu.multiprocessors else 0.0
        resident = c.attention_blocks_per_multiprocessor
        return cls(
            per_byte=1.0 / gpu.memory_bandwidth_bytes_per_s,
            per_link_byte=1.0 / gpu.link_bytes_per_s if gpu.link_bytes_per_s else 0.0,
            gemm_bandwidth=c.gemm_bandwidth_fraction.value,
            gemm_flops=c.gemm_flops_fraction.value,
            gemm_s=c.gemm_fixed_s.value,
            gemm_power=c.gemm_blend_power.value,
            gemm_column_s=c.gemm_column_s.value if c.gemm_column_s else 0.0,
            attention_bandwidth=c.attention_bandwidth_fraction.value,
            attention_flops=c.attention_flops_fraction.value,
            attention_s=c.attention_fixed_s.value,
            reread_per_query=c.kv_reread_per_query.value,
            small_s=c.small_kernel_s.value,
            small_bandwidth=c.small_bandwidth_fraction.value,
            allreduce=c.allreduce_multiplier.value,
            pass_s=c.pass_fixed_s.value,
            token_s=c.token_s.value,
            weight_unpack_s=c.weight_unpack_s.value if c.weight_unpack_s else 0.0,
            full_cache_s=c.full_cache_pass_s.value if c.full_cache_pass_s else 0.0,
            sparse_cache_s=c.sparse_cache_sequence_s.value if c.sparse_cache_sequence_s else 0.0,
            multiprocessors=multiprocessors,
            attention_slots=resident.value * multiprocessors if resident else 0.0,
        )
