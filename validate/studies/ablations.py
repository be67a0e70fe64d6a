"""The value of each term of an engine's calibration: everything is fitted again without it and judged on
held-out rows.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from perfmodel.specs.boundary.frozen import defaults
from perfmodel.specs.calibrations.calibration import CONSTANTS, Calibration
from perfmodel.specs.calibrations.fits import Relation
from perfmodel.specs.engines.engines import DRIFT
from perfmodel.validate.solving import significant
from perfmodel.validate.studies.engines import RATIO_FOLDS, STEP_FOLDS, RatioFold
from perfmodel.validate.studies.held_out import ROUNDS, of_groups, own_rows, refits, replay
from perfmodel.validate.studies.iterations import Iterations
from perfmodel.validate.studies.parameters import DECODING, SPECULATING, Parameter
from perfmodel.validate.studies.robust import Array, FittedRows, FittedValues, Row, Values
from perfmodel.validate.studies.steps import DecodeRows, group_of

FOLDS: tuple[Relation, ...] = ("model", "gpu")
"""Held-out groups: a term must help on new models and new devices."""
WITHOUT = {
    "no time to quantise activations": ("quantise_s",),
    "GEMMs as in the tables": ("gemm_factor", "gemm_factor_fp8"),
    "experts as in the tables": ("expert_factor",),
    "all experts alike": ("expert_popularity",),
    "attention as in the tables": ("attention_bandwidth_fraction", "attention_bandwidth_fraction_fp8"),
    "no time of a layer with a latent or a state": ("latent_layer_s", "state_layer_s"),
    "no time to norm queries and keys over all heads": ("wide_norm_s",),
}
"""Change -> the constants that are neither fitted nor present."""
RATIOS_WITHOUT = {
    "no time outside the passes": "all.iteration_fixed_s",
    "drafted tokens route independently": "all.routing_independence",
    "verification reads the cache once": "all.kv_reread_per_query",
    "verification reads a latent cache as any other": "blackwell.latent_reread_per_query",
    "TensorRT-LLM's drafted tokens route as others'": "trtllm.hopper.routing_independence",
    "SGLang's time outside the passes as vLLM's": "sglang.iteration_fixed_s",
    "no time of each drafted token": "all.drafted_token_s",
    "computing at the rate of the tables": "h100-sxm-94gb.gemm_flops_factor",
}
"""Change -> the place of the constant that is neither fitted nor present."""
FOLDS_OF_RATIOS: tuple[RatioFold, ...] = ("seen", "model")
CHANGED = {
    "GEMMs by one share of bandwidth and one of the peak": {"gemm_efficiency": None},
    "experts as GEMMs": {"expert_kernels": None},
    "no CUDA-graph padding": {"graph_tokens": None},
}
"""Change -> the kernels' constants under it."""


def ablations(whole: Values) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and errors of each, one after the other. whole: the constants that all rows say."""
    rows = own_rows()

    def steps(parameters: Sequence[Parameter] = DECODING, **changed: Any) -> dict[str, float]:
        return _judge_steps(DecodeRows(rows, parameters, **changed), whole)

    yield "as shipped", steps()
    yield "batches of one length, so that no longest request binds", steps(ragged=False)
    yield "all versions alike", steps(_undated(DECODING))
    for name, change in CHANGED.items():
        yield name, steps(change=change)
    for name, gone in WITHOUT.items():
        yield name, steps([p for p in DECODING if p.name not in gone], change=_absent(gone))
    yield "iterations as shipped", _judge_ratios(whole, SPECULATING)
    yield "iterations of all versions alike", _judge_ratios(whole, _undated(SPECULATING))
    for name, place in RATIOS_WITHOUT.items():  # and without the factors on it of later versions
        left = [p for p in SPECULATING if place not in (p.place, f"all.{p.name}" if DRIFT in p.place else "")]
        yield name, _judge_ratios(whole, left)


def _undated(parameters: Sequence[Parameter]) -> list[Parameter]:
    return [p for p in parameters if DRIFT not in p.place]


def _absent(names: tuple[str, ...]) -> dict[str, Any]:
    """Those that multiply the tables stay as in the tables; others are as in a calibration without them."""
    added = {p.name for p in DECODING if not p.times} | {"quantise_s"}
    in_tables = {"attention_bandwidth_fraction_fp8"}
    gone = [name for name in names if name in added - in_tables and name in CONSTANTS]
    return {name: defaults(Calibration)[name] for name in gone}


def _judge_steps(rows: DecodeRows, near: Values) -> dict[str, float]:
    groups = [group_of(row) for row in rows.rows]
    return _judge(rows, rows.fit(near, ROUNDS), {by: STEP_FOLDS[by].key for by in FOLDS}, groups)


def _judge_ratios(whole: Values, parameters: Sequence[Parameter]) -> dict[str, float]:
    rows = Iterations(whole, parameters)
    return _judge(
        rows, rows.fit(), {by: RATIO_FOLDS[by].key for by in FOLDS_OF_RATIOS}, range(len(rows.rows))
    )


def _judge(
    rows: FittedRows[Row],
    fitted: tuple[FittedValues, Array],
    folds: Mapping[Any, Callable[[Row], Hashable]],
    groups: Sequence[Hashable],
) -> dict[str, float]:
    """Mean absolute error of groups, on average: by the fit to all rows, and by fits without the fold of each
    row.
    """
    whole, slopes = fitted
    errors = {"in sample": rows.off(whole.values)}
    for by, key in folds.items():
        errors[by] = replay(rows, key, refits(rows, key, whole.values, slopes))
    return {by: significant(float(of_groups(off, groups).mean()), 3) for by, off in errors.items()}
