"""Figures of JSON objects, checked; the statistics that several formats share."""

import statistics
from collections.abc import Sequence
from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.validate.engine.text import is_count
from perfmodel.validate.engine.timing import NOT_SPECULATED, RequestLengths, SpeculatedTokens, Timing

SHORT_GAP = 0.3
"""Fraction of the median below which a gap belongs to a chunk that was read late."""
MOST_SHORT = 0.05
"""Share of such gaps above which the median is not a step."""
NO_GAP = 0.01
"""Fraction of the mean below which gaps are ignored, so that they leave the median unchanged."""
LEAST_FULL = 0.5
"""Least mean number of requests in flight over the stated concurrency: 0.7 for runs whose last answers run
out.
"""
MOST_FULL = 1.25
"""Most of it: 1.01 for rounded means."""
MOST_SAMPLES = 200
"""Most samples that a record should hold."""


def value_at(data: Any, key: str) -> Any:
    """The value at a dotted key, which enters objects; None if there is none."""
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
    """As `number`; None if it is missing or null."""
    value = value_at(data, key)
    if value is None:
        return None
    if not is_count(value):
        raise refuse(where, key, "a number, 0 or more", value)
    return float(value)


def numbers(where: str, data: Any, key: str) -> list[float]:
    """A list of numbers, each 0 or more; empty if missing. Raises InputError."""
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
    """Refuse (InputError) a concurrency or lengths that contradict the times of a run. Without a concurrency
    nothing is checked.

    By Little's law answers x (TTFT + TPOT x (output - 1)) / duration are in flight on average. Times are
    means if the file has them; output is the mean tokens of an answer.
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
    """Refuse (InputError) a run with failed requests, because the others shared a smaller batch.

    key: of their number. Clients with details also list an error per request, which is empty without one.
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
    """A step of sequences in the middle of their answers."""
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
    """Evenly spaced order statistics, at most `MOST_SAMPLES`."""
    ordered = sorted(values)
    if len(ordered) <= MOST_SAMPLES:
        return tuple(ordered)
    stride = (len(ordered) - 1) / (MOST_SAMPLES - 1)
    return tuple(ordered[round(i * stride)] for i in range(MOST_SAMPLES))


def interference(
    batch: float, prompts: float, ttft_s: float, step_s: float, output: float, gained: float
) -> float:
    """Estimated share of the time between tokens that other requests' prefill takes.

    While a request decodes, each of the other batch - 1 requests is replaced once per duration of a request,
    if there are more prompts than places. Each replacement delays all others by the time of its prompt (at
    most the time to the first token).
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
    """The step of a client that reports median times per token and to the first one, from Omega tokens per
    iteration.

    prompts: requests of the whole run. The rest is as in `step`.
    """
    gained = drafted.tokens_per_iteration
    share = interference(batch, prompts, ttft_s or 0.0, gained * tpot_s, lengths.answer, gained)
    how = "Omega x median TPOT" if drafted.gamma else "median TPOT"
    return step(where, gained * tpot_s, batch, lengths, drafted, ttft_s=ttft_s, how=how, prefill_share=share)


def bunched(gaps: Sequence[float]) -> bool:
    """Whether a client read several chunks late at once: gaps of almost nothing next to long ones.

    Their median is then not a step, while their sum is still the total time. Long gaps alone are other
    requests' prompts.
    """
    least = NO_GAP * statistics.fmean(gaps)
    middle = statistics.median([gap for gap in gaps if gap > least] or gaps)
    return sum(gap < SHORT_GAP * middle for gap in gaps) > MOST_SHORT * len(gaps)
