"""The constants that an engine's rows may determine, and their search ranges.

They are the costs outside kernels, and the efficiencies; the rows decide (`fit`). Constants that such rows do
not show (all-reduces at one degree, a KV method's upkeep) are not fitted. Bounds follow from the measured
times: an engine on a CPU takes milliseconds where one on a GPU takes microseconds.
"""

import statistics
from collections.abc import Callable, Sequence

from perfmodel.specs import CONSTANTS, Calibration, Constant, ModelSpec
from perfmodel.validate.engine.timing import Timing
from perfmodel.validate.solving import Parameter

FRACTIONS = ("gemm_bandwidth_fraction", "gemm_flops_fraction", "attention_bandwidth_fraction")
FACTORS = ("gemm_factor", "attention_bandwidth_fraction")
"""Shares of the peak rates. A GEMM with a curve has one factor on it."""
DRAFTED = "drafted_token_s"
"""Time per drafted token, by version. It is searched around the base's value, if it has one."""
ROW = "gemm_row_factor"
"""Time of GEMMs of one row, if the base has separate kernels for them (`rows_apart`)."""
EXPERTS = "expert_factor"
"""The factor on kernels of routed experts, which dominate a step of such a model."""
STEP = ("attention_fixed_s", "pass_fixed_s", "token_s")
"""Costs of any step outside its kernels: per layer (one attention call each), per pass, and per token.

Layers separate a target's passes from a draft's: the target has many times more layers, while the cost per
pass is the same.
"""
SPECULATIVE = ("iteration_fixed_s", "iteration_sequence_s", "kv_reread_per_query")
"""Constants that only an iteration with drafts determines."""
LOWEST_FRACTION = 0.02
WITHIN, OUTSIDE = 0.5, 0.05
"""Prior widths in median steps: of a pass's costs outside its kernels, and of an iteration's costs outside
its passes without a baseline step to separate them.
"""
FIRST_TOKEN = 0.2
"""The step from no drafting to one drafted token: a draft's own pass over accepted tokens, sampling and
rejecting.

It is a fraction of the shortest iteration (`iteration_fixed_s`), and of the shortest one per sequence
(`iteration_sequence_s`): the prior width with a baseline and, on an unknown CPU (`ideal`), its centre. vLLM
0.32 on a CPU spent 21 to 26 % of an iteration at K = 5 on it. vLLM 0.22 with EAGLE-3 on H200 spent a tenth of
one at K = 1, and none of it per sequence.
"""
ON_GPU = 0.1
"""The centre of `iteration_fixed_s` on devices other than CPUs."""


def around(name: str, expected: float, spread: float, low: float, high: float) -> Parameter:
    """The search for a constant: around an expectation, in steps of its prior width, between bounds."""
    return Parameter(name, expected, low, high, unit=spread, origin=expected, spread=spread)


def sought(
    base: Calibration, timings: Sequence[Timing], target: ModelSpec, cpu: bool = False
) -> dict[str, Parameter]:
    """The constants that may be fitted to these rows, by name.

    cpu: whether the device is a CPU. Whole passes do not show the time of an iteration outside them.
    """
    drafting = [t for t in timings if t.kind == "iteration" and t.gamma]
    speculative = SPECULATIVE if drafting else ("kv_reread_per_query",)
    shares = FRACTIONS if base.gemm_efficiency is None else FACTORS
    conditional = {
        DRAFTED: drafting and getattr(base, DRAFTED).value,
        EXPERTS: target.moe and base.expert_kernels,
        ROW: ROW not in base.absent,
    }
    names = (*STEP, *speculative, *shares, *(name for name, applies in conditional.items() if applies))
    places = {name: _place(name, base, timings, target.num_hidden_layers) for name in names}
    if drafting and any(t.kind == "iteration" and not t.gamma for t in timings):
        shortest = min(t.seconds for t in drafting), min(t.seconds / t.batch for t in drafting)
        for name, seconds in zip(SPECULATIVE, shortest, strict=False):
            share = FIRST_TOKEN if cpu else ON_GPU * (name == "iteration_fixed_s")
            start = share * seconds if base.kind == "ideal" else getattr(base, name).value
            high = places[name].high
            places[name] = around(name, min(start, high), FIRST_TOKEN * seconds, 0.0, high)
    return places


def rows_apart(base: Calibration) -> Calibration:
    """The base of an engine like llama.cpp on a CPU: GEMMs of one row have separate kernels, loading and
    computing add up, and no time is expected outside passes.
    """
    one = Constant(value=1.0, source="where a fit starts")
    return base.replace(
        **{
            "name": f"{base.name}, one row apart",
            "kind": "literature",
            ROW: one,
            "gemm_blend_power": one,
        }
    )


def _place(name: str, base: Calibration, timings: Sequence[Timing], layers: int) -> Parameter:
    value = getattr(base, name).value
    if name in (*FRACTIONS, *FACTORS, EXPERTS, ROW):
        start = max(value, LOWEST_FRACTION)
        most = 1.0 if CONSTANTS[name].unit == "fraction" else 2.0 * start
        return around(name, start, start / 2, LOWEST_FRACTION, most)
    if name == DRAFTED:
        return around(name, value, value / 2, 0.0, 2.0 * value)
    if name == "kv_reread_per_query":
        return around(name, value, 0.5, 0.0, 1.0)
    shared: dict[str, Callable[[Timing], float]] = {
        "token_s": lambda t: t.batch * (t.gamma + 1),
        "iteration_sequence_s": lambda t: t.batch,
        "attention_fixed_s": lambda t: float(layers),
    }
    parts = [t.seconds / shared.get(name, lambda t: 1.0)(t) for t in timings]
    share = OUTSIDE if name.startswith("iteration") else WITHIN
    return around(name, min(value, max(parts)), statistics.median(parts) * share, 0.0, max(parts))
