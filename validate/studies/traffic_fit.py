"""``python -m perfmodel.validate.studies.traffic_fit`` fits the costs of a request to ``traffic.csv``.

The fit itself is in `request_fit`. The command writes ``hardware/fitted/requests.yaml``. It also writes the
constants of every fold to ``results/requests.json``, which the accuracy check needs. With ``--engines``, it
fits only these engines, and both files keep the constants of the others.
"""

import argparse
import datetime
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.reading import data_folder
from perfmodel.specs.engines.request_costs import EngineRequests, request_constants
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import significant
from perfmodel.validate.studies.measured_gaps import gaps
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.request_fit import (
    Replay,
    StraightLines,
    fitted,
    straight_lines_of,
    without,
)
from perfmodel.validate.studies.served_runs import COOKBOOK, LONG_PROMPTS, STUDIES, HeldOutBy, ServedRun, runs
from perfmodel.validate.studies.traffic import Compared, compare, folds, of_run
from perfmodel.validate.studies.traffic_figures import ttft_error
from perfmodel.writing import write_all

COMMAND = "python -m perfmodel.validate.studies.traffic_fit"
KEPT = " The other engines' constants and the common ones are those of an earlier fit."
LONG_OUTPUT = 4096
"""Number of output tokens from which on the costs of a request are negligible."""
LEAST_RUNS = 20
"""Smallest number of runs with which an engine states its own error of TPOT."""


def kept(
    before: Mapping[str, EngineRequests], after: dict[str, EngineRequests], engines: Sequence[str]
) -> dict[str, EngineRequests]:
    """The constants of `after` for some engines, and those of `before` for other engines and for ``common``.

    - engines: the engines; if empty, all constants are those of `after`.
    """
    of_engines = {name: costs for name, costs in after.items() if name.partition(".")[0] in engines}
    return {**before, **of_engines} if engines else after


def refitted_files(engines: Sequence[str] = (), replay: Replay = compare) -> dict[Path, str]:
    """Path -> new text of both files.

    - engines: the engines to fit; all if empty.
    - replay: the function that simulates a run.
    """
    everything = [run for study in STUDIES for run in runs(study)]
    used = [run for run in everything if is_fitted(run)]
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
    lines_of_file += error_lines(_tpot_errors(used, costs, replay))
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
    """The lines of the file with the errors of TTFT, for all engines together and for each engine."""
    lines = []
    for name in ("all", *ENGINES):
        error = ttft_error(compared, name.replace("all", ""))
        log_rms = significant(error.log_rms, 2)
        lines.append(f"  {name}: {{log_rms: {log_rms}, rows: {error.rows}, source: '{error.source}'}}")
    return lines


def is_fitted(run: ServedRun) -> bool:
    """Whether the costs of a request are fitted to a run. Its prompts must be long, or its outputs must be
    short and come from one engine process.
    """
    if run.study == LONG_PROMPTS:
        return True
    if run.study == COOKBOOK or run.data_parallel_attention:
        return False
    return run.output_tokens < LONG_OUTPUT


def _left_out(lines: Sequence[StraightLines], engines: Sequence[str]) -> dict[str, dict[str, EngineRequests]]:
    """Held-out group -> the constants that were fitted to the other runs. Engines that are not fitted keep
    their recorded constants. For a group that is not recorded yet, they keep the present constants, because
    no fit has used the group's runs.
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
    """Engine, or ``tpot`` for all engines -> the log errors of TPOT with measured pass times.

    - used: the runs of the fit.
    - costs: run -> the costs of a request that were fitted without its study.
    """
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
    """The first lines of ``requests.yaml``: the command, the data and the date."""
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


def error_lines(errors: Mapping[str, Sequence[float]]) -> list[str]:
    """The lines of the file with the errors of TPOT. Engines with fewer than `LEAST_RUNS` runs have none."""
    lines = []
    for name, off in errors.items():
        if len(off) >= LEAST_RUNS:
            log_rms = significant(float(np.sqrt(np.mean([error**2 for error in off]))), 2)
            source = "replays of traffic.csv with measured passes, each study left out"
            lines.append(f"  {name}: {{log_rms: {log_rms}, rows: {len(off)}, source: '{source}'}}")
    return lines


def _plain(left_out: Mapping[str, Mapping[str, EngineRequests]]) -> dict[str, dict[str, Any]]:
    """The constants of all held-out groups in JSON types."""
    plain = {}
    for group, by_place in left_out.items():
        plain[group] = {place: costs.as_mapping() for place, costs in by_place.items()}
    return plain


def _flow(costs: EngineRequests) -> str:
    """The costs as a YAML mapping in one line."""
    pairs = [f"{name}: {json.dumps(value)}" for name, value in costs.as_mapping().items()]
    return "{" + ", ".join(pairs) + "}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fits the costs of a request on serving engines.")
    parser.add_argument("--engines", nargs="+", choices=[*ENGINES], default=(), help="default: all")
    write_all(refitted_files(parser.parse_args().engines), "traffic_fit")
