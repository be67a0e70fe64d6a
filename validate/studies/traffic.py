"""Served runs replayed: rows of ``results/published/traffic.csv`` with enough information.

Clients, prompts and start are those of the run; pass times are predicted. No part of a prediction was fitted
to its row. Pass times come from constants of engines fitted without its rows. The costs of a request come
from fits without its study (`BY["study"]`), or without its study's runs at that draft length
(`BY["length"]`). The acceptance is the measured one; for DeepSeek-R1 that of other published runs. Assumed:
the number of InstructCoder's requests, and the spread of prompts.
"""

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from perfmodel.answers.load.tpot_errors import served_log_errors
from perfmodel.answers.load.traffic_words import DEFAULT_STD
from perfmodel.answers.question import resolve
from perfmodel.operations import Array
from perfmodel.queueing.arrivals import arrivals
from perfmodel.queueing.closed import serve
from perfmodel.queueing.load import Lengths, Limits, Load
from perfmodel.queueing.replay import ReplayedRequests, replay
from perfmodel.queueing.steps import step_times
from perfmodel.reading import data_folder
from perfmodel.specs import architecture_of, load_gpu, serving_engines
from perfmodel.specs.engines.request_costs import EngineRequests, request_constants
from perfmodel.speculation import Acceptance, Scenario, with_calibration
from perfmodel.speculation.accounts import account_of
from perfmodel.speculation.accounts.base import ServerSettings
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.studies.engines import recorded
from perfmodel.validate.studies.parameters import DECODING, DEFAULT_FLAGS, SPECULATING
from perfmodel.validate.studies.published_engines import query_of, source_of
from perfmodel.validate.studies.steps import FittedConstants, dated

SEED = 1
FRACTION = 0.9
"""Memory fraction: vLLM's default in the measured releases, and near the others'."""
DEEPSEEK, LONG_PROMPTS = "DeepSeek-R1, random tokens", "DeepSeek-R1, 8K prompts"
COOKBOOK = "SGLang, cookbook"
LONG_OUTPUT = 4096
"""Output tokens from which the costs of a request hardly matter."""
STUDIES = (
    "gpt-oss-120b, random tokens",
    "Qwen3-32B, mt-bench",
    "Qwen3-32B, InstructCoder",
    DEEPSEEK,
    LONG_PROMPTS,
    COOKBOOK,
    "SGLang, other sources",
)
PLAIN = {"sglang.blackwell.expert_layer_s", "sglang.hopper.expert_layer_s"}
"""Costs of default flags, with which the cookbook runs. SGLang's are known from these very pages, so here
they are vLLM's, known from other sources: both use Triton kernels for experts.
"""
MAIN_OF_2026_01 = "0.14"
"""The release of vLLM after the commit that ran Qwen3-32B."""


