"""Converts counts to seconds: the ideal roofline of each op, and the calibrated time of a pass.

``lower_s`` is the physical bound (perfect overlap inside an op, none between ops). ``serial_s`` has no
overlap at peak rates. ``predicted_s`` uses the calibration's efficiencies and fixed costs. The roofline is
Williams et al. 2009; docs/model.md describes the calibration by op with an example. All op constants enter in
`Machine.split`, those of attention in `costs.attention`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter

import numpy as np

from perfmodel.costs.attention import AttentionKernels, narrow_cache
from perfmodel.costs.fabric import Fabric
from perfmodel.costs.monotone import monotone_shares
from perfmodel.costs.pass_time import PassTime
from perfmodel.costs.split import Part, Split, by_term, over, seconds_of, unstacked
from perfmodel.errors import InputError
from perfmodel.operations import Cost, Floats, Op, summed
from perfmodel.specs import Calibration, GPUSpec, attention_of, interpolated, over_host, serving_engines
from perfmodel.specs.calibrations.engine_constants import ONE, ExpertKernel
from perfmodel.specs.engines.serving import HostPasses

USUAL_FORM = {"fp8": "fp8", "fp4": "nvfp4", "int8": "fp8"}
"""Peak -> the format whose kernels stand in for other formats that compute at this peak."""
PACKED = "q4_k"
"""The format of llama.cpp that stands in for its other formats below one byte per weight."""
MESSAGES = ("allreduce", "exchange")
"""Kinds of ops that send data between devices."""
MEASURED_HOST_LINK = 32e9
"""Host links of the servers behind the all-reduce tables over PCIe, in bytes/s each way: PCIe 4.0 x16."""


@dataclass(frozen=True)
class Machine:
    """A group of devices of one type, and how well its software stack uses them.

    kv_reread, attention_backend: see `AttentionKernels`. drafts: whether the passes are a draft's, for which
    some engines have a separate time. host_experts: share of the MoE layers whose experts a processor reads
    from the host's memory, at host_bytes_per_s. host_layers: share of all layers that run on the host. host:
    how its processor runs them; None for one that reads at the whole bandwidth. fabric: links beyond a box;
    None within one. schedulers: ranks that each schedule and sample their own sequences.
    """

    gpu: GPUSpec
    calibration: Calibration
    tensor_parallel: int = 1
    kv_reread: float | None = None
    drafts: bool = False
    attention_backend: str | None = None
    host_experts: float = 0.0
    host_layers: float = 0.0
    host_bytes_per_s: float = 1.0
    host: HostPasses | None = None
    fabric: Fabric | None = None
    schedulers: int = 1

    def __post_init__(self) -> None:
        degree = self._devices_of_box
        if degree > 1 and self.gpu.link_rate(degree) is None:
            raise InputError(f"--tp: {self.gpu.name} has no link to another device, given {degree}")

    @cached_property
    def over_host(self) -> bool:
        """Whether the devices of a box communicate over PCIe."""
        return self._devices_of_box > 1 and self.gpu.over_host(self._devices_of_box)

    @property
    def _devices_of_box(self) -> int:
        """Devices of the group in one box."""
        if self.fabric is None:
            return self.tensor_parallel
        return min(self.tensor_parallel, self.fabric.node_devices)

    @property
    def _host_rate(self) -> float:
        """Bytes per second at which the host's processor reads."""
        return self.host_bytes_per_s * (1.0 if self.host is None else self.host.reach)

    @cached_property
    def _byte_s(self) -> float:
        """Seconds per byte at the peak bandwidth of a device."""
        return 1.0 / self.gpu.memory_bandwidth_bytes_per_s

    @cached_property
    def attention(self) -> AttentionKernels:
        """The attention kernels of a device."""
        return AttentionKernels(
            self.gpu, self.calibration, self._byte_s, self.kv_reread, self.attention_backend
        )

    def host_s(self, op: Op) -> Floats:
        """Time of the host for a pass with these launches, during which the device works too: 0 where whole
        CUDA graphs hold the pass.

        Engines launch attention themselves in every pass of some versions, in passes of a draft, and in
        verifications for which no graph was captured.
        """
        c = self.calibration
        engine = attention_of(c.stack)
        if engine is None:
            return 0.0
        each = c.host_layer_s.value
        if op.head == "latent":
            each = c.host_latent_layer_s.value or each
        if engine.host_launches and engine.host_launches.holds(c.version) and not self.drafts:
            return c.host_pass_s.value + op.kernels * each
        piecewise = op.kernels * c.host_piecewise_layer_s.value
        if self.drafts:
            return piecewise if engine.piecewise_drafts else 0.0
        backend = self.attention.facts_of(op.head, narrow_cache(op))
        uncaptured = op.varying and engine.piecewise_drafts
        if uncaptured or (backend and backend.graphs_one):
            return np.where(np.greater(op.query, 1.0), piecewise, 0.0)
        return 0.0

    def split(self, op: Op) -> Split:
        """Calibrated time of one op with all its kernels, by term. Op constants enter only here."""
        if self.host_layers:
            return self._partly_on_host(op)
        if op.kind == "linear":
            return self._linear(op)
        if op.kind == "attention":
            return self.attention.split(op)
        c = self.calibration
        if op.kind == "small":
            moved = op.cost.activation_bytes * (self._byte_s / c.small_bandwidth_fraction.value)
            kernels = 0.0 if op.expert_layers and c.expert_kernels else op.kernels  # part of `expert_kernels`
            return (("fixed", kernels * c.small_kernel_s.value), ("activations", moved)), None
        if op.kind == "upkeep":
            once = op.kernels * c.full_cache_pass_s.value
            kept = op.work_items * c.sparse_cache_sequence_s.value
            return (("fixed", once + kept),), None
        if op.kind == "host":  # the device waits for the rest of a pass: see `predicted_s`
            return (("host", 0.0),), None
        if op.kind == "exchange":
            assert self.fabric is not None
            return (("comm", op.kernels * self.fabric.exchange_s(op)),), None
        return (
            ("comm", op.kernels * self._allreduce_s(op)),
            ("fixed", op.work_items * c.wide_norm_s.value),
        ), None

    def _partly_on_host(self, op: Op) -> Split:
        """Layers in turn: those on the device, and the bytes of the others at the host's rate.

        The host is no faster than the device.
        """
        alone, overlap = replace(self, host_layers=0.0).split(op)
        kept = 1.0 - self.host_layers
        every = seconds_of(replace(op, stacked=False), (alone, overlap))
        read = op.cost.bytes / self._host_rate
        if op.kind == "linear" and self.host is not None:
            further = np.minimum(op.rows, self.host.most_tokens) - 1.0
            read = read * (1.0 + self.host.token_share * np.maximum(further, 0.0))
        slower = np.maximum(read, every)
        both = (*((term, s * kept) for term, s in alone), ("param_load", self.host_layers * slower))
        if overlap is None:
            return both, None
        loaded, computed, power = overlap
        return both, (tuple((term, s * kept) for term, s in loaded), computed * kept, power)

    def _linear(self, op: Op) -> Split:
        c = self.calibration
        cost = op.cost
        if op.expert_layers and self.host_experts:
            return self._beside_host(op)
        if op.expert_layers and c.expert_kernels:
            kernels = c.expert_kernels.kernels
            return self._experts(op, kernels[curve_of(kernels, op)])
        byte_s, flop_s = self._gemm_rates(op)
        weights = cost.weight_bytes * byte_s + op.packed_weights * c.weight_unpack_s.value
        columns = op.columns * c.gemm_column_s.value if c.gemm_column_s.value else 0.0
        loaded: tuple[Part, ...] = (
            ("param_load", weights),
            ("fixed", columns),
            ("activations", cost.activation_bytes * byte_s),
        )
        fixed_s = c.gemm_fixed_s.value
        if op.compute == "fp8":
            fixed_s = c.gemm_fixed_fp8_s.value or fixed_s
        start = op.kernels * fixed_s + op.quantisations * c.quantise_s.value
        power = c.gemm_blend_power.value if c.gemm_efficiency is None else np.inf
        return (("fixed", start),), (loaded, cost.flops * flop_s, power)

    def _beside_host(self, op: Op) -> Split:
        """Routed experts. Those of some layers are read from the host's memory. The layers run in turn."""
        kept = 1.0 - self.host_experts
        cost = op.cost
        less = Cost(cost.flops * kept, cost.weight_bytes * kept, 0.0, cost.activation_bytes * kept)
        own = replace(
            op,
            cost=less,
            kernels=op.kernels * kept,
            expert_layers=round(op.expert_layers * kept),
            held_bytes=op.held_bytes * kept,
        )
        device = replace(self, host_experts=0.0)
        alone, overlap = device._linear(own)
        slower = np.maximum(cost.weight_bytes / self._host_rate, seconds_of(op, device._linear(op)))
        return (*alone, ("param_load", self.host_experts * slower)), overlap

    def _experts(self, op: Op, kernel: ExpertKernel) -> Split:
        """Routed experts, by the constants of their own kernels. These include quantising the inputs and
        moving them.
        """
        factor = self.calibration.expert_factor.value
        engine = serving_engines().get(self.calibration.stack)
        by_default = self.calibration.expert_layer_s.value
        if engine and op.form in engine.tuned_experts:
            by_default = 0.0
        start = op.expert_layers * (factor * kernel.fixed_s + by_default)
        bandwidth, flops = (min(f / factor, 1.0) for f in (kernel.bandwidth_fraction, kernel.flops_fraction))
        read: Floats = op.cost.weight_bytes
        if alone := self.calibration.expert_alone_tokens.value:
            # up to so many tokens, each reads its own experts; more tokens never take less time
            own = op.cost.flops * (op.bytes_per_value / 2.0) / op.rows
            read = np.maximum(read, np.minimum(own * np.minimum(op.rows, alone), op.held_bytes))
        loaded = read * (self._byte_s / bandwidth)
        computed = op.cost.flops * (1.0 / (self.gpu.peak_flops(op.compute) * flops))
        return (("fixed", start), ("param_load", loaded), ("flops", computed)), None

    def _gemm_rates(self, op: Op) -> tuple[Floats, Floats]:
        """Calibrated seconds per byte and per FLOP of a GEMM."""
        c = self.calibration
        byte_s: Floats
        flop_s: Floats
        if c.gemm_efficiency is None:
            loaded_share = c.gemm_bandwidth_fraction.value
            computed_share = c.gemm_flops_fraction.value
            if op.compute == "fp8":
                loaded_share = c.gemm_bandwidth_fraction_fp8.value or loaded_share
                computed_share = c.gemm_flops_fraction_fp8.value or computed_share
            byte_s = self._byte_s / loaded_share
            flop_s = 1.0 / (self.gpu.peak_flops(op.compute) * computed_share)
        else:
            shares = c.gemm_efficiency.knots[curve_of(c.gemm_efficiency.knots, op)]
            peak = self.gpu.peak_flops(op.compute) * c.gemm_flops_factor.value
            ridge = peak * self._byte_s * op.bytes_per_value / 2.0
            rows = np.maximum(op.rows, 1.0)
            curves = monotone_shares(shares, ridge)
            factor = c.gemm_factor.value
            if op.compute == "fp8":
                factor *= c.gemm_factor_fp8.value
            elif op.compute == "fp4":
                factor *= c.gemm_factor_fp4.value
            loading, computing = (np.minimum(interpolated(knots, rows) * factor, 1.0) for knots in curves)
            byte_s = self._byte_s / loading
            flop_s = 1.0 / (peak * computing)
        if c.gemm_row_factor is ONE:
            return byte_s, flop_s
        alone = np.where(np.less_equal(op.rows, 1.0), c.gemm_row_factor.value, 1.0)
        return byte_s * alone, flop_s * alone

    def predicted_s(self, ops: Sequence[Op], tokens: Floats, known: Sequence[Floats] | None = None) -> Floats:
        """Calibrated time in seconds of a pass over `tokens` tokens of all sequences: of the device, or of
        the host if it takes longer. known: the times of its ops.
        """
        if known is None:
            known = [self.op_predicted_s(op) for op in ops]
            device_s = summed([self._pass_s(tokens), *known])
        else:
            device_s = sum(known, start=self._pass_s(tokens))
        return self._with_host(ops, device_s - self._hidden_s(ops, known))

    def _hidden_s(self, ops: Sequence[Op], seconds: Sequence[Floats]) -> Floats:
        """Time that two micro-batches save: one computes while the other communicates."""
        overlap = self.fabric.overlap if self.fabric else 0.0
        if not overlap:
            return 0.0
        sent = summed([s for op, s in zip(ops, seconds, strict=True) if op.kind in MESSAGES])
        computed = summed([s for op, s in zip(ops, seconds, strict=True) if op.kind not in MESSAGES])
        return overlap * np.minimum(sent, computed)

    def _with_host(self, ops: Sequence[Op], device_s: Floats) -> Floats:
        """Time of a pass in which the device works for `device_s`: that of the host's launches if they take
        longer.
        """
        host_s = over(ops, lambda op: self.host_s(op) if op.kind == "host" else 0.0)
        if isinstance(host_s, float) and not host_s:
            return device_s
        return np.maximum(host_s, device_s)

    def outside_ops_s(self, tokens: Floats) -> dict[str, Floats]:
        """Name -> calibrated seconds of the costs of a pass outside its ops."""
        c = self.calibration
        tokens = tokens if self.schedulers == 1 else tokens / self.schedulers
        costs: dict[str, Floats] = {
            "start of the pass": c.pass_fixed_s.value,
            "scheduling": c.schedule_s.value,
            "tokens of the pass": c.token_s.value * tokens,
        }
        if self.drafts:
            costs["drafted tokens"] = c.drafted_token_s.value * tokens
        return costs

    def _pass_s(self, tokens: Floats) -> Floats:
        """The cost of a pass outside its ops; all of it is fixed."""
        return sum(self.outside_ops_s(tokens).values(), start=0.0)

    def op_predicted_s(self, op: Op) -> Floats:
        """Calibrated time of one op, all its kernels."""
        return seconds_of(op, self.split(op))

    def op_limiter(self, op: Op) -> str:
        """The limiter of one op with scalar counts: the largest term of its calibrated time."""
        terms = by_term([op], [self.split(op)])
        return max(terms, key=lambda name: float(terms[name]))

    def op_lower_s(self, op: Op) -> Floats:
        """Physical lower bound of one op: max(FLOPs/peak, bytes/bandwidth). An all-reduce sends its payload
        once.
        """
        if op.kind in MESSAGES:
            return op.kernels * self._link_s(op)
        return np.maximum(op.cost.flops / self.gpu.peak_flops(op.compute), op.cost.bytes * self._byte_s)

    def time(self, ops: Sequence[Op], tokens: Floats) -> PassTime[Floats]:
        """All times of a pass, broadcast over the shapes of the op counts."""
        splits = [self.split(op) for op in ops]
        terms = by_term(ops, splits)
        terms["fixed"] = terms["fixed"] + self._pass_s(tokens)
        seconds = list(map(seconds_of, ops, splits))
        hidden_s = self._hidden_s(ops, seconds)
        terms["comm"] = terms["comm"] - hidden_s
        device_s = summed([self._pass_s(tokens), *seconds]) - hidden_s
        predicted_s = self._with_host(ops, device_s)
        terms["host"] = predicted_s - device_s
        flop_s = over(
            ops, lambda op: 0.0 if op.kind in MESSAGES else op.cost.flops / self.gpu.peak_flops(op.compute)
        )
        sent_s = over(ops, lambda op: self.op_lower_s(op) if op.kind in MESSAGES else 0.0)
        param_load_s, kv_load_s, activation_s = (
            over(ops, attrgetter(f"cost.{name}")) * self._byte_s
            for name in ("weight_bytes", "kv_bytes", "activation_bytes")
        )
        return PassTime(
            lower_s=over(ops, self.op_lower_s),
            serial_s=flop_s + param_load_s + kv_load_s + activation_s + sent_s,
            predicted_s=predicted_s,
            param_load_s=param_load_s,
            kv_load_s=kv_load_s,
            flop_s=flop_s,
            activation_s=activation_s,
            terms_s=terms,
        )

    def load_and_compute_s(self, ops: Sequence[Op]) -> tuple[Floats, Floats]:
        """Weight-plus-KV load time and FLOP time of a pass at calibrated efficiencies, without fixed
        costs.
        """
        load: Floats = 0.0
        compute: Floats = 0.0
        for op in ops:
            if op.kind in ("linear", "attention"):
                byte_s, flop_s = self._gemm_rates(op) if op.kind == "linear" else self.attention.rates(op)
                load = load + unstacked(op, (op.cost.weight_bytes + op.cost.kv_bytes) * byte_s)
                compute = compute + unstacked(op, op.cost.flops * flop_s)
        return load, compute

    def _link_s(self, op: Op) -> Floats:
        """Time of a message at the link's rate: the device's, which is no slower than that between nodes."""
        rate = self.gpu.link_rate(min(op.devices, self.box(op.devices)))
        message: Floats = op.message_bytes
        if op.kind == "exchange":
            message = op.message_bytes * op.rows
        return message / rate if rate else 0.0

    def box(self, devices: int) -> int:
        """Devices of a node that holds some of this many; all of them without a fabric."""
        return self.fabric.node_devices if self.fabric else devices

    def _allreduce_s(self, op: Op) -> Floats:
        """Calibrated time of one all-reduce, or of one message to the next pipeline stage, at least that of
        the message over the link.
        """
        floor = self._link_s(op)
        table = self.calibration.allreduce
        devices = op.devices
        if self.fabric and op.name == "stage send":
            return np.maximum(self.fabric.send_s(op.message_bytes), floor)
        if self.fabric and (table is None or devices not in table.knots):
            return np.maximum(self.fabric.allreduce_s(devices, op.message_bytes), floor)
        faster = 1.0
        if table is not None and self.over_host and table.link == "device":
            table = over_host()  # a curve belongs to a kind of box
            faster = (self.gpu.link_rate(devices) or MEASURED_HOST_LINK) / MEASURED_HOST_LINK
        if table is None:
            return floor
        if devices not in table.knots:
            known = ", ".join(map(str, sorted(table.knots)))
            raise InputError(
                f"--tp: calibration {self.calibration.name} has all-reduce times for {known} devices, "
                f"given {devices}; use one of these, --nodes, or --calibration ideal"
            )
        seconds = self.calibration.allreduce_multiplier.value * table.seconds(
            devices, op.message_bytes, faster
        )
        if self.over_host and not self.gpu.peer_access:
            c = self.calibration
            through = c.shared_allreduce_s.value + op.message_bytes * c.shared_allreduce_byte_s.value
            seconds = np.maximum(seconds, through)
        return np.maximum(seconds, floor)


def curve_of(curves: Collection[str], op: Op) -> str:
    """Name of the curve (or kernel) of a linear op: that of its format, of the usual format with its size or
    peak, or of bf16.
    """
    name = op.form if op.form in curves else op.form.partition("-g")[0]
    usual = (
        PACKED if op.compute == "bf16" and op.bytes_per_value < 1.0 else USUAL_FORM.get(op.compute, "bf16")
    )
    return next(n for n in (name, usual, "bf16", *curves) if n in curves)
