"""Converts counts to seconds: the ideal roofline of each operation, and the calibrated time of a pass.

``lower_s`` is the physical bound: loading and computing overlap perfectly inside an operation, and operations
do not overlap. ``serial_s`` is the time at peak rates without any overlap. ``predicted_s`` uses the
efficiencies and fixed costs of the calibration. The roofline is that of Williams et al. 2009. docs/model.md
describes the calibration of each operation with an example. The class of an operation's kind (`costs.kinds`)
uses the constants of that operation. This module uses the constants of a whole pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from perfmodel.costs.device_group import DeviceGroup
from perfmodel.costs.kinds.experts import ExpertsOp
from perfmodel.costs.kinds.host import HostLaunchesOp
from perfmodel.costs.kinds.messages import MessageOp
from perfmodel.costs.kinds.offload import ExpertsBesideHost, PartlyOnHost
from perfmodel.costs.operation import Op, RatedOp, over
from perfmodel.costs.pass_time import LIMITERS, PassTime
from perfmodel.costs.split import Split, seconds_of, terms_of
from perfmodel.operations import Floats, summed


@dataclass(frozen=True)
class Machine(DeviceGroup):
    """A group of devices that runs passes. It computes the times of operations and of passes."""

    def split(self, op: Op) -> Split:
        """Calibrated seconds of one operation with all its kernels, by term."""
        if not self.host_layers and not self.host_experts:
            return op.split(self)
        on_device = ExpertsBesideHost(op) if self.host_experts and isinstance(op, ExpertsOp) else op
        return PartlyOnHost(op, on_device).split(self) if self.host_layers else on_device.split(self)

    def predicted_s(self, ops: Sequence[Op], tokens: Floats, known: Sequence[Floats] | None = None) -> Floats:
        """Calibrated seconds of a pass over `tokens` tokens of all sequences. It is the time of the device or
        the time of the host, whichever is longer.

        - known: the times of the pass's operations, if they were computed before.
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
        sent = list[Floats]()
        computed = list[Floats]()
        for op, op_s in zip(ops, seconds, strict=True):
            (sent if isinstance(op, MessageOp) else computed).append(op_s)
        return overlap * np.minimum(summed(sent), summed(computed))

    def _with_host(self, ops: Sequence[Op], device_s: Floats) -> Floats:
        """Seconds of a pass in which the device works for `device_s`. If the host's launches take longer, the
        pass takes as long as these launches.
        """
        host_s = over(ops, lambda op: op.host_s(self) if isinstance(op, HostLaunchesOp) else 0.0)
        if isinstance(host_s, float) and not host_s:
            return device_s
        return np.maximum(host_s, device_s)

    def outside_ops_s(self, tokens: Floats) -> dict[str, Floats]:
        """The calibrated seconds of a pass outside its operations, by the name of each cost."""
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
        """Calibrated seconds of a pass outside its operations. All of them are fixed costs."""
        return sum(self.outside_ops_s(tokens).values(), start=0.0)

    def op_predicted_s(self, op: Op) -> Floats:
        """Calibrated seconds of one operation with all its kernels."""
        return op.sum_of(seconds_of(self.split(op)))

    def op_limiter(self, op: Op) -> str:
        """The limiter of one operation with scalar counts: the name of the largest term of its calibrated
        time.
        """
        terms = _by_term([op], [self.split(op)])
        return max(terms, key=lambda name: float(terms[name]))

    def time(self, ops: Sequence[Op], tokens: Floats) -> PassTime[Floats]:
        """All times of a pass. The times broadcast over the shapes of the operations' counts."""
        splits = [self.split(op) for op in ops]
        terms = _by_term(ops, splits)
        terms["fixed"] = terms["fixed"] + self._pass_s(tokens)
        seconds = [op.sum_of(seconds_of(split)) for op, split in zip(ops, splits, strict=True)]
        hidden_s = self._hidden_s(ops, seconds)
        terms["comm"] = terms["comm"] - hidden_s
        device_s = summed([self._pass_s(tokens), *seconds]) - hidden_s
        predicted_s = self._with_host(ops, device_s)
        terms["host"] = predicted_s - device_s
        flop_s = over(ops, lambda op: op.flops_s(self))
        sent_s = over(ops, lambda op: op.lower_s(self) if isinstance(op, MessageOp) else 0.0)
        param_load_s, kv_load_s, activation_s = (
            over(ops, attrgetter(f"cost.{name}")) * self.byte_s
            for name in ("weight_bytes", "kv_bytes", "activation_bytes")
        )
        return PassTime(
            lower_s=over(ops, lambda op: op.lower_s(self)),
            serial_s=flop_s + param_load_s + kv_load_s + activation_s + sent_s,
            predicted_s=predicted_s,
            param_load_s=param_load_s,
            kv_load_s=kv_load_s,
            flop_s=flop_s,
            activation_s=activation_s,
            terms_s=terms,
        )

    def load_and_compute_s(self, ops: Sequence[Op]) -> tuple[Floats, Floats]:
        """The seconds in which a pass loads weights and KV, and the seconds in which it computes. Both are at
        calibrated efficiencies and without fixed costs.
        """
        load: Floats = 0.0
        compute: Floats = 0.0
        for op in ops:
            if isinstance(op, RatedOp):
                byte_s, flop_s = op.rates(self)
                load = load + op.sum_of((op.cost.weight_bytes + op.cost.kv_bytes) * byte_s)
                compute = compute + op.sum_of(op.cost.flops * flop_s)
        return load, compute


def _by_term(ops: Sequence[Op], splits: Sequence[Split]) -> dict[str, Floats]:
    """Seconds of all operations by term. The terms add up to the time of the operations."""
    terms: dict[str, Floats] = dict.fromkeys(LIMITERS, 0.0)
    for op, split in zip(ops, splits, strict=True):
        for term, seconds in terms_of(split):
            terms[term] = terms[term] + op.sum_of(seconds)
    return terms
