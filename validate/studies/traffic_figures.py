"""Computes the part of the accuracy record about served runs: errors by study and by engine."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from perfmodel.specs import Scatter, Z
from perfmodel.validate.accuracy.partitions import VerdictCount
from perfmodel.validate.fit.errors import same_side
from perfmodel.validate.solving import grouped
from perfmodel.validate.studies.held_out_errors import HeldOutErrors
from perfmodel.validate.studies.measured_gaps import SERVER
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.published_engines import source_of
from perfmodel.validate.studies.served_runs import STUDIES, HeldOutBy, ServedRun, runs
from perfmodel.validate.studies.traffic import Compared, compare

Late = Mapping[tuple[str, str], float]
"""(engine, study) -> the standard deviation of the log error of TTFT in the engine's other studies."""


def ttft_error(runs_of: Iterable[Compared], engine: str, without: str = "") -> Scatter:
    """The error of an engine's TTFT. Runs of other engines have less weight.

    - runs_of: the simulated runs.
    - without: a study whose runs are not used.
    """
    known = [c for c in runs_of if "ttft_mean_ms" in c.ratios and c.run.study != without]
    off = np.log([c.ratios["ttft_mean_ms"] for c in known])
    engines = [c.run.engine for c in known]
    studies = [c.run.study for c in known]
    errors = HeldOutErrors(off, engines, studies)
    return errors.scatter(engine, "replays of traffic.csv, each study left out")


FIGURES = {
    "tpot_mean_ms": "TPOT",
    "closed_form": "TPOT, closed form",
    "output_tokens_per_s": "throughput",
    "ttft_mean_ms": "TTFT",
    "tpot_p99_ms": "TPOT p99",
    "ttft_p99_ms": "TTFT p99",
}
"""Figure of a served run -> its name in tables. ``closed_form`` is the TPOT of the closed form, without a
simulation.
"""


def _engine_heading(c: Compared) -> str:
    title = ENGINES[c.run.engine]
    return f"{title}, data-parallel attention" if c.run.data_parallel_attention else title


GROUPINGS: dict[str, Callable[[Compared], str]] = {
    "studies": lambda c: str(c.run.study),
    "engines": _engine_heading,
}
"""Name of a grouping -> a function that returns the heading of a run's group."""


def figures() -> dict[str, Any]:
    """The part of the accuracy record about served runs. For each kind of fold, it has the errors by study
    and by engine, and the predicted over the measured TPOT of every run.
    """
    everything = [run for study in STUDIES for run in runs(study)]
    compared = {by: [compare(run, by) for run in everything] for by in HeldOutBy}
    late = {}
    for engine, study in {(c.run.engine, c.run.study) for c in compared[HeldOutBy.STUDY]}:
        late[engine, study] = ttft_error(compared[HeldOutBy.STUDY], engine, study).log_rms
    return {by.value: _fold_errors(of_fold, late) for by, of_fold in compared.items()}


def _fold_errors(runs_of_fold: Sequence[Compared], late: Late) -> dict[str, Any]:
    """The errors for one kind of fold: by study, by engine, and for all runs."""
    errors: dict[str, Any] = {}
    for name, heading_of in GROUPINGS.items():
        groups = grouped(runs_of_fold, heading_of)
        errors[name] = {heading: _errors(group, runs_of_fold, late) for heading, group in groups.items()}
    errors["all"] = _errors(runs_of_fold, runs_of_fold, late)
    errors["tpot"] = {c.run.id: c.ratios["tpot_mean_ms"] for c in runs_of_fold}
    return errors


def _errors(group: Sequence[Compared], everything: Sequence[Compared], late: Late) -> dict[str, Any]:
    """The errors of a group of runs.

    - everything: all runs. They include the baselines of the group's speedups.
    """
    right, total = _sides(group, everything)
    tpot_logs = [math.log(c.ratios["tpot_mean_ms"]) for c in group]
    sources = {source_of(str(c.run.source)) for c in group}
    mape = {name: _mean(c.ratios.get(name) for c in group) for name in FIGURES}
    return {
        "rows": len(group),
        "sources": len(sources),
        "bias": math.expm1(np.mean(tpot_logs)),
        "growth": _growth(group),
        "mape": mape,
        "inside": _inside(group, late),
        "right": right,
        "asked": total,
    }


def _inside(group: Sequence[Compared], late: Late) -> dict[str, float | None]:
    """Figure -> the share of the runs inside the 90 % interval; None if no run has the figure. The intervals
    of throughput and TPOT have the same width. The width for TTFT is at least that of the errors in the other
    studies.
    """
    shares = {}
    for name in ("tpot_mean_ms", "output_tokens_per_s", "ttft_mean_ms"):
        inside = []
        for c in group:
            if name not in c.ratios:
                continue
            log_error = c.log_error
            if name == "ttft_mean_ms":
                log_error = max(log_error, late.get((c.run.engine, c.run.study), 0.0))
            inside.append(abs(math.log(c.ratios[name])) <= Z * log_error)
        shares[name] = float(np.mean(inside)) if inside else None
    return shares


def _mean(ratios: Iterable[float | None]) -> float | None:
    known = [abs(ratio - 1.0) for ratio in ratios if ratio is not None]
    return float(np.mean(known)) if known else None


def _place(run: ServedRun, *names: str) -> tuple[Any, ...]:
    """A key that is equal for runs of one server with similar lengths (equal when rounded to thousands of
    tokens).

    - names: further columns that must be equal.
    """
    columns = (getattr(run, name) for name in (*SERVER, *names))
    lengths = np.round((run.output_tokens, run.input_tokens), -3)
    return *columns, *lengths


def _growth(some: Sequence[Compared]) -> float | None:
    """The mean change of the error of TPOT with the number of clients; None if no run has a counterpart. Each
    error is relative to that with the fewest clients on the same server with the same draft and lengths.
    """
    names = ("target", "engine_version", "draft", "steps")
    by_clients = sorted(some, key=lambda c: c.run.concurrency)
    alike = grouped(by_clients, lambda c: _place(c.run, *names)).values()
    ratios: list[float | None] = []
    for fewest, *others in alike:
        for c in others:
            if c.run.concurrency > fewest.run.concurrency:
                ratios.append(c.ratios["tpot_mean_ms"] / fewest.ratios["tpot_mean_ms"])
    return _mean(ratios)


def _sides(some: Sequence[Compared], everything: Sequence[Compared]) -> VerdictCount:
    """Counts the correct verdicts on speedups. A speedup is the TPOT of the run without a draft over the TPOT
    of the run with a draft.
    """
    base = {_place(c.run, "concurrency"): c for c in everything if c.run.steps == 0}
    right = []
    for c in some:
        plain = base.get(_place(c.run, "concurrency"))
        if c.run.steps and plain is not None:
            speedup = plain.run.measured("tpot_mean_ms") / c.run.measured("tpot_mean_ms")
            off = plain.ratios["tpot_mean_ms"] / c.ratios["tpot_mean_ms"]
            right.append(same_side(speedup * off, speedup))
    return VerdictCount(sum(right), len(right))
