"""SGLang's acceptance figures (0.5): requests, ``bench_serving``, ``/get_server_info``, ``/metrics``, log
lines.

All are tokens per iteration with the bonus token, except the histogram of a request, which counts iterations
by accepted tokens.
"""

import itertools
import re
import statistics
from collections.abc import Iterator
from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.speculation import alpha_from_tokens_per_iteration
from perfmodel.validate.engine.acceptance.contexts import Contexts, octaves
from perfmodel.validate.engine.acceptance.counters import AcceptanceSubject, Counted
from perfmodel.validate.engine.acceptance.prometheus import samples
from perfmodel.validate.engine.text import floats, is_count, parse_objects

TOLD_RATE, ROUNDED = 0.1, (0.02, 0.1)
"""Least accept rate from which a log line determines the draft length. Rounding error of a line, as a
fraction and relative to the rate.
"""
CONVENTION = "SGLang accept length: completion tokens over verification passes, bonus token included"
COUNTED = "SGLang counters: tokens behind the first of each request over verification passes"
HISTOGRAM = "SGLang spec_correct_drafts_histogram: iterations by accepted draft tokens"
_LOG = re.compile(
    r"Decode batch.*?#running-req: (\d+),(?:.*?#(?:full )?token: (\d+))?.*?accept len: ([\d.]+), "
    r"accept rate: ([\d.]+)"
)
WORDS = ("accept_length", "spec_verify_ct", "spec_correct_drafts_histogram", "sglang:spec_", "accept len:")

LONGEST = 64
"""Longest draft length that a log's rates may have."""


def read(where: str, text: str, subject: AcceptanceSubject) -> tuple[list[Counted], str]:
    """The rates of an acceptance file's rows, and the convention of the text. Raises InputError."""
    gamma = subject.gamma
    if (length := _page_length(where, text)) is not None:
        return [(_alpha(where, length, gamma), None)], COUNTED
    if re.search(r"^\s*sglang:spec_accept_length", text, re.M):
        convention = CONVENTION + " (a gauge: of the last log interval only)"
        return [(_alpha(where, _gauge(where, text), gamma), None)], convention
    if _LOG.search(text):
        groups = _logged(where, text, gamma, whole=bool(subject.context))
        return [(_alpha(where, length, gamma), contexts) for length, contexts in groups], CONVENTION
    requests = parse_objects(where, text)
    infos = [info for request in requests if isinstance(info := request.get("meta_info", request), dict)]
    prompts, outputs = ([i.get(f"{of}_tokens") for i in infos] for of in ("prompt", "completion"))
    held = Contexts.of_requests(prompts, outputs)
    counted = [
        info["spec_correct_drafts_histogram"] for info in infos if "spec_correct_drafts_histogram" in info
    ]
    if counted:
        return [({"histogram": _histogram(where, counted)}, held)], HISTOGRAM
    if len(requests) == 1 and "internal_states" in requests[0]:
        return [(_alpha(where, _server(where, requests[0]), gamma), None)], CONVENTION
    if all("accept_length" in request for request in requests):
        lengths = [request["accept_length"] for request in requests]
        if not all(map(is_count, lengths)):
            raise refuse(where, "accept_length", "a finite number in each line", lengths)
        return [(_alpha(where, statistics.fmean(lengths), gamma), _of_runs(requests))], CONVENTION
    tokens, passes = (
        sum(_of_requests(where, requests, key)) for key in ("completion_tokens", "spec_verify_ct")
    )
    return [(_alpha(where, tokens / passes if passes else None, gamma), held)], CONVENTION


def _of_runs(runs: list[dict[str, Any]]) -> Contexts | None:
    """The mean request of each run of ``bench_serving``."""
    means: list[list[Any]] = [[], []]
    for run in runs:
        count = run.get("completed")
        for each, of in zip(means, ("input", "output"), strict=True):
            total = run.get(f"total_{of}_tokens")
            each.append(total / count if is_count(total) and is_count(count) and count else None)
    return Contexts.of_requests(*means)


def _alpha(where: str, omega: object, gamma: int) -> dict[str, Any]:
    if not is_count(omega) or not 1 <= omega <= gamma + 1:
        raise refuse(where, "accept length", f"from 1 to gamma + 1 = {gamma + 1} (set --gamma)", omega)
    return {"alpha": float(alpha_from_tokens_per_iteration(float(omega), float(gamma)))}


def _page_length(where: str, text: str) -> float | None:
    """Tokens per iteration of all finished requests of a page; None if a counter of it is missing."""
    passes, tokens, requests = (
        sum(value for _, value in samples(where, text, f"sglang:{name}"))
        for name in ("spec_verify_calls", "generation_tokens", "num_requests")
    )
    return (tokens - requests) / passes if passes and tokens and requests else None


