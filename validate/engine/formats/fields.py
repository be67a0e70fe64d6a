"""Reads and checks figures of JSON objects, and computes statistics that several formats share."""

import statistics
from collections.abc import Sequence
from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.validate.engine.text import is_count
from perfmodel.validate.engine.timing import NOT_SPECULATED, RequestLengths, SpeculatedTokens, Timing

SHORT_GAP = 0.3
"""Fraction of the median below which a gap belongs to a chunk that was read late."""
MOST_SHORT = 0.05
"""Share of such gaps above which the median gap is not the time of a step."""
NO_GAP = 0.01
"""Gaps below this fraction of the mean gap are ignored, so that they do not change the median."""
LEAST_FULL = 0.5
"""Smallest allowed ratio of the mean number of requests in flight to the stated concurrency. Runs have about
0.7 if their last answers end one after another.
"""
MOST_FULL = 1.25
"""Largest allowed ratio. Runs have up to 1.01 because of rounded means."""
MOST_SAMPLES = 200
"""Largest number of samples per row in a record."""


def value_at(data: Any, key: str) -> Any:
    """The value at a key in nested objects, such as ``usage.tokens``; None if there is none."""
    for name in key.split("."):
        data = data.get(name) if isinstance(data, dict) else None
    return data


def number(where: str, data: dict[str, Any], key: str) -> float:
    """A required, finite number of 0 or more, by a dotted key. Raises InputError."""
    value = optional(where, data, key)
    if value is None:
        raise refuse(where, key, "a number, 0 or more", None)
    return value


def optional(where: str, data: dict[str, Any], key: str) -> float | None:
    """The same as `number`, but None if the value is missing or null."""
    value = value_at(data, key)
    if value is None:
        return None
    if not is_count(value):
        raise refuse(where, key, "a number, 0 or more", value)
    return float(value)


def numbers(where: str, data: Any, key: str) -> list[float]:
    """The list at a key, of numbers that are 0 or more; empty if the key is missing. Raises InputError."""
    value = objects(where, data, key)
    if not all(map(is_count, value)):
        raise refuse(where, key, "a list of numbers, 0 or more", value)
    return [float(v) for v in value]


def objects(where: str, data: Any, key: str) -> list[Any]:
    """The list at a key, with elements of any type; empty if the key is missing. Raises InputError for
    another value.
    """
    value = value_at(data, key) or []
    if not isinstance(value, list):
        raise refuse(where, key, "a list", value)
    return value


def positive(where: str, data: dict[str, Any], key: str) -> float:
    """A required number above 0. Raises InputError."""
    value = number(where, data, key)
    if not value:
        raise refuse(where, key, "a number above 0", value)
    return value


def check_in_flight(where: str, run: dict[str, Any], batch: float, answers: float, output: float) -> None:
    """Raises InputError if the concurrency or the lengths of a run contradict its times. If the file lacks
    these times, nothing is checked.

    By Little's law, the mean number of requests in flight is answers x (TTFT + TPOT x (output - 1)) /
    duration. The times are means if the file has them, and otherwise medians.

    - output: the mean number of tokens of an answer.
    """
    duration_s = optional(where, run, "duration")
    ttft_ms = _mean_or_median(where, run, "ttft_ms")
    tpot_ms = _mean_or_median(where, run, "tpot_ms")
    if not duration_s or ttft_ms is None or tpot_ms is None:
        return
    answer_s = (ttft_ms + tpot_ms * (output - 1.0)) / 1e3
    in_flight = answers * answer_s / duration_s
    if not LEAST_FULL <= in_flight / batch <= MOST_FULL:
        raise InputError(
            f"{where}: concurrency: must agree with the times: {answers:g} answers of {output:.4g} tokens in "
            f"{duration_s:.4g} s are {in_flight:.3g} in flight on average, given {batch:g}"
        )


def _mean_or_median(where: str, run: dict[str, Any], name: str) -> float | None:
    return optional(where, run, f"mean_{name}") or optional(where, run, f"median_{name}")


def unfailed(where: str, run: dict[str, Any], key: str) -> None:
    """Raises InputError for a run with failed requests, because the other requests shared a smaller batch.

    - key: the key of the number of failed requests. If this is missing or 0, the entries of the list
      ``errors`` that are not empty are counted.
    """
    failed = optional(where, run, key) or sum(map(bool, objects(where, run, "errors")))
    if failed:
        raise refuse(where, key, "0 failed requests (the others shared a smaller batch)", int(failed))


def step(
    where: str,
    seconds: float,
    batch: float,
    lengths: RequestLengths,
    drafted: SpeculatedTokens = NOT_SPECULATED,
    **more: Any,
) -> Timing:
    """The timing of a step in which the sequences are in the middle of their answers.

    - more: the other fields of `Timing`.
    """
    return Timing.checked(
        where=where,
        seconds=seconds,
        batch=batch,
        context=lengths.prompt + lengths.answer / 2,
        gamma=drafted.gamma,
        tokens_per_iteration=drafted.tokens_per_iteration,
        prompt=lengths.prompt,
        output=lengths.answer,
        **more,
    )


def thinned(values: Sequence[float]) -> tuple[float, ...]:
    """At most `MOST_SAMPLES` of the values, evenly spaced in sorted order."""
    ordered = sorted(values)
    if len(ordered) <= MOST_SAMPLES:
        return tuple(ordered)
    stride = (len(ordered) - 1) / (MOST_SAMPLES - 1)
    return tuple(ordered[round(i * stride)] for i in range(MOST_SAMPLES))


def interference(
    batch: float, prompts: float, ttft_s: float, step_s: float, output: float, gained: float
) -> float:
    """Estimated share of the time between tokens that the prefill of other requests takes.

    If there are more prompts than places in the batch, a new request replaces each finished one. During one
    request, each of the other batch - 1 requests is replaced once. A replacement delays all other requests by
    the time of its prompt, which is at most the time to the first token.
    """
    whole = ttft_s + step_s / gained * output
    if whole and prompts > batch:
        return min(max(batch - 1, 0) * ttft_s / whole, 1.0)
    return 0.0


def of_client(
    where: str,
    tpot_s: float,
    drafted: SpeculatedTokens,
    batch: float,
    lengths: RequestLengths,
    ttft_s: float | None,
    prompts: float,
) -> Timing:
    """The timing of a step from the figures of a client. An iteration takes `tpot_s` times the tokens per
    iteration. The other arguments are those of `step`.

    - tpot_s: the median time per token.
    - ttft_s: the median time to the first token; None if it is not reported.
    - prompts: the number of requests of the whole run.
    """
    gained = drafted.tokens_per_iteration
    share = interference(batch, prompts, ttft_s or 0.0, gained * tpot_s, lengths.answer, gained)
    how = "Omega x median TPOT" if drafted.gamma else "median TPOT"
    return step(where, gained * tpot_s, batch, lengths, drafted, ttft_s=ttft_s, how=how, prefill_share=share)


def bunched(gaps: Sequence[float]) -> bool:
    """Whether a client read several chunks late and at once, so that some gaps are almost 0 and others are
    too long.

    The median gap is then not the time of a step, but the sum of the gaps is still the total time. Long gaps
    alone come from the prompts of other requests.
    """
    least = NO_GAP * statistics.fmean(gaps)
    middle = statistics.median([gap for gap in gaps if gap > least] or gaps)
    return sum(gap < SHORT_GAP * middle for gap in gaps) > MOST_SHORT * len(gaps)
