"""Which constants of a calibration an engine's rows may free, and where each is sought.

What an engine adds to its kernels, and the efficiencies themselves: the rows decide (`fit`). What such rows cannot see
(all-reduces at one degree, a KV method's upkeep) is not sought. Bounds follow from the measured times: an engine on a
CPU spends milliseconds where one on a GPU spends microseconds.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from perfmodel.specs.calibration import CONSTANTS, Calibration
from perfmodel.specs.model import ModelSpec
from perfmodel.validate.engine.timing import Timing

FRACTIONS = ("gemm_bandwidth_fraction", "gemm_flops_fraction", "attention_bandwidth_fraction")
FACTORS = ("gemm_factor", "attention_bandwidth_fraction")
"""Shares of what is possible; where a curve gives those of GEMMs, the one factor on it."""
EXPERTS = "expert_factor"
"""The one factor on kernels of routed experts, which are most of such a model's step."""
STEP = ("attention_fixed_s", "pass_fixed_s", "token_s")
"""What any step may show beside its kernels: each layer (one attention call in each), a pass, each token in it.

The layers tell a target's passes from a draft's: what an engine spends on every layer is many times as much in a
target, what it spends on a pass is the same in both."""
SPECULATIVE = ("iteration_fixed_s", "iteration_sequence_s", "kv_reread_per_query")
"""What only a drafting iteration can show."""
LOWEST_FRACTION = 0.02
WITHIN, OUTSIDE = 0.5, 0.05
"""Prior widths in median steps: of what a pass may spend beside its kernels, and an iteration outside its passes.

Without a baseline step the two cannot be told apart by rows; published engines spend milliseconds within passes and
tenths of that outside (vLLM 0.22 with EAGLE-3, gpt-oss-120b on H200: 0.55 of 5.5 ms).
"""


@dataclass(frozen=True, slots=True)
class Sought:
    """Where a constant is looked for: around `start`, give or take `spread`, between `low` and `high`."""

    start: float
    spread: float
    low: float
    high: float


def sought(base: Calibration, timings: Sequence[Timing], target: ModelSpec) -> dict[str, Sought]:
    """The candidates for these rows, by name.

    Whole passes say nothing of what an iteration spends outside them.
    """
    iterations = [t for t in timings if t.kind == "iteration"]
    speculative = SPECULATIVE if any(t.gamma for t in iterations) else ("kv_reread_per_query",)
    shares = FRACTIONS if base.gemm_efficiency is None else FACTORS
    experts = (EXPERTS,) if target.moe and base.expert_kernels else ()
    layers = target.num_hidden_layers
    return {name: _place(name, base, timings, layers) for name in (*STEP, *speculative, *shares, *experts)}


def _place(name: str, base: Calibration, timings: Sequence[Timing], layers: int) -> Sought:
    value = getattr(base, name).value
    if name in (*FRACTIONS, *FACTORS, EXPERTS):
        start = max(value, LOWEST_FRACTION)
        most = 1.0 if CONSTANTS[name].unit == "fraction" else 2.0 * start
        return Sought(start, start / 2, LOWEST_FRACTION, most)
    if name == "kv_reread_per_query":
        return Sought(value, 0.5, 0.0, 1.0)
    shared = {"token_s": lambda t: t.batch * (t.gamma + 1), "iteration_sequence_s": lambda t: t.batch}
    shared["attention_fixed_s"] = lambda t: float(layers)
    each = [t.seconds / shared.get(name, lambda t: 1.0)(t) for t in timings]
    share = OUTSIDE if name.startswith("iteration") else WITHIN
    return Sought(min(value, max(each)), statistics.median(each) * share, 0.0, max(each))