def _gauge(where: str, text: str) -> float:
    values = [value for _, value in samples(where, text, "sglang:spec_accept_length") if value]
    if not values:
        raise refuse(where, "sglang:spec_accept_length", "above 0: nothing was decoded when this was read", 0)
    return statistics.fmean(values)


def _logged(where: str, text: str, gamma: int, whole: bool) -> list[tuple[float, Contexts | None]]:
    """The mean over the lines of each octave of contexts, weighted by requests; over all lines with `whole`.

    Raises InputError for lines of another draft length.
    """
    lines = [floats(word or "0" for word in found) for found in _LOG.findall(text)]
    if not all(is_count(value) for line in lines for value in line):
        raise refuse(where, "accept len", "a finite number, 0 or more, in each line", "others")
    weights = [max(running, 1) for running, *_ in lines]
    if not _agree([(length, rate) for *_, length, rate in lines], gamma):
        logged = draft_length(text)
        allowed = "the draft length of" if logged is None else f"{logged}, the draft length of"
        raise refuse("--gamma", None, f"{allowed} {where}", gamma)
    held = [None if whole else line[1] / weight for line, weight in zip(lines, weights, strict=True)]
    return [
        (sum(weights[i] * lines[i][2] for i in group) / sum(weights[i] for i in group), contexts)
        for contexts, group in octaves(held, weights)
    ]


def draft_length(text: str) -> int | None:
    """The draft length that a page states, or that follows from the accepted lengths and rates of a log; None
    if they leave it open.

    It must agree with all lines of a log, and at least twice as well as any other length, on average.
    """
    steps = [value for _, value in samples("", text, "sglang:spec_num_steps")]
    if steps and len(set(steps)) == 1 and steps[0] >= 1:
        return int(steps[0])
    lines = [floats(word or "0" for word in found) for found in _LOG.findall(text)]
    pairs = [(length, rate) for *_, length, rate in lines if rate >= TOLD_RATE]
    if not pairs:
        return None
    misfits = sorted((_misfit(pairs, k), k) for k in range(1, LONGEST + 1) if _agree(pairs, k))
    clear = len(misfits) == 1 or (len(misfits) > 1 and 2 * misfits[0][0] <= misfits[1][0])
    return misfits[0][1] if clear else None


def _misfit(pairs: list[tuple[float, float]], gamma: int) -> float:
    """Mean relative distance of the lines from a draft length, by the better reading of the rate."""
    drafted = [(length - 1) / rate for length, rate in pairs]
    with_bonus = [length / rate for length, rate in pairs]
    return min(_relative_distance(drafted, gamma), _relative_distance(with_bonus, gamma + 1))


def _relative_distance(values: list[float], wanted: int) -> float:
    return statistics.fmean(abs(value - wanted) / wanted for value in values)


def _agree(pairs: list[tuple[float, float]], gamma: int) -> bool:
    """Whether all accepted lengths and rates belong to this draft length.

    SGLang before April 2026 counts the bonus token in the rate (sglang#23530): length / (gamma + 1); later
    ones do not: (length - 1) / gamma. A log has one of both.
    """
    told = [(length, rate) for length, rate in pairs if rate >= TOLD_RATE]

    def near(tokens: float, rate: float, drafted: int) -> bool:
        return abs(tokens / rate - drafted) <= ROUNDED[0] * drafted + ROUNDED[1] / rate

    without_bonus = all(near(length - 1, rate, gamma) for length, rate in told)
    with_bonus = all(near(length, rate, gamma + 1) for length, rate in told)
    return without_bonus or with_bonus


def _server(where: str, info: dict[str, Any]) -> object:
    if info.get("speculative_adaptive"):
        raise InputError(
            f"{where}: speculative_adaptive is on: the mean over changing draft lengths describes "
            "none of them; use the requests' spec_correct_drafts_histogram, or serve one length"
        )
    states = info.get("internal_states")
    first = states[0] if isinstance(states, list) and states and isinstance(states[0], dict) else {}
    return first.get("avg_spec_accept_length")


def _histogram(where: str, counted: list[Any]) -> list[float]:
    for entry in counted:
        if not isinstance(entry, list) or not all(map(is_count, entry)):
            raise refuse(where, "spec_correct_drafts_histogram", "a list of counts", entry)
    return [float(sum(column)) for column in itertools.zip_longest(*counted, fillvalue=0)]


def _of_requests(where: str, requests: list[dict[str, Any]], key: str) -> Iterator[float]:
    for request in requests:
        info = request.get("meta_info", request)
        value = info.get(key) if isinstance(info, dict) else None
        if value is None:
            raise InputError(
                f"{where}: must hold accept_length, or completion_tokens and spec_verify_ct of each request"
            )
        if not is_count(value):
            raise refuse(where, key, "a finite count, 0 or more, in each request", value)
        yield float(value)