class ServedRun:
    """A row of ``traffic.csv``: its columns are attributes, with numbers converted and None for blanks.

    requests: number of sent ones. Times are in milliseconds, per request.
    """

    def __init__(self, cells: dict[str, str]) -> None:
        self.cells = {name: _read(text) for name, text in cells.items()}

    def __getattr__(self, name: str) -> Any:
        return self.cells[name]

    @property
    def lengths(self) -> Lengths:
        """Lengths of its requests. If the source gives no spread of the prompts, it is half their mean."""
        spread = 0.5 * self.input_tokens if self.input_std is None else self.input_std
        return Lengths(self.input_tokens, self.output_tokens, spread, self.output_std)

    @property
    def version(self) -> str:
        """The engine's version: the stated one, or that of its month."""
        stated = str(self.engine_version or "")
        if "dev13107" in stated:
            return MAIN_OF_2026_01
        return stated.rpartition(":")[2] or dated(self.engine, self.date)

    @property
    def place(self) -> str:
        """Key of the costs of its requests."""
        return request_constants().place(self.engine, architecture_of(self.hardware))

    @property
    def gained(self) -> float | None:
        """Measured tokens per iteration; if not published, the median over the chunks of all similar runs."""
        if self.steps == 0:
            return None
        if self.tokens_per_iteration:
            return float(self.tokens_per_iteration)
        alike = [row for row in rows_of(self.study) if self._is_like(row)]
        plain = _tokens_per_chunk(row for row in alike if row.steps == 0)
        drafting = _tokens_per_chunk(row for row in alike if row.steps == self.steps)
        return drafting / plain if plain and drafting else None

    def _is_like(self, row: "ServedRun") -> bool:
        """Whether a run has answers as long, and attention divided in the same way."""
        # and, as it is, from 256 requests on: prompts are in many gaps
        return (row.output_tokens, row.data_parallel_attention) == (
            self.output_tokens,
            self.data_parallel_attention,
        )

    @property
    def ttft(self) -> str:
        """The column of its time to the first token. For a cold server, whose first prompts took up to 73 s,
        it is the median.
        """
        return "ttft_p50_ms" if self.study == DEEPSEEK or self.ttft_mean_ms is None else "ttft_mean_ms"

    def agrees(self, run: "ServedRun", columns: Iterable[str]) -> bool:
        """Whether these columns are equal in two rows."""
        return all(self.cells[name] == run.cells[name] for name in columns)

    def measured(self, name: str) -> Any:
        """A published figure; None without one. For a latency without a published mean it is the median."""
        value = self.cells[self.ttft if name == "ttft_mean_ms" else name]
        if value is None:
            return self.cells.get(name.replace("mean", "p50"))
        return value

    @property
    def batch(self) -> float:
        """Mean number of decoding requests while a request decodes, including itself. If no wait was
        published, requests are taken not to wait.
        """
        decoding = self.measured("tpot_mean_ms") * self.lengths.decoded
        waiting = self.measured("ttft_mean_ms") or 0.0
        return float(1.0 + (self.concurrency - 1.0) * decoding / (decoding + waiting))


def _read(text: str) -> Any:
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        return text or None


def _tokens_per_chunk(rows: Iterable[ServedRun]) -> float:
    """Tokens per chunk: time between chunks over time per token."""
    shares = [row.itl_p50_ms / row.tpot_p50_ms for row in rows if row.itl_p50_ms and row.tpot_p50_ms]
    return float(np.median(shares)) if shares else 0.0


@cache
def rows_of(study: str) -> tuple[ServedRun, ...]:
    """All rows of one study with a stated device and draft length."""
    with (data_folder("results") / "published" / "traffic.csv").open(encoding="utf-8", newline="") as file:
        rows = [ServedRun(cells) for cells in csv.DictReader(file)]
    of_study = [row for row in rows if row.study == study]
    return tuple(row for row in of_study if row.requests and row.hardware and row.steps is not None)


@cache
def runs(study: str) -> tuple[ServedRun, ...]:
    """The runs of one study that state all that a replay needs."""
    return tuple(r for r in rows_of(study) if r.steps == 0 or r.gained)


BY: dict[str, Callable[[ServedRun], str]] = {
    "study": lambda run: run.study,
    "length": lambda run: f"{run.study}, {run.steps} draft tokens",
}
"""Held-out groups for the costs of a request."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One run: predicted over measured for each figure, and the stated deviation of the logarithm of TPOT."""

    run: ServedRun
    ratios: dict[str, float]
    log_error: float


def shipped(run: ServedRun) -> Scenario:
    """The scenario of the run's models and device as in any question, at the measured acceptance."""
    engine = f"{run.engine}@{run.version}" if run.version else run.engine
    query = query_of(
        run,
        run.target,
        run.lengths.context,
        1,
        run.steps,
        dp=run.tensor_parallel if run.data_parallel_attention else 1,
        draft=run.draft or "self",
        alpha=0.5,
        engine=engine,
        max_num_seqs=_default_seats(run),
    )
    gained = run.gained
    acceptance = Acceptance.from_tokens_per_iteration(gained, run.steps) if gained else None
    return resolve(query, acceptance)


