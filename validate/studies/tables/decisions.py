"""Tables of decisions: how often a verdict was correct, and how much speed a predicted draft length loses."""

from typing import Any

from perfmodel.specs import LLAMACPP, load_gpu
from perfmodel.validate.studies.decisions import NEAR
from perfmodel.validate.studies.engine_folds import RATIO_FOLDS
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.tables.cells import (
    Record,
    Rows,
    percent,
    right_if_it_pays,
    right_if_not,
    right_of_all,
    wrong_of_sure,
)


def verdicts(record: Record) -> Rows:
    """Counts of verdicts on speedups whose source was left out of the fit, by engine."""
    yield ["source left out", "right if it pays off", "right if it does not pay off", "certain but wrong"]
    for name, side in record["sources"]["sides"].items():
        title = "all serving engines" if name == "all" else name
        yield [title, right_if_it_pays(side), right_if_not(side), wrong_of_sure(side)]


def verdicts_by_fold(record: Record) -> Rows:
    """The number of correct verdicts of each engine, by kind of fold. The last row of the table is a rule
    that needs no prediction.
    """
    sides = record["engines"]["sides"]
    yield ["left out of the fit", *ENGINES.values(), "certain but wrong"]
    for by, fold in RATIO_FOLDS.items():
        right = [right_of_all(sides[by][engine]) for engine in ENGINES]
        yield [fold.words, *right, wrong_of_sure(sides[by]["all"])]
    counts = [sides["seen"][engine] for engine in ENGINES]
    yield ["rule without a model: always speculate", *(f"{c['pays']} of {c['rows']}" for c in counts), "-"]


def lengths(record: Record) -> Rows:
    """The throughput that is lost with the predicted best draft length, compared with the measured best
    length. MagicDec's paper prints only the best length, so its loss is a prediction.
    """
    near = f"of them within {percent(NEAR, 0)} %"
    yield ["sweeps of", "left out", "sweeps", near, "mean loss %", "worst loss %", "worst sweep"]
    gamma = record["gamma_optimal"]["held-out"]
    losses = percent(gamma["regret_mean"]), percent(gamma["regret_worst"])
    yield [
        "MagicDec, eight A100 (predicted loss)",
        "batch and context",
        str(gamma["rows"]),
        "-",
        *losses,
        "-",
    ]
    best_length = record["sources"]["best_length"]
    for name, title in (("engines", "serving engines"), (LLAMACPP, "llama.cpp")):
        of = best_length[name]
        near = f"{of['near']} (as shipped {of['near_shipped']})"
        losses = percent(of["lost"]), percent(of["worst"])
        yield [title, "source", str(of["sweeps"]), near, *losses, _worst(of["worst_choice"])]


def _worst(choice: dict[str, Any]) -> str:
    """A description of the sweep with the largest loss: its server, the chosen length and the best length."""
    server = f"{choice['model']} on {load_gpu(choice['hardware']).title} ({choice['source']})"
    chosen = f"{_length(choice['gamma'])}: {choice['speedup']:.2f}x"
    best = f"best, {_length(choice['best_gamma'])}: {choice['best_speedup']:.2f}x"
    return f"{server}; predicted best, {chosen}; measured {best}"


def _length(gamma: int | None) -> str:
    return "no draft" if gamma is None else f"γ {gamma}"
