"""Served runs replayed; ``python -m perfmodel.validate.studies.traffic`` writes the table of docs/accuracy_tables.md.

Every row of ``results/published/traffic.csv`` whose acceptance is known is served again, request by request as it was
measured (clients, prompts, start), twice: with the median gap between chunks that was measured as the time of a pass,
which leaves the traffic model's own error, and with predicted passes. Constants of ``hardware/requests.yaml`` are read
off rows without drafts, and of short runs; rows with drafts are not fitted to.
"""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from perfmodel.answers.query import Query, resolve
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.replay import arrivals, replay
from perfmodel.queueing.steps import StepTimes, step_times
from perfmodel.specs import PACKAGE
from perfmodel.specs.fits import Z
from perfmodel.specs.request_costs import request_constants
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.uncertainty import log_error, step_log_error
from perfmodel.validate.accuracy.markdown import table

PAGE = PACKAGE.parent / "docs" / "accuracy_tables.md"
BEGIN, END = "<!-- traffic: written by validate/studies/traffic.py -->", "<!-- end of traffic -->"
FRACTION = 0.9
"""Of memory: vLLM's default in the releases that were measured."""
SPREAD = {"gpt-oss-120b, random tokens": 0.15}
"""Study -> deviation of acceptance between its requests, of random tokens; all others the default of `traffic`."""
DEFAULT_SPREAD = 0.05
STUDIES = ("gpt-oss-120b, random tokens", "Qwen3-32B, mt-bench", "Qwen3-32B, InstructCoder")


class ServedRun:
    """A row of ``traffic.csv``: its columns are attributes, numbers where they read as such, None where blank.

    requests: that were sent; times are in milliseconds, of requests.
    """

    def __init__(self, cells: dict[str, str]) -> None:
        self.cells = {name: _read(text) for name, text in cells.items()}

    def __getattr__(self, name: str) -> Any:
        return self.cells[name]

    @property
    def lengths(self) -> Lengths:
        """Of its requests; where the source gives no spread of the prompts, half their mean."""
        spread = 0.5 * self.input_tokens if self.input_std is None else self.input_std
        return Lengths(self.input_tokens, self.output_tokens, spread, self.output_std or 0.0)

    @property
    def batch(self) -> float:
        """Requests that one which decodes sees decode, itself included."""
        decoding = self.tpot_mean_ms * self.lengths.decoded
        return 1.0 + (self.concurrency - 1.0) * decoding / (decoding + self.ttft_mean_ms)


def _read(text: str) -> Any:
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        return text or None


@cache
def runs(study: str) -> tuple[ServedRun, ...]:
    """Of one study, those that say all that a replay needs."""
    with (PACKAGE / "results" / "published" / "traffic.csv").open(encoding="utf-8", newline="") as file:
        rows = [ServedRun(cells) for cells in csv.DictReader(file)]
    return tuple(r for r in rows if r.study == study and r.requests and (r.tokens_per_iteration or r.steps == 0))


@dataclass(frozen=True, slots=True)
class Compared:
    """One run: predicted over measured, for each figure; the logarithm's stated deviation of TPOT."""

    run: ServedRun
    ratios: dict[str, float]
    log_error: float


def scenario_of(run: ServedRun) -> Scenario:
    """The run's models and device, at the acceptance that was measured."""
    query = Query(
        model=run.target,
        hardware=run.hardware,
        batch=1,
        context=round(run.lengths.context),
        gamma=run.steps,
        draft=run.draft or "self",
        alpha=0.5,
        tp=run.tensor_parallel,
        weights=run.weights,
    )
    gained = run.tokens_per_iteration
    return resolve(query, Acceptance.from_tokens_per_iteration(gained, run.steps) if run.steps and gained else None)


def compare(run: ServedRun, measured_steps: bool, seed: int = 1) -> Compared:
    """Serve a run again, with the passes that were measured or with predicted ones."""
    lengths, limits, scenario = run.lengths, Limits(memory_fraction=FRACTION), scenario_of(run)
    steps = step_times(scenario, lengths, limits, [run.steps])[0]
    if measured_steps:
        steps = replace(steps, decode_s=_measured(run, steps))
    requests = arrivals(lengths, run.requests, run.request_rate, 1.0, seed)
    spread = SPREAD.get(run.study, DEFAULT_SPREAD)
    met = replay(steps, lengths, limits, requests, run.concurrency, spread, seed)
    predicted = {
        "tpot_mean_ms": 1e3 * met.tpot_s.mean(),
        "tpot_p99_ms": 1e3 * np.quantile(met.tpot_s, 0.99),
        "output_tokens_per_s": met.output_tokens.sum() / met.duration_s,
        "ttft_mean_ms": 1e3 * met.ttft_s.mean(),
        "ttft_p99_ms": 1e3 * np.quantile(met.ttft_s, 0.99),
    }
    ratios = {name: float(value / getattr(run, name)) for name, value in predicted.items() if getattr(run, name)}
    return Compared(run, ratios, _stated(scenario, run))


