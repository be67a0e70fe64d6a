"""Checks whether the draft length of a server is still the best one, with the server's own counters.

Acceptance and contexts are counted since the start of the server, or since an earlier reading of its
counters. The number of running requests is the mean over the same time if the server counts it. Otherwise it
is the present number, or the median of a log.
The draft length is good if no other length is faster by more than `TOLERANCE`. Otherwise the answer names the
best length, and a command that prints the new flags of the server.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.advice.draft_lengths import runs
from perfmodel.answers.question import Query, resolve
from perfmodel.answers.question.acceptance_of import library_word
from perfmodel.errors import refuse
from perfmodel.operations import Array, Floats
from perfmodel.specs.acceptance.acceptance_library import acceptance_library
from perfmodel.speculation import Acceptance, Scenario, speedups
from perfmodel.validate.engine.expected_acceptance import expected_words
from perfmodel.validate.engine.served_counts import ServedCounts

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


def drift(query: Query, served: ServedCounts, expected: Acceptance | None = None) -> Drift:
    """Compares the served draft length with other lengths at the server's own contexts. Raises InputError if
    the served length is longer than those that can be compared.

    - query: the model, device, draft and calibration. Its batch is used if the number of running requests is
      not known.
    - expected: the expected acceptance, which is printed next to the counted one.
    """
    batch = float(round(served.running or query.batch))
    scenario = _counted_scenario(query, served, batch)
    lengths = np.arange(scenario.longest(MOST_GAMMA) + 1, dtype=np.int64)
    if served.gamma >= len(lengths):
        raise refuse("--gamma", None, f"at most {len(lengths) - 1}, the positions counted", served.gamma)
    by_length = speedups(scenario, batch, served.context, lengths)
    best = int(np.argmax(by_length))
    speedup = float(by_length[served.gamma])
    holds = bool(speedup * (1 + TOLERANCE) >= by_length[best])
    requests = f"{batch:g} running" if served.running else f"none running, {batch:g} assumed"
    counted = "; ".join(_counted_words(served, speedup, expected))
    lines = [f"requests: {requests}, at {served.context:.0f} tokens of context; {counted}"]
    loads = _good_loads(scenario, batch, served, lengths)
    if loads:
        good = ", and ".join(loads)
        lines.append(f"K = {served.gamma} is the best length, or less than {TOLERANCE:.0%} slower: {good}")
    if not holds:
        faster = f"K = {best} ({by_length[best]:.2f}x)" if best else "no speculation"
        change = f"change: {faster} is faster than K = {served.gamma} ({speedup:.2f}x)"
        if best > served.gamma:
            change += f"; the acceptance of tokens beyond the first {served.gamma} is assumed"
        lines.append(change)
    return Drift(tuple(lines), holds, best)


def _counted_scenario(query: Query, served: ServedCounts, batch: float) -> Scenario:
    """The scenario of the server's load with the counted acceptance. After the last counted position, the
    acceptance falls with the typical decay of the draft's kind. That of a self-draft stays as it is.
    """
    point = replace(query, batch=int(batch), context=round(served.context), gamma=None)
    scenario = resolve(point, served.acceptance)
    if served.acceptance.measured_to is None or scenario.draft.kind == "self":
        return scenario
    decay = acceptance_library().typical.decay(library_word(scenario.draft))
    return replace(scenario, acceptance=served.acceptance.replace(decay=decay))


def _counted_words(served: ServedCounts, speedup: float, expected: Acceptance | None) -> list[str]:
    """The counted acceptance, and the acceptance above which speculation pays off, in words."""
    gained = float(served.acceptance.tokens_per_iteration(served.gamma))
    words = [f"{gained:.2f} tokens per iteration"]
    if expected is not None:
        words.append(expected_words(expected, served.gamma, gained))
    words.append(f"speculation pays off from {gained / speedup:.2f} on")
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
        loads.append(f"with {good_batches} requests at this context")
    if good_contexts := _range_in_words(of_context, contexts, served.context):
        loads.append(f"with this number of requests at contexts of {good_contexts} tokens")
    return loads


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
    words = ["perfmodel", "schedule", "--model", query.model, "--hardware", query.hardware]
    words += ["--draft", query.draft or "self"]
    if last.acceptance.prefix:
        words += ["--rate", "/".join(f"{rate:.3g}" for rate in last.acceptance.prefix)]
    else:
        gained = float(last.acceptance.tokens_per_iteration(last.gamma))
        words += ["--tokens-per-iteration", f"{gained:.3g}", "--gamma", f"{last.gamma}"]
    return shlex.join([*words, "--context", f"{last.context:.0f}", *extra])
