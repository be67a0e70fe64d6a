"""Checks whether the draft length of a server is still the best one, with the server's own counters.

Acceptance and contexts are counted since the start of the server, or since an earlier reading of its
counters. The number of running requests is the mean over the same time if the server counts it. Otherwise it
is the present number, or the median of a log.
The draft length is good if no other length is faster by more than `TOLERANCE`. Otherwise the answer names the
best length, and a command that prints the new flags of the server.
"""

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.advice.draft_lengths import runs
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query, measured_acceptance, resolve
from perfmodel.answers.question.acceptance_of import library_word
from perfmodel.errors import InputError, refuse
from perfmodel.operations import Array, Floats
from perfmodel.reading import read_text
from perfmodel.specs import UnknownAcceptance
from perfmodel.specs.acceptance.acceptance_file import AcceptanceEntry, read_acceptance
from perfmodel.specs.acceptance.acceptance_library import acceptance_library
from perfmodel.specs.acceptance.acceptance_rows import positions_from_histogram
from perfmodel.speculation import Acceptance, Scenario, interval_of, speedups
from perfmodel.speculation.acceptance import conditional_from_survival
from perfmodel.validate.engine.acceptance.prometheus import samples, total
from perfmodel.validate.engine.client import LiveServer, holds_key
from perfmodel.validate.engine.compared import predicted_prompt_s
from perfmodel.validate.engine.expectation import Expectation
from perfmodel.validate.engine.health import Health, health
from perfmodel.validate.engine.load_lines import LoggedLoad
from perfmodel.validate.engine.pace import Pace
from perfmodel.validate.engine.paste import ExpectedGain
from perfmodel.validate.engine.pastes import PromptTiming
from perfmodel.validate.engine.text import NamedText, plain
from perfmodel.validate.engine.timing import Timing

TOLERANCE = 0.05
"""Smallest gain of another draft length that is worth a restart of the server. The value is a choice."""
CONTEXTS_TRIED = 49
"""Number of contexts at which draft lengths are compared. They are evenly spaced on a logarithmic scale."""
SHORTEST_CONTEXT = 128
"""The shortest of these contexts, in tokens."""
MOST_BATCH = 256
"""Largest batch in the comparison."""
MOST_GAMMA = 16
"""Largest draft length in the comparison."""
_RANK = re.compile(r"Engine \d{3}: Avg|\bDP\d+\b.*Decode batch")
"""A line about the load of one data-parallel rank in a log of vLLM or SGLang."""
GAUGES = ("vllm:num_requests_running", "sglang:num_running_reqs")
REQUEST_ITERATIONS = "vllm:inter_token_latency_seconds_count"
"""The number of iterations, summed over requests."""
ITERATIONS = "vllm:iteration_tokens_total_count"
"""The number of iterations of the server."""


@dataclass(frozen=True, slots=True)
class ServedCounts:
    """The counts of a server in one range of contexts.

    - gamma: the server's draft length.
    - running: the number of running requests; None if the server does not report it.
    """

    gamma: int
    acceptance: Acceptance
    context: float
    running: float | None

    @classmethod
    def of(cls, row: AcceptanceEntry, gamma: int | None, running: float | None) -> "ServedCounts":
        """The counts in a row of imported figures. Raises InputError if the draft length is not known.

        - gamma: the draft length; None if the figures state it.
        """
        positions = positions_from_histogram(row.histogram) if row.histogram else row.positions
        length = gamma or (len(positions) if positions else None)
        if length is None:
            raise InputError("--gamma: must be given: the draft length is not in these figures")
        if positions is None:
            acceptance = Acceptance.from_alpha(row.alpha or 0.0, "counted").replace(measured_to=length)
        else:
            acceptance = Acceptance.from_positions(positions, "counted")
        return cls(length, acceptance, row.context_tokens, running)


@dataclass(frozen=True, slots=True)
class Drift:
    """The verdict about the served draft length in one range of contexts.

    - lines: the verdict in words.
    - holds: whether no other draft length is faster by more than `TOLERANCE`.
    - best: the fastest draft length.
    """

    lines: tuple[str, ...]
    holds: bool
    best: int


def read_page(place: str) -> NamedText:
    """The text of a file, or the page of metrics of the server at a URL. Raises InputError."""
    if "://" not in place and not holds_key(place):
        return NamedText(place, plain(read_text(Path(place))))
    try:
        server = LiveServer.at(place)
        text = server.get("/metrics")
    except InputError as error:
        raise InputError(error.as_flags.replace("--url:", "--watch:", 1)) from None
    if text is None:
        raise InputError(f"--watch: {server.shown} has no page /metrics")
    return NamedText(f"--watch: {server.shown}", text)


def page_of(given: NamedText) -> NamedText:
    """The page of metrics, if the text is the URL of a server; otherwise the text itself. Raises
    InputError.
    """
    address = given.text.strip()
    return read_page(address) if address.startswith(("http://", "https://")) else given