def _measured(run: ServedRun, steps: StepTimes) -> np.ndarray:
    """Median gaps between chunks by running batch, of the runs of this study with this draft."""
    alike = [r for r in runs(run.study) if (r.draft, r.steps) == (run.draft, run.steps)]
    # with long drafts and full batches most passes carry prompts, and the median gap is no longer decoding alone
    pairs = sorted((r.batch, r.itl_p50_ms / 1e3) for r in alike if r.itl_p50_ms and r.itl_p50_ms < 300)
    batches, seconds = map(np.array, zip(*pairs, strict=True))
    known = np.interp(steps.batches, batches, seconds)
    slope = (seconds[-1] - seconds[-2]) / (batches[-1] - batches[-2]) if len(pairs) > 1 else 0.0
    return np.asarray(known + np.maximum(steps.batches - batches[-1], 0.0) * max(slope, 0.0))


def _stated(scenario: Scenario, run: ServedRun) -> float:
    context, batch = run.lengths.context, max(round(run.batch), 1)
    alone = scenario.target_step(batch, context)
    step = step_log_error(scenario, alone, batch, context)  # type: ignore[arg-type]  # of single numbers
    gammas = np.array([run.steps])
    ratio = log_error(scenario, np.asarray(float(batch)), np.asarray(context), gammas) if run.steps else np.zeros(1)
    assert step is not None
    assert ratio is not None
    return math.hypot(float(np.max(step)), float(ratio[..., 0]), request_constants().errors["tpot"].log_rms)


FIGURES = ("tpot_mean_ms", "output_tokens_per_s", "ttft_mean_ms", "tpot_p99_ms", "ttft_p99_ms")
HEAD = ["served runs", "rows", "TPOT %", "throughput %", "TTFT %", "TPOT p99 %", "TTFT p99 %", "inside", "side of 1"]


def rows(found: dict[bool, list[Compared]]) -> list[list[str]]:
    """The table's: mean distances in percent by study, and with measured or predicted passes."""
    lines = []
    for study in STUDIES:
        for drafted in (False, True):
            for measured, everything in found.items():
                part = [c for c in everything if c.run.study == study and bool(c.run.steps) == drafted]
                words = (
                    f"{study}, {'drafts' if drafted else 'baseline'}, {'measured' if measured else 'predicted'} passes"
                )
                means = [_mean(c.ratios.get(name) for c in part) for name in FIGURES]
                inside = sum(abs(math.log(c.ratios["tpot_mean_ms"])) <= Z * c.log_error for c in part)
                side = "-" if not drafted else _sides(part, everything)
                lines.append([words, str(len(part)), *means, "-" if measured else f"{inside} of {len(part)}", side])
    return lines


def _mean(ratios: Iterable[float | None]) -> str:
    known = [abs(ratio - 1.0) for ratio in ratios if ratio is not None]
    return f"{100 * np.mean(known):.1f}" if known else "-"


def _sides(drafted: Sequence[Compared], everything: Sequence[Compared]) -> str:
    """How often the speedup of TPOT is on the side of 1 where it was measured."""
    base = {(c.run.study, c.run.concurrency): c for c in everything if c.run.steps == 0}
    right = asked = 0
    for c in drafted:
        alone = base.get((c.run.study, c.run.concurrency))
        if alone is not None and alone.run.tpot_mean_ms and c.run.tpot_mean_ms:
            measured = alone.run.tpot_mean_ms / c.run.tpot_mean_ms
            predicted = measured * alone.ratios["tpot_mean_ms"] / c.ratios["tpot_mean_ms"]
            asked, right = asked + 1, right + ((measured > 1) == (predicted > 1))
    return f"{right} of {asked}"


def section() -> str:
    """The text between the marks on the page."""
    found = {measured: [compare(r, measured) for study in STUDIES for r in runs(study)] for measured in (True, False)}
    return "\n".join([BEGIN, *table(HEAD, rows(found)), END])


def main() -> None:
    """Write the section."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(before + section() + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
