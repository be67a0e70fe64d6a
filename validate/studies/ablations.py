"""What each term of an engine's calibration is worth: everything fitted anew without it, judged on held-out rows."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from perfmodel.specs.calibration import CONSTANTS, Calibration
from perfmodel.specs.engines import DRIFT
from perfmodel.specs.fits import Relation
from perfmodel.validate.solving import significant
from perfmodel.validate.studies.engines import RATIO_KEYS, RatioFold
from perfmodel.validate.studies.held_out import KEYS, fit_steps, own_rows, parts, refits, replay
from perfmodel.validate.studies.iterations import Iterations
from perfmodel.validate.studies.parameters import DECODING, SPECULATING, Parameter
from perfmodel.validate.studies.published_engines import DecodeRow
from perfmodel.validate.studies.robust import Array, Values, fit
from perfmodel.validate.studies.steps import DecodeRows, group_of

FOLDS: tuple[Relation, ...] = ("model", "gpu")
"""What is left out together: new models and new devices are what a term must help on."""
WITHOUT = {
    "no time to quantise activations": ("quantise_s",),
    "GEMMs as in the tables": ("gemm_factor", "gemm_factor_fp8"),
    "experts as in the tables": ("expert_factor",),
    "all experts alike": ("expert_popularity",),
    "attention as in the tables": ("attention_bandwidth_fraction", "attention_bandwidth_fraction_fp8"),
    "no time of a layer with a latent or a state": ("latent_layer_s", "state_layer_s"),
    "no time to norm queries and keys over all heads": ("wide_norm_s",),
}
"""What is changed -> the constants that are not fitted and not there."""
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
"""What is changed -> the place of the constant that is not fitted and not there."""
ROUNDS = 2
"""Of a fit, which begins at the constants of all rows and terms."""
RATIO_FOLDS: tuple[RatioFold, ...] = ("seen", "model")


def _no_curves(kernels: Calibration) -> Calibration:
    return kernels.model_copy(update={"gemm_efficiency": None})


def _no_expert_kernels(kernels: Calibration) -> Calibration:
    return kernels.model_copy(update={"expert_kernels": None})


def _no_graphs(kernels: Calibration) -> Calibration:
    return kernels.model_copy(update={"graph_tokens": None})


def _no_fp8_cache(kernels: Calibration) -> Calibration:
    absent = Calibration.model_fields["attention_bandwidth_fraction_fp8"].default
    return kernels.model_copy(update={"attention_bandwidth_fraction_fp8": absent})


CHANGED: dict[str, Callable[[Calibration], Calibration]] = {
    "GEMMs by one share of bandwidth and one of the peak": _no_curves,
    "experts as GEMMs": _no_expert_kernels,
    "no CUDA-graph padding": _no_graphs,
}


def ablations(whole: Values) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and errors of each, one after the other. whole: the constants that all rows say."""
    rows = own_rows()
    yield "as shipped", _judge(DecodeRows(rows, DECODING), whole)
    yield (
        "batches of one length, so that no longest request binds",
        _judge(DecodeRows(rows, DECODING, ragged=False), whole),
    )
    yield "all versions alike", _judge(DecodeRows(rows, _undated(DECODING)), whole)
    for name, change in CHANGED.items():
        yield name, _judge(DecodeRows(rows, DECODING, change=change), whole)
    for name, gone in WITHOUT.items():
        yield name, _judge(DecodeRows(rows, [p for p in DECODING if p.name not in gone], change=_absent(gone)), whole)
    yield "iterations as shipped", _judge_ratios(whole, SPECULATING)
    yield "iterations of all versions alike", _judge_ratios(whole, _undated(SPECULATING))
    for name, place in RATIOS_WITHOUT.items():
        yield name, _judge_ratios(whole, [p for p in SPECULATING if p.place != place and not _drifts(p, place)])


def _undated(parameters: Sequence[Parameter]) -> list[Parameter]:
    return [p for p in parameters if DRIFT not in p.place]


def _drifts(p: Parameter, place: str) -> bool:
    """Whether a parameter is a factor on the constant of a place of all engines."""
    return DRIFT in p.place and place == f"all.{p.name}"


def _absent(names: tuple[str, ...]) -> Callable[[Calibration], Calibration]:
    """Those that multiply the tables stay as in the tables; others are as in a calibration without them."""
    added = {p.name for p in DECODING if not p.times} | {"quantise_s"}
    in_tables = {"attention_bandwidth_fraction_fp8"}
    gone = [name for name in names if name in added - in_tables and name in CONSTANTS]
    update = {name: Calibration.model_fields[name].default for name in gone}
    return lambda kernels: kernels.model_copy(update=update)


def _judge(rows: DecodeRows, near: Values) -> dict[str, Any]:
    whole, slopes = fit_steps(rows, near, ROUNDS)
    errors = {"in sample": _mean(rows.off(whole.values), rows.rows)}
    for by in FOLDS:
        keys = [KEYS[by](row) for row in rows.rows]
        folds = refits(rows.off, rows.parameters, lambda train: parts(rows, train), keys, whole.values, slopes)
        errors[by] = _mean(replay(rows.off, keys, folds), rows.rows)
    return errors


def _judge_ratios(whole: Values, parameters: Sequence[Parameter]) -> dict[str, Any]:
    rows = Iterations(whole, parameters)
    estimate, slopes = fit(rows.off, parameters, rows.parts(np.ones(len(rows.rows), dtype=bool)))
    errors = {"in sample": _figure(rows.off(estimate.values))}
    for by in RATIO_FOLDS:
        keys = [RATIO_KEYS[by](row) for row in rows.rows]
        folds = refits(rows.off, parameters, rows.parts, keys, estimate.values, slopes)
        errors[by] = _figure(replay(rows.off, keys, folds))
    return errors


def _mean(off: Array, rows: Sequence[DecodeRow]) -> float:
    """Mean absolute error of the groups' means."""
    groups: dict[object, list[float]] = {}
    for row, error in zip(rows, np.abs(np.expm1(off)), strict=True):
        groups.setdefault(group_of(row), []).append(float(error))
    return _figure(np.log1p([float(np.mean(errors)) for errors in groups.values()]))


def _figure(off: Array) -> float:
    return significant(float(np.mean(np.abs(np.expm1(off)))), 3)