def expected(query: Query, scenario: Scenario, context: float, file: str | None) -> Acceptance | None:
    """The expected acceptance: from the rows of an acceptance file, or else the published one. None if there
    is neither.
    """
    rows = None if file is None else read_acceptance(file)
    with suppress(UnknownAcceptance):
        return measured_acceptance(query.model, scenario.target, scenario.draft, context, rows)
    return None


def expected_gain(query: Query, scenario: Scenario, file: str | None, timing: Timing) -> ExpectedGain | None:
    """The tokens per iteration that a step is expected to gain; None if they are not known.

    - file: an acceptance file.
    """
    known = expected(query, scenario, timing.context, file)
    if known is None:
        return None
    if known.max_gamma is not None and timing.gamma > known.max_gamma:
        if file is not None:
            return None
        decay = acceptance_library().typical.decay(library_word(scenario.draft))
        known = known.extended(timing.gamma, decay)
    mean = float(known.tokens_per_iteration(timing.gamma))
    origin = f"{mean:.2f} tokens per iteration at K = {timing.gamma} ({known.source})"
    return ExpectedGain(mean, origin)


def usual_gain(
    query: Query, scenario: Scenario, file: str | None, timing: Timing
) -> tuple[float, float] | None:
    """The smallest and the largest expected tokens per iteration of a step; None if they are not known.

    - file: an acceptance file.
    """
    if not timing.gamma:
        return None
    return _interval(expected(query, scenario, timing.context, file), timing.gamma)


def running(where: str, text: str) -> float | None:
    """The number of running requests; None if it is missing or 0. It is the mean over all iterations of a
    page, or else the gauge of the page. For a log, it is the median of the lines under load.
    """
    of_requests = total(where, text, REQUEST_ITERATIONS)
    iterations = total(where, text, ITERATIONS)
    if of_requests and iterations:
        return max(of_requests / iterations, 1.0)
    gauges = [value for name in GAUGES for _, value in samples(where, text, name)]
    if gauges:
        return sum(gauges) or None
    load = LoggedLoad.of(text)
    return None if load is None else load.running


def of_all_ranks(requests: float | None, query: Query, text: str) -> float | None:
    """Number of running requests on all data-parallel ranks. None if `requests` is None.

    - requests: the number that the text states; if the text is a log with a line per rank, this is the number
      on one rank.
    """
    if requests is None or _RANK.search(text) is None:
        return requests
    return requests * query.dp


def drift(query: Query, served: ServedCounts, expected: Acceptance | None = None) -> Drift:
    """Compares the served draft length with other lengths at the server's own contexts.

    - query: the model, device, draft and calibration. Its batch is used if the number of running requests is
      not known.
    - expected: the expected acceptance, which is printed next to the counted one.
    """
    batch = float(round(served.running or query.batch))
    point = replace(query, batch=int(batch), context=round(served.context), gamma=None)
    scenario = resolve(point, served.acceptance)
    if served.acceptance.measured_to is not None and scenario.draft.kind != "self":
        decay = acceptance_library().typical.decay(library_word(scenario.draft))
        scenario = replace(scenario, acceptance=served.acceptance.replace(decay=decay))
    lengths = np.arange(scenario.longest(MOST_GAMMA) + 1, dtype=np.int64)
    if served.gamma >= len(lengths):
        raise refuse("--gamma", None, f"at most {len(lengths) - 1}, the positions counted", served.gamma)
    by_length = speedups(scenario, batch, served.context, lengths)
    best = int(np.argmax(by_length))
    speedup = float(by_length[served.gamma])
    holds = bool(speedup * (1 + TOLERANCE) >= by_length[best])
    requests = f"{batch:g} running" if served.running else f"none running, {batch:g} assumed"
    counted = "; ".join(_counted(served, speedup, expected))
    lines = [f"requests: {requests}, at {served.context:.0f} tokens of context; {counted}"]
    loads = _good_loads(scenario, batch, served, lengths)
    if loads:
        good = ", and ".join(loads)
        lines.append(f"K = {served.gamma} is the best length, or less than {TOLERANCE:.0%} slower: {good}")
    if not holds:
        faster = f"K = {best} ({by_length[best]:.2f}x)" if best else "no speculation"
        lines.append(f"change: {faster} is faster than K = {served.gamma} ({speedup:.2f}x)")
    return Drift(tuple(lines), holds, best)


def _counted(served: ServedCounts, speedup: float, expected: Acceptance | None) -> list[str]:
    """The counted acceptance, and the acceptance above which speculation pays, in words."""
    gained = float(served.acceptance.tokens_per_iteration(served.gamma))
    words = [f"{gained:.2f} tokens per iteration"]
    if expected is not None:
        words.append(_compared(expected, served.gamma, gained))
    words.append(f"speculation pays from {gained / speedup:.2f} on")
    return words


