"""What each term of an engine's calibration is worth: everything fitted anew without it, judged on held-out rows."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from perfmodel.specs.calibration import CONSTANTS, Calibration, load_bundled
from perfmodel.specs.fits import Relation
from perfmodel.specs.published_engines import DecodeRow
from perfmodel.validate.studies import iterations as ratios
from perfmodel.validate.studies.engines import RATIO_KEYS
from perfmodel.validate.studies.held_out import Values, own_rows, refits, replay
from perfmodel.validate.studies.parameters import DECODING, SPECULATING, Parameter
from perfmodel.validate.studies.robust import fit
from perfmodel.validate.studies.steps import Array, DecodeRows, group_of

FOLDS: tuple[Relation, ...] = ("model", "gpu")
"""What is left out together: new models and new devices are what a term must help on."""
WITHOUT = {
    "no bound by the longest request and its splits": ("multiprocessor_bandwidth",),
    "no time to quantise activations": ("quantise_s",),
    "GEMMs as in the tables": ("gemm_factor", "gemm_factor_fp8"),
    "experts as in the tables": ("expert_factor",),
    "all experts alike": ("expert_popularity",),
    "attention as in the tables": ("attention_bandwidth_fraction", "attention_bandwidth_fraction_fp8"),
    "no time of a layer with a latent or a state": ("latent_layer_s", "state_layer_s"),
}
"""What is changed -> the constants that are not fitted and not there."""
RATIOS_WITHOUT = {
    "a draft's pass costs no more than a target's of its size": "all.draft_pass_s",
    "no time outside the passes": "all.iteration_fixed_s",
    "drafted tokens route independently": "all.routing_independence",
    "verification reads the cache once": "all.kv_reread_per_query",
    "SGLang's time outside the passes as vLLM's": "sglang.iteration_fixed_s",
}
"""What is changed -> the place of the constant that is not fitted and not there."""
RATIOS_WITH = {
    "a time outside the passes by sequence too": Parameter("all.iteration_sequence_s", 3e-6, 0.7),
    "SGLang's draft passes apart too": Parameter("sglang.draft_pass_s", 4e-4, 1.0),
}
"""What was tried and dropped."""
RATIO_FOLDS: tuple[Relation, ...] = ("seen", "model")


def _no_curves(kernels: Calibration) -> Calibration:
    return kernels.model_copy(update={"gemm_efficiency": None})


def _no_expert_kernels(kernels: Calibration) -> Calibration:
    return kernels.model_copy(update={"expert_kernels": None})


def _no_graphs(kernels: Calibration) -> Calibration:
    return kernels.model_copy(update={"graph_tokens": None})


def _no_fp8_cache(kernels: Calibration) -> Calibration:
    absent = Calibration.model_fields["attention_bandwidth_fraction_fp8"].default
    return kernels.model_copy(update={"attention_bandwidth_fraction_fp8": absent})


def _waves(kernels: Calibration) -> Calibration:
    blocks = load_bundled("a100-sxm-80gb.magicdec").attention_blocks_per_multiprocessor
    return kernels.model_copy(update={"attention_blocks_per_multiprocessor": blocks})


CHANGED: dict[str, Callable[[Calibration], Calibration]] = {
    "GEMMs by one share of bandwidth and one of the peak": _no_curves,
    "experts as GEMMs": _no_expert_kernels,
    "no CUDA-graph padding": _no_graphs,
    "the research stack's attention waves": _waves,
}


def ablations(whole: Values) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and errors of each, one after the other. whole: the constants that all rows say."""
    rows = own_rows()
    yield "as shipped", _judge(DecodeRows(rows, DECODING))
    yield "batches of one length", _judge(DecodeRows(rows, DECODING, ragged=False))
    for name, change in CHANGED.items():
        yield name, _judge(DecodeRows(rows, DECODING, change=change))
    for name, gone in WITHOUT.items():
        yield name, _judge(DecodeRows(rows, [p for p in DECODING if p.name not in gone], change=_absent(gone)))
    iterations = ratios.iterations(whole)
    yield "iterations as shipped", _judge_ratios(iterations, SPECULATING)
    for name, place in RATIOS_WITHOUT.items():
        yield name, _judge_ratios(iterations, [p for p in SPECULATING if p.place != place])
    for name, added in RATIOS_WITH.items():
        yield name, _judge_ratios(iterations, [*SPECULATING, added])


def _absent(names: tuple[str, ...]) -> Callable[[Calibration], Calibration]:
    """Those that multiply the tables stay as in the tables; others are as in a calibration without them."""
    added = {p.name for p in DECODING if not p.times} | {"quantise_s"}
    update = {name: Calibration.model_fields[name].default for name in names if name in added and name in CONSTANTS}
    return lambda kernels: kernels.model_copy(update=update)


def _judge(rows: DecodeRows) -> dict[str, Any]:
    whole, slopes = fit(rows)
    found = {"in sample": _mean(rows.predict(whole.values) - rows.logs, rows.rows)}
    for by in FOLDS:
        found[by] = _mean(replay(rows, by, refits(rows, slopes, by, whole.values)), rows.rows)
    return found


def _judge_ratios(rows: list[ratios.Iteration], parameters: Sequence[Parameter]) -> dict[str, Any]:
    whole = ratios.fit(rows, parameters)
    found = {"in sample": _figure(ratios.off_by(rows, whole.values))}
    for by in RATIO_FOLDS:
        keys = [RATIO_KEYS[by](row) for row in rows]
        folds = ratios.refits(rows, keys, whole.values, parameters)
        off = [float(ratios.off_by([row], folds[key])[0]) for row, key in zip(rows, keys, strict=True)]
        found[by] = _figure(np.array(off))
    return found


def _mean(off: Array, rows: tuple[DecodeRow, ...]) -> float:
    """Mean absolute error of the groups' means."""
    groups: dict[object, list[float]] = {}
    for row, error in zip(rows, np.abs(np.expm1(off)), strict=True):
        groups.setdefault(group_of(row), []).append(float(error))
    return _figure(np.log1p([float(np.mean(errors)) for errors in groups.values()]))


def _figure(off: Array) -> float:
    return float(f"{np.mean(np.abs(np.expm1(off))):.3g}")
