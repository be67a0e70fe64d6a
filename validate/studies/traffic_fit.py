"""``python -m perfmodel.validate.studies.traffic_fit``: the costs of a request, fitted to ``traffic.csv``.

Every run is replayed once with the present constants, and once with each of them changed. Residuals are then
linear in the constants, and a fit without any rows is a small least-squares problem. An engine on one
architecture is shrunk towards the engine, engines towards the values of all rows, and these towards the
present constants, so a second call takes a second step. Writes ``hardware/fitted/requests.yaml`` and, for the
accuracy gate, the constants of every fold, ``results/requests.json``. With ``--engines`` only those engines
are fitted, and both files keep the constants of the others.
"""

import argparse
import datetime
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from perfmodel.operations import Array
from perfmodel.reading import data_folder
from perfmodel.specs.engines.request_costs import EngineRequests, request_constants
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import significant
from perfmodel.validate.studies.measured_gaps import gaps
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.served_runs import COOKBOOK, LONG_PROMPTS, STUDIES, HeldOutBy, ServedRun, runs
from perfmodel.validate.studies.traffic import LONG_OUTPUT, Compared, compare, folds, of_run
from perfmodel.validate.studies.traffic_figures import ttft_error
from perfmodel.writing import write_all

WEIGHED = {"tpot_mean_ms": 0.05, "output_tokens_per_s": 0.05, "ttft_mean_ms": 0.15}
"""Figure -> its log error from causes other than these constants."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale of a constant: its logarithm, or itself from 0 to `most`. step: of a trial. common, engine:
    spreads.
    """

    step: float
    common: float
    engine: float
    most: float = math.inf
    log: bool = False

    def moved(self, value: float, by: float) -> float:
        """The constant changed by this much on its scale, within its limits."""
        if self.log:
            return value * math.exp(by)
        return min(max(value + by, 0.0), self.most)

    def trial(self, value: float) -> float:
        """The constant after one step on its scale; at its upper limit, after one step down."""
        return self.moved(value, self.step if self.log or value + self.step <= self.most else -self.step)

    def ends(self, value: float) -> tuple[float, float]:
        """The smallest and the largest value of the constant in a fit."""
        if self.log:
            return (-math.inf, math.inf)
        return (-value, self.most - value)

    def between(self, before: float, after: float) -> float:
        """Distance between two values on the scale."""
        return math.log(after / before) if self.log else after - before


SCALES = {
    "request_s": Scale(5e-3, 10e-3, 10e-3),
    "prompt_token_s": Scale(2e-6, 4e-6, 4e-6),
    "prompt_factor": Scale(0.1, 0.3, 0.15, log=True),
    "prompt_kernel_s": Scale(5e-6, 2e-5, 2e-5),
    "passes_ahead": Scale(0.4, 0.5, 0.3, most=1.0),
    "reserved_bytes": Scale(0.5, 0.7, 0.3, log=True),
}
COMMAND = "python -m perfmodel.validate.studies.traffic_fit"
KEPT = " The other engines' constants and the common ones are those of an earlier fit."
FIT_ROUNDS = 10
"""Rounds of a fit."""
FAR_RESIDUAL = 3.0
"""The residual above which a run counts less."""
MOST_RUNS = 30.0
"""Most runs that a study counts as."""
LEAST_RUNS = 20
"""Number of runs of an engine that state its own error of TPOT; one with fewer has that of all."""


@dataclass(frozen=True, slots=True)
class StraightLines:
    """A run's residuals, and their slopes per unit of each constant's scale, in units of `WEIGHED`."""

    run: ServedRun
    off: Array
    slopes: Array

    def around(self, costs: EngineRequests) -> "StraightLines":
        """The same, with residuals at these constants."""
        move = _between(request_constants().engines[self.run.place], costs)
        return replace(self, off=self.off + self.slopes @ move)


class Replay(Protocol):
    """Replays a run, as `compare` does: with given costs, or with those of fits without its group `by`."""

    def __call__(
        self, run: ServedRun, by: HeldOutBy, costs: EngineRequests | None = None, measured: bool = False
    ) -> Compared: ...


def straight_lines_of(run: ServedRun, replay: Replay = compare) -> StraightLines:
    """Replays a run with the present constants, and with each of them changed; passes as measured."""
    known = request_constants().engines[run.place]

    def off(costs: EngineRequests) -> Array:
        ratios = replay(run, HeldOutBy.LENGTH, costs, measured=True).ratios
        residuals = []
        for name, width in WEIGHED.items():
            residuals.append(math.log(ratios[name]) / width if name in ratios else 0.0)
        return np.array(residuals)

    base = off(known)
    slopes = []
    for name, scale in SCALES.items():
        before = getattr(known, name)
        after = scale.trial(before)
        moved = off(known.replace(**{name: after})) - base
        slopes.append(moved / scale.between(before, after))
    return StraightLines(run, base, np.array(slopes).T)