def _default_seats(run: ServedRun) -> int | None:
    """The seats for which the server took memory: none of the runs states another number."""
    seats = serving_engines()[run.engine].seats
    return None if seats is None else seats.of(run.version, load_gpu(run.hardware))


@cache
def scenario_of(run: ServedRun, by: str) -> Scenario:
    """`shipped` with constants of its engine fitted without the run.

    by "study": without its model's steps and its study's ratios. by "length": without those of its device, or
    of that length.
    """
    record = recorded()
    step_folds = record["step_folds"]
    ratio_folds = record["ratio_folds"]
    model = f"{run.engine} {run.target}"
    if by == "study":
        step = step_folds["model"].get(model)
        ratio = ratio_folds["model"].get(source_of(str(run.source)))
    else:
        device = f"{run.hardware} {run.tensor_parallel}"
        step = None if run.steps else step_folds["seen"].get(f"{model} {device}")
        server = f"{run.target} {run.engine} {run.hardware} tp {run.tensor_parallel}"
        ratio = ratio_folds["seen"].get(f"{server} {run.draft} gamma {run.steps}")
    parameters = (*DECODING, *SPECULATING)
    values = (step or record["steps"]) | (ratio or record["iteration"])
    if run.study == COOKBOOK:
        of_vllm = next(p.expected for p in DEFAULT_FLAGS if p.place == "vllm.hopper.expert_layer_s")
        parameters = (*parameters, *DEFAULT_FLAGS)
        values = values | dict.fromkeys(PLAIN, of_vllm)
    constants = FittedConstants.of(run.hardware, run.engine, run.version, parameters)
    return with_calibration(shipped(run), constants.calibration(values))