def _good_loads(
    scenario: Scenario, batch: float, served: ServedCounts, lengths: NDArray[np.int64]
) -> list[str]:
    """The batches, and the contexts, at which the served length is good, in words."""
    batches = np.arange(1.0, max(MOST_BATCH, batch) + 1)
    shortest = min(SHORTEST_CONTEXT, served.context)
    longest = max(scenario.target.max_position_embeddings, served.context)
    contexts = np.geomspace(shortest, longest, CONTEXTS_TRIED)
    of_batch = _is_good(scenario, batches, served.context, lengths, served.gamma)
    of_context = _is_good(scenario, batch, contexts, lengths, served.gamma)
    loads = []
    if good_batches := _range_in_words(of_batch, batches, batch):
        loads.append(f"with {good_batches} running requests of this context")
    if good_contexts := _range_in_words(of_context, contexts, served.context):
        loads.append(f"at contexts of {good_contexts} tokens with as many requests")
    return loads


def check_health(
    query: Query, served: ServedCounts, expected: Acceptance | None, where: str, text: str
) -> Health | None:
    """Compares the speed of the server with the prediction for its own load and acceptance. None if the text
    states no speed.
    """
    gained = float(served.acceptance.tokens_per_iteration(served.gamma))
    pace = Pace.of(where, text, gained)
    if pace is None:
        return None
    point = replace(
        query,
        batch=round(served.running or query.batch),
        context=round(served.context),
        gamma=served.gamma,
        rate=rates_of(served.acceptance, served.gamma),
        alpha=None,
        tokens_per_iteration=None,
        acceptance=None,
        task=None,
    )
    prompt = PromptTiming(served.context, 0.0, 0.0)
    scenario = resolve(point)
    prompt_token_s = predicted_prompt_s(scenario, prompt, drafts=True) / prompt.tokens
    should = Expectation(whatif(point), gained, _interval(expected, served.gamma), prompt_token_s)
    return health(pace, should, text)


def _interval(expected: Acceptance | None, gamma: int) -> tuple[float, float] | None:
    """The expected tokens per iteration with their spread between texts; None if none are known."""
    if expected is None or (expected.max_gamma is not None and gamma > expected.max_gamma):
        return None
    mean = float(expected.tokens_per_iteration(gamma))
    return interval_of(mean, float(expected.log_spread(gamma)))


def rates_of(acceptance: Acceptance, gamma: int) -> str:
    """The acceptance by position, written as a value of ``--rate``."""
    survival = acceptance.survival(gamma)
    return "/".join(f"{rate:.6g}" for rate in conditional_from_survival(survival))


def _compared(expected: Acceptance, gamma: int, gained: float) -> str:
    """The expected acceptance at a draft length, and whether the counted acceptance is within its spread, in
    words.
    """
    longest = expected.max_gamma
    if longest is not None and gamma > longest:
        return f"expected: not known at K = {gamma}"
    mean = float(expected.tokens_per_iteration(gamma))
    spread = float(expected.log_spread(gamma))
    low, high = interval_of(mean, spread)
    if not spread:
        return f"expected {mean:.2f}"
    inside = "within it" if low <= gained <= high else "outside of it"
    return f"expected {mean:.2f} ({low:.2f} to {high:.2f}, {inside})"


def _is_good(scenario: Scenario, batch: Floats, context: Floats, lengths: NDArray[np.int64], k: int) -> Array:
    """Whether the draft length `k` is within `TOLERANCE` of the best length, at each batch and context."""
    by_length = speedups(scenario, batch, context, lengths)
    return np.asarray(by_length[..., k] * (1 + TOLERANCE) >= by_length.max(-1))


def _range_in_words(holds: Array, values: Array, here: float) -> str:
    """The range of values in which a draft length is good, in words; empty if there is none. Several ranges
    are possible, because CUDA graphs pad some batches. The range with the present value is used, or else the
    widest one.

    - holds: whether the length is good at each value.
    - here: the present value.
    """
    ranges = [
        (values[first - 1], values[last - 1]) for first, last, good in runs(holds.astype(np.int64)) if good
    ]
    if not ranges:
        return ""
    around = [(low, high) for low, high in ranges if low <= here <= high]
    low, high = around[0] if around else max(ranges, key=lambda ends: ends[1] - ends[0])
    return f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}"


def command(query: Query, last: ServedCounts, extra: Sequence[str]) -> str:
    """The command that prints the best draft lengths for the latest counts.

    - extra: further flags of the question.
    """
    rates = "/".join(f"{rate:.3g}" for rate in last.acceptance.prefix or (last.acceptance.tail,))
    words = ["perfmodel", "schedule", "--model", query.model, "--hardware", query.hardware]
    words += ["--draft", query.draft or "self", "--rate", rates, "--context", f"{last.context:.0f}", *extra]
    return shlex.join(words)