def solved(lines: Sequence[StraightLines], spreads: Array, start: Array, before: EngineRequests) -> Array:
    """Changes of the constants from `before` that fit the residuals best, on the scales of `SCALES`.

    Least squares with a penalty for deviations from `start`, which are expected to have the standard
    deviations `spreads`. A run with a large residual counts less (`FAR_RESIDUAL`).
    """
    low, high = np.array([scale.ends(getattr(before, name)) for name, scale in SCALES.items()]).T
    off = np.concatenate([line.off for line in lines])
    slopes = np.concatenate([line.slopes for line in lines])
    runs_of = Counter(line.run.study for line in lines)
    shares = [min(MOST_RUNS / runs_of[line.run.study], 1.0) for line in lines]
    counted = np.repeat(shares, [line.off.size for line in lines])
    weights = np.ones(off.size)
    move = start
    for _ in range(FIT_ROUNDS):
        weighed = (counted * weights)[:, None] * slopes
        normal = weighed.T @ slopes + np.diag(spreads**-2.0)
        right = start / spreads**2 - weighed.T @ off
        move = within(normal, right, low, high)
        residuals = off + slopes @ move
        weights = 1.0 / (1.0 + (residuals / FAR_RESIDUAL) ** 2)
    return np.asarray(move)


def within(normal: Array, right: Array, low: Array, high: Array) -> Array:
    """The solution of normal equations. Constants that would exceed a limit are fixed at that limit."""
    move = np.linalg.solve(normal, right)
    fixed = np.zeros(move.size, bool)
    while True:
        beyond = (move < low) | (move > high)
        beyond &= ~fixed
        if not beyond.any():
            return np.asarray(move)
        fixed |= beyond
        free = ~fixed
        move = np.clip(move, low, high)
        rest = right[free] - normal[np.ix_(free, fixed)] @ move[fixed]
        move[free] = np.linalg.solve(normal[np.ix_(free, free)], rest)


def fitted(lines: Sequence[StraightLines]) -> dict[str, EngineRequests]:
    """Constants by engine and ``common``, from these runs."""
    common = np.array([scale.common for scale in SCALES.values()])
    engine = np.array([scale.engine for scale in SCALES.values()])
    before = request_constants()
    shared = solved(lines, common, np.zeros(len(SCALES)), before.common)
    after = {"common": _moved(before.common, shared)}
    engines = {line.run.engine for line in lines}
    places = {line.run.place for line in lines}
    for name in sorted(engines | places):  # an engine stands before its places
        costs = before.engines[name]
        of_engine = after.get(name.partition(".")[0])
        start = shared if of_engine is None else _between(costs, of_engine)
        of_place = [line for line in lines if name in (line.run.engine, line.run.place)]
        move = solved([line.around(costs) for line in of_place], engine, start, costs)
        after[name] = _moved(costs, move)
    return after


def _between(before: EngineRequests, after: EngineRequests) -> Array:
    return np.array([s.between(getattr(before, n), getattr(after, n)) for n, s in SCALES.items()])


def _moved(before: EngineRequests, move: Array) -> EngineRequests:
    values = {}
    for (name, scale), by in zip(SCALES.items(), move.tolist(), strict=True):
        value = scale.moved(getattr(before, name), by)
        values[name] = significant(value, 3)
    return before.replace(**values)


def without(
    lines: Sequence[StraightLines], by: Callable[[ServedRun], str]
) -> dict[str, dict[str, EngineRequests]]:
    """Held-out group -> constants of the other runs."""
    names = dict.fromkeys(by(run) for study in STUDIES for run in runs(study))
    return {name: fitted([line for line in lines if by(line.run) != name]) for name in names}


def kept(
    before: Mapping[str, EngineRequests], after: dict[str, EngineRequests], engines: Sequence[str]
) -> dict[str, EngineRequests]:
    """`after` for these engines, on all architectures, and `before` for the others and ``common``. Without
    engines, `after`.
    """
    of_engines = {name: costs for name, costs in after.items() if name.partition(".")[0] in engines}
    return {**before, **of_engines} if engines else after


