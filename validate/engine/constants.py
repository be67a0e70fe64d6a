"""The constants that the rows of an engine can determine, and their search ranges.

They are the costs outside kernels, and the efficiencies. `fit` finds which of them the rows determine.
Constants that such rows do not show (all-reduces at one TP degree, the upkeep of a KV method) are not fitted.
The bounds follow from the measured times, because an engine on a CPU needs milliseconds for work that needs
microseconds on a GPU.
"""

import statistics
from collections.abc import Sequence

from perfmodel.specs import CONSTANTS, Calibration, Constant, ModelSpec
from perfmodel.validate.engine.timing import Timing
from perfmodel.validate.solving import Parameter

FRACTIONS = ("gemm_bandwidth_fraction", "gemm_flops_fraction", "attention_bandwidth_fraction")
FACTORS = ("gemm_factor", "attention_bandwidth_fraction")
"""Shares of the peak rates. If the base has a curve of GEMM efficiency, one factor on this curve is fitted
instead.
"""
DRAFTED = "drafted_token_s"
"""Time per drafted token, which depends on the engine's version. It is fitted only if the base has a
value.
"""
ROW = "gemm_row_factor"
"""Factor on GEMMs of one row, if the base has separate kernels for them (`rows_apart`)."""
EXPERTS = "expert_factor"
"""The factor on kernels of routed experts, which dominate a step of such a model."""
OF_STEPS = ("attention_fixed_s", "pass_fixed_s", "token_s")
"""Costs of any step outside its kernels: per layer (each has one attention call), per pass, and per token.
The cost per layer separates a target's passes from a draft's, because the target has many more layers.
"""
SPECULATIVE = ("iteration_fixed_s", "iteration_sequence_s", "kv_reread_per_query")
"""Constants that only an iteration with drafts determines."""
LOWEST_FRACTION = 0.02
"""Smallest factor, and smallest share of a peak rate, in a search."""
WITHIN = 0.5
"""Prior width of a pass's costs outside its kernels, as a fraction of the median step."""
OUTSIDE = 0.05
"""Prior width of an iteration's costs outside its passes, as a fraction of the median step, if there is no
baseline step to separate them.
"""
FIRST_TOKEN = 0.2
"""Cost of the first drafted token: the draft's pass over accepted tokens, sampling and rejection.

The cost is stated as a fraction of the shortest iteration (`iteration_fixed_s`), and of the shortest
iteration per sequence (`iteration_sequence_s`). The fraction is the width of the prior if there is a baseline
step. On an unknown CPU (`ideal`), it is also the centre of the prior.

Measured fractions: 21 to 26 % of an iteration at K = 5 (vLLM 0.32 on a CPU), and a tenth of an iteration at K
= 1, with no part per sequence (vLLM 0.22 with EAGLE-3 on H200).
"""
ON_GPU = {"iteration_fixed_s": 0.1, "iteration_sequence_s": 0.0}
"""The centres of the prior on devices other than CPUs, as fractions of the shortest iteration. `FIRST_TOKEN`
has the measurement.
"""


def around(name: str, expected: float, spread: float, low: float, high: float) -> Parameter:
    """The search range of a constant.

    - expected: the centre of the prior.
    - spread: the width of the prior.
    - low, high: the bounds of the search.
    """
    return Parameter(name, expected, low, high, unit=spread, origin=expected, spread=spread)


def sought(
    base: Calibration, timings: Sequence[Timing], target: ModelSpec, cpu: bool = False
) -> dict[str, Parameter]:
    """Name -> search range of each constant that can be fitted to these rows. The costs of an iteration
    outside its passes need rows of iterations, because rows of single passes do not contain them.

    - cpu: whether the device is a CPU.
    """
    iterations = [t for t in timings if t.kind == "iteration"]
    drafting = [t for t in iterations if t.gamma]
    names = list(OF_STEPS)
    names += SPECULATIVE if drafting else ("kv_reread_per_query",)
    names += FRACTIONS if base.gemm_efficiency is None else FACTORS
    if drafting and getattr(base, DRAFTED).value:
        names.append(DRAFTED)
    if target.moe and base.expert_kernels:
        names.append(EXPERTS)
    if ROW not in base.absent:
        names.append(ROW)
    searches = {name: _search(name, base, timings, target.num_hidden_layers) for name in names}
    if drafting and len(drafting) < len(iterations):
        shortest_s = {
            "iteration_fixed_s": min(t.seconds for t in drafting),
            "iteration_sequence_s": min(t.seconds / t.batch for t in drafting),
        }
        for name, seconds in shortest_s.items():
            start = getattr(base, name).value
            if base.kind == "ideal":
                start = seconds * (FIRST_TOKEN if cpu else ON_GPU[name])
            high = searches[name].high
            searches[name] = around(name, min(start, high), FIRST_TOKEN * seconds, 0.0, high)
    return searches


def rows_apart(base: Calibration) -> Calibration:
    """A variant of a base calibration for engines like llama.cpp on a CPU. GEMMs of one row have separate
    kernels, and the times of loading and computing are added.
    """
    one = Constant(value=1.0, source="where a fit starts")
    name = f"{base.name} with one-row GEMMs"
    return base.replace(**{"name": name, "kind": "literature", ROW: one, "gemm_blend_power": one})


def _search(name: str, base: Calibration, timings: Sequence[Timing], layers: int) -> Parameter:
    """The search range of a constant.

    - layers: the number of the target's layers.
    """
    value = getattr(base, name).value
    if name in (*FRACTIONS, *FACTORS, EXPERTS, ROW):
        start = max(value, LOWEST_FRACTION)
        most = 1.0 if CONSTANTS[name].unit == "fraction" else 2.0 * start
        return around(name, start, start / 2, LOWEST_FRACTION, most)
    if name == DRAFTED:
        return around(name, value, value / 2, 0.0, 2.0 * value)
    if name == "kv_reread_per_query":
        return around(name, value, 0.5, 0.0, 1.0)
    seconds_per_unit = [t.seconds / _units(name, t, layers) for t in timings]
    most = max(seconds_per_unit)
    share = OUTSIDE if name.startswith("iteration") else WITHIN
    spread = statistics.median(seconds_per_unit) * share
    return around(name, min(value, most), spread, 0.0, most)


def _units(name: str, timing: Timing, layers: int) -> float:
    """How often a step has the cost of a constant."""
    if name == "token_s":
        return timing.batch * (timing.gamma + 1)
    if name == "iteration_sequence_s":
        return timing.batch
    return float(layers) if name == "attention_fixed_s" else 1.0