Folds = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Held-out group -> engine, or ``common`` -> constants of requests fitted without it."""


@cache
def folds() -> Folds:
    """``results/requests.json``."""
    return dict(json.loads((BUNDLED / "requests.json").read_text(encoding="utf-8")))


def held_out(run: ServedRun, by: str) -> EngineRequests:
    """The costs of a request, fitted to the other rows."""
    return EngineRequests(**of_run(folds()[BY[by](run)], run))


def of_run(fitted: Mapping[str, Any], run: ServedRun) -> Any:
    """The part of a fit for the engine of a run, on its architecture where that has rows."""
    return fitted.get(run.place) or fitted.get(run.engine, fitted["common"])


def limits_of(run: ServedRun, groups: int) -> Limits:
    """The limits of the run's server: those that it states, or the engine's own."""
    default = Limits()
    of_engine = account_of(run.engine, ServerSettings(run.version)).budget(load_gpu(run.hardware))
    budget = run.max_num_batched_tokens or of_engine or default.max_num_batched_tokens
    return Limits(
        groups * default.max_num_seqs,
        groups * budget,
        FRACTION,
        poll_passes=run.scheduler_recv_interval or default.poll_passes,
    )


def compare(run: ServedRun, by: str, costs: EngineRequests | None = None, measured: bool = False) -> Compared:
    """Replays a run. costs: of its requests; by default those fitted without it.

    measured: uses the measured passes if there are `gaps`, so only the error of prompts and queues remains.
    """
    lengths = run.lengths
    scenario = scenario_of(run, by)
    limits = limits_of(run, scenario.target_shard.groups)
    (steps,) = step_times(scenario, lengths, limits, [run.steps], costs or held_out(run, by))
    if measured and (seconds := gaps(run, steps.batches)) is not None:
        steps = replace(steps, decode_s=seconds)
    requests = arrivals(lengths, run.requests, run.request_rate, 1.0, SEED)
    published = request_constants().acceptance_std.get(run.target)
    spread = published.value if published else DEFAULT_STD
    replayed = replay(steps, lengths, limits, requests, run.concurrency, spread, SEED)
    ratios = {}
    for name, predicted in _figures_of(run, replayed).items():
        if published_figure := run.measured(name):
            ratios[name] = float(predicted / published_figure)
    clients = np.array([float(run.concurrency)])
    closed_form = serve(steps, Load(lengths, clients=clients), limits, spread)
    tpot_ms = 1e3 * np.asarray(closed_form.tpot.mean).item()
    ratios["closed_form"] = tpot_ms / run.measured("tpot_mean_ms")
    return Compared(run, ratios, _stated(run))


def _figures_of(run: ServedRun, replayed: ReplayedRequests) -> dict[str, float]:
    """The figures of a replay that are comparable with those of its run."""
    figures = {
        "tpot_mean_ms": 1e3 * replayed.tpot_s.mean(),
        "tpot_p99_ms": 1e3 * np.quantile(replayed.tpot_s, 0.99),
        "output_tokens_per_s": replayed.output_tokens.sum() / replayed.duration_s,
    }
    # TensorRT-LLM delays prompts until its groups are even, by a setting that is not stated. SGLang's pages
    # run benchmarks with equal prompts one after another, and do not state whether the cache had them.
    if not run.data_parallel_attention and run.study != COOKBOOK:
        typical = np.mean if "mean" in run.ttft else np.median
        figures["ttft_mean_ms"] = 1e3 * typical(replayed.ttft_s)
        figures["ttft_p99_ms"] = 1e3 * np.quantile(replayed.ttft_s, 0.99)
    return figures


SERVER = (
    "study",
    "engine",
    "hardware",
    "tensor_parallel",
    "expert_parallel",
    "data_parallel_attention",
    "weights",
)
"""Columns that are equal for two runs of one server."""
CROWDED_GAPS = 0.5
"""Prompts between two chunks from which the median gap includes more than decoding."""
MOST_EXTRAPOLATED = 2.0
"""The largest ratio of a batch to the largest batch with measured gaps."""


def gaps(run: ServedRun, batches: Array) -> Array | None:
    """Seconds of passes by running batch: median gaps between chunks, from this server's runs with this
    draft.

    None if prompts fall into most gaps, or if the run is far above those with gaps.
    """
    study = DEEPSEEK if run.study == LONG_PROMPTS else run.study  # without gaps, on the same servers
    return gaps_among(run, runs(study), rows_of(study), batches)


def gaps_among(
    run: ServedRun, replayed: Sequence[ServedRun], rows: Sequence[ServedRun], batches: Array
) -> Array | None:
    """See `gaps`. replayed: runs of the study. rows: all its rows, of which a baseline may lack figures."""
    columns = (*SERVER[1:], "draft", "steps")
    alike = [r for r in replayed if r.itl_p50_ms and r.agrees(run, columns)]
    baselines = [r for r in rows if r.engine == run.engine and r.steps == 0]
    if run.steps == 0 and run.itl_p50_ms:
        baselines = [run]
    passes = max(round(_tokens_per_chunk(baselines), -1), 1.0)  # passes per chunk: one, or tens
    points = []
    for r in alike:
        prompts_per_gap = passes * r.batch * (r.gained or 1.0) / r.lengths.decoded
        if prompts_per_gap < CROWDED_GAPS:
            points.append((r.batch, r.itl_p50_ms / passes / 1e3))
    if not points:
        return None
    known, seconds = np.array(sorted(points)).T
    if MOST_EXTRAPOLATED * known[-1] < run.batch:
        return None
    slope = 0.0
    if len(points) > 1:
        slope = (seconds[-1] - seconds[-2]) / (known[-1] - known[-2])
    beyond = np.maximum(batches - known[-1], 0.0) * max(slope, 0.0)
    return np.asarray(np.interp(batches, known, seconds) + beyond)


@cache
def _stated(run: ServedRun) -> float:
    """The deviation of the logarithm of TPOT that an answer states."""
    by_length = served_log_errors(shipped(run), round(run.batch), run.lengths.context, [run.steps])
    log_error = by_length[run.steps]
    assert log_error is not None
    return log_error