def texts(engines: Sequence[str] = (), replay: Replay = compare) -> dict[Path, str]:
    """Fits these engines, or all without any: the text of both files, by path."""
    everything = [run for study in STUDIES for run in runs(study)]
    used = [run for run in everything if _is_fitted(run)]
    lines = [straight_lines_of(run, replay) for run in used]
    known = request_constants()
    whole = kept({"common": known.common, **known.engines}, fitted(lines), engines)
    left_out = _left_out(lines, engines)
    costs = {run: of_run(left_out[run.study], run) for run in everything}
    lines_of_file = _header(engines)
    lines_of_file.append(f"common: {_flow(whole.pop('common'))}")
    lines_of_file.append("engines:")
    lines_of_file += [f"  {name}: {_flow(of_place)}" for name, of_place in whole.items()]
    lines_of_file.append("errors:")
    lines_of_file += _error_lines(_tpot_errors(used, costs, replay))
    lines_of_file.append("ttft_errors:")
    lines_of_file += _ttft_lines([replay(run, HeldOutBy.STUDY, of_fold) for run, of_fold in costs.items()])
    lines_of_file.append("acceptance_std:")
    for name, std in known.acceptance_std.items():
        lines_of_file.append(f"  {name}: {{value: {std.value}, source: '{std.source}'}}")
    lines_of_file.append("")
    folds_json = json.dumps(_plain(left_out), indent=1)
    return {
        data_folder("hardware") / "fitted" / "requests.yaml": "\n".join(lines_of_file),
        BUNDLED / "requests.json": folds_json + "\n",
    }


def _ttft_lines(compared: Sequence[Compared]) -> list[str]:
    """The errors of TTFT to state, of all engines together and of each."""
    lines = []
    for name in ("all", *ENGINES):
        error = ttft_error(compared, name.replace("all", ""))
        log_rms = significant(error.log_rms, 2)
        lines.append(f"  {name}: {{log_rms: {log_rms}, rows: {error.rows}, source: '{error.source}'}}")
    return lines


def _is_fitted(run: ServedRun) -> bool:
    """Whether constants are fitted to a run: long prompts, or short outputs on one engine process."""
    if run.study == LONG_PROMPTS:
        return True
    if run.study == COOKBOOK or run.data_parallel_attention:
        return False
    return run.output_tokens < LONG_OUTPUT


def _left_out(lines: Sequence[StraightLines], engines: Sequence[str]) -> dict[str, dict[str, EngineRequests]]:
    """Held-out group -> constants of the other runs, with engines that are not fitted as recorded. A new
    group was in no fit so far.
    """
    known = request_constants()
    recorded = folds()
    left_out = {}
    for by in HeldOutBy:
        for name, fit in without(lines, by.group_of).items():
            before = {"common": known.common, **known.engines}
            if name in recorded:
                before = {place: EngineRequests(**costs) for place, costs in recorded[name].items()}
            left_out[name] = kept(before, fit, engines)
    return left_out


def _tpot_errors(
    used: Sequence[ServedRun], costs: Mapping[ServedRun, EngineRequests], replay: Replay
) -> dict[str, list[float]]:
    """``tpot`` and each engine -> log errors of TPOT with measured passes, each study left out."""
    off = {}
    for run in used:
        if gaps(run, np.ones(1)) is not None:
            replayed = replay(run, HeldOutBy.STUDY, costs[run], measured=True)
            off[run] = math.log(replayed.ratios["tpot_mean_ms"])
    errors = {"tpot": [*off.values()]}
    for run, error in off.items():
        errors.setdefault(str(run.engine), []).append(error)
    return errors


def _header(engines: Sequence[str]) -> list[str]:
    """The first lines of ``requests.yaml``: how it was made, from what, and when."""
    command = [COMMAND]
    if engines:
        command += ["--engines", *engines]
    return [
        "# What a request costs on a serving engine beside the passes of the model: written by",
        f"# `{' '.join(command)}`",
        f"# from results/published/traffic.csv.{KEPT if engines else ''}",
        "fitted_on: [traffic.csv]",
        f"date: {datetime.datetime.now(datetime.UTC).date()}",
    ]


def _error_lines(errors: Mapping[str, Sequence[float]]) -> list[str]:
    """The errors of TPOT to state, of engines with `LEAST` runs or more."""
    lines = []
    for name, off in errors.items():
        if len(off) >= LEAST_RUNS:
            log_rms = significant(float(np.sqrt(np.mean([error**2 for error in off]))), 2)
            source = "replays of traffic.csv with measured passes, each study left out"
            lines.append(f"  {name}: {{log_rms: {log_rms}, rows: {len(off)}, source: '{source}'}}")
    return lines


def _plain(left_out: Mapping[str, Mapping[str, EngineRequests]]) -> dict[str, dict[str, Any]]:
    """The constants of held-out groups in JSON types."""
    plain = {}
    for group, by_place in left_out.items():
        plain[group] = {place: costs.as_mapping() for place, costs in by_place.items()}
    return plain


def _flow(costs: EngineRequests) -> str:
    """The costs as a mapping of YAML in one line."""
    pairs = [f"{name}: {json.dumps(value)}" for name, value in costs.as_mapping().items()]
    return "{" + ", ".join(pairs) + "}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fits the costs of a request on serving engines.")
    parser.add_argument("--engines", nargs="+", choices=[*ENGINES], default=(), help="default: all")
    write_all(texts(parser.parse_args().engines), "traffic_fit")
