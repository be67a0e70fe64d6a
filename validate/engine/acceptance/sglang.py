"""Acceptance figures of SGLang 0.5, from requests, ``bench_serving``, ``/get_server_info``, ``/metrics`` and
log lines.

Lengths are in tokens per iteration, including the bonus token. The histogram of a request counts iterations
by the number of accepted tokens, without the bonus token.
"""

import itertools
import re
import statistics
from collections.abc import Iterator
from typing import Any, NamedTuple

from perfmodel.errors import InputError, refuse
from perfmodel.speculation import alpha_from_tokens_per_iteration
from perfmodel.validate.engine.acceptance.contexts import Contexts, octaves
from perfmodel.validate.engine.acceptance.counters import AcceptanceSubject, Counted, CountedText
from perfmodel.validate.engine.acceptance.prometheus import samples, total
from perfmodel.validate.engine.formats.fields import value_at
from perfmodel.validate.engine.text import floats, is_count, parse_objects

LEAST_RATE = 0.1
"""Smallest accept rate with which a log line determines the draft length."""
ROUNDED_SHARE = 0.02
"""Rounding error of a line, as a share of the drafted tokens."""
ROUNDED_TOKENS = 0.1
"""Rounding error of a line, in tokens divided by the accept rate."""
CONVENTION = "SGLang accept length: completion tokens over verification passes, bonus token included"
COUNTED = "SGLang counters: tokens behind the first of each request over verification passes"
HISTOGRAM = "SGLang spec_correct_drafts_histogram: iterations by accepted draft tokens"
_LOG = re.compile(
    r"Decode batch.*?#running-req: (\d+),(?:.*?#(?:full )?token: (\d+))?.*?accept len: ([\d.]+)"
    r"(?:, accept rate: ([\d.]+))?"
)
WORDS = ("accept_length", "spec_verify_ct", "spec_correct_drafts_histogram", "sglang:spec_", "accept len:")
LONGEST_DRAFT = 64
"""Longest draft length that is compared with the rates of a log."""


def read(where: str, text: str, subject: AcceptanceSubject) -> CountedText:
    """The rates for the rows of an acceptance file. Raises InputError."""
    gamma = subject.gamma
    if (length := _page_length(where, text)) is not None:
        return CountedText([Counted(_alpha(where, length, gamma), None)], COUNTED)
    if re.search(r"^\s*sglang:spec_accept_length", text, re.M):
        convention = CONVENTION + " (a gauge: of the last log interval only)"
        return CountedText([Counted(_alpha(where, _gauge(where, text), gamma), None)], convention)
    if _LOG.search(text):
        groups = _logged(where, text, gamma, whole=bool(subject.context))
        return CountedText(
            [Counted(_alpha(where, length, gamma), contexts) for length, contexts in groups], CONVENTION
        )
    return _read_objects(where, parse_objects(where, text), gamma)


def _read_objects(where: str, requests: list[dict[str, Any]], gamma: int) -> CountedText:
    """The rates in the JSON objects of requests, of runs of ``bench_serving``, or of ``/get_server_info``.
    Raises InputError.
    """
    infos = [request.get("meta_info", request) for request in requests]
    infos = [info for info in infos if isinstance(info, dict)]
    prompts = [info.get("prompt_tokens") for info in infos]
    outputs = [info.get("completion_tokens") for info in infos]
    contexts_of_requests = Contexts.of_requests(prompts, outputs)
    key = "spec_correct_drafts_histogram"
    histograms = [info[key] for info in infos if key in info]
    if histograms:
        return CountedText(
            [Counted({"histogram": _histogram(where, histograms)}, contexts_of_requests)], HISTOGRAM
        )
    if len(requests) == 1 and "internal_states" in requests[0]:
        return CountedText([Counted(_alpha(where, _server(where, requests[0]), gamma), None)], CONVENTION)
    if all("accept_length" in request for request in requests):
        lengths = [request["accept_length"] for request in requests]
        if not all(map(is_count, lengths)):
            raise refuse(where, "accept_length", "a finite number in each line", lengths)
        return CountedText(
            [Counted(_alpha(where, statistics.fmean(lengths), gamma), _of_runs(requests))], CONVENTION
        )
    tokens = sum(_of_requests(where, requests, "completion_tokens"))
    passes = sum(_of_requests(where, requests, "spec_verify_ct"))
    gained = tokens / passes if passes else None
    return CountedText([Counted(_alpha(where, gained, gamma), contexts_of_requests)], CONVENTION)


def _of_runs(runs: list[dict[str, Any]]) -> Contexts | None:
    """The mean request of each run of ``bench_serving``."""
    prompts = [_mean_of_run(run, "total_input_tokens") for run in runs]
    outputs = [_mean_of_run(run, "total_output_tokens") for run in runs]
    return Contexts.of_requests(prompts, outputs)


def _mean_of_run(run: dict[str, Any], key: str) -> float | None:
    """A total of a run, divided by the number of its completed requests; None if either is missing."""
    tokens = run.get(key)
    completed = run.get("completed")
    return tokens / completed if is_count(tokens) and is_count(completed) and completed else None


def _alpha(where: str, omega: object, gamma: int) -> dict[str, Any]:
    """The constant acceptance rate that gives `omega` tokens per iteration. Raises InputError for a value
    that is impossible with this draft length.
    """
    if not is_count(omega) or not 1 <= omega <= gamma + 1:
        raise refuse(where, "accept length", f"from 1 to gamma + 1 = {gamma + 1} (set --gamma)", omega)
    return {"alpha": float(alpha_from_tokens_per_iteration(float(omega), float(gamma)))}


def _page_length(where: str, text: str) -> float | None:
    """The tokens per iteration of all finished requests, from the counters of a page; None if a counter is
    missing.
    """
    passes = total(where, text, "sglang:spec_verify_calls")
    tokens = total(where, text, "sglang:generation_tokens")
    requests = total(where, text, "sglang:num_requests")
    return (tokens - requests) / passes if passes and tokens and requests else None


def _gauge(where: str, text: str) -> float:
    """The accept length that a page states as a gauge. Raises InputError if nothing was decoded."""
    values = [value for _, value in samples(where, text, "sglang:spec_accept_length") if value]
    if not values:
        raise refuse(where, "sglang:spec_accept_length", "above 0: nothing was decoded when this was read", 0)
    return statistics.fmean(values)


def _logged(where: str, text: str, gamma: int, whole: bool) -> list[tuple[float, Contexts | None]]:
    """The mean accept length of the log lines in each octave of contexts, weighted by running requests.
    Raises InputError for lines of another draft length.

    - whole: whether all lines form one group.
    """
    lines = _log_lines(text)
    if not all(map(_is_finite, lines)):
        raise refuse(where, "accept len", "a finite number, 0 or more, in each line", "others")
    if not _agree(lines, gamma):
        logged = draft_length(text)
        allowed = "the draft length of" if logged is None else f"{logged}, the draft length of"
        raise refuse("--gamma", None, f"{allowed} {where}", gamma)
    weights = [max(line.running, 1) for line in lines]
    cached: list[float | None] = [None] * len(lines)
    if not whole:
        cached = [line.cached / weight for line, weight in zip(lines, weights, strict=True)]
    means = []
    for contexts, group in octaves(cached, weights):
        gained = sum(weights[i] * lines[i].length for i in group)
        means.append((gained / sum(weights[i] for i in group), contexts))
    return means


class _LogLine(NamedTuple):
    """The figures of a log line.

    - running: the number of running requests.
    - cached: the cached tokens of all running requests.
    - length: the tokens per iteration.
    - rate: the accept rate.
    """

    running: float
    cached: float
    length: float
    rate: float


def _log_lines(text: str) -> list[_LogLine]:
    return [_LogLine(*floats(word or "0" for word in words)) for words in _LOG.findall(text)]


def _page_line(text: str) -> list[_LogLine]:
    """The gauges of a page as a line of a log; empty if a gauge is missing."""
    names = ("sglang:spec_accept_length", "sglang:spec_accept_rate")
    gauges = [[value for _, value in samples("", text, name)] for name in names]
    if not all(gauges):
        return []
    length, rate = map(statistics.fmean, gauges)
    return [_LogLine(1.0, 0.0, length, rate)]


def _is_finite(line: _LogLine) -> bool:
    return all(map(is_count, line))


def draft_length(text: str) -> int | None:
    """The draft length that requests or a page state, or that follows from the accept lengths and accept
    rates of a log or page. None if they do not determine it.

    A length that follows from them must agree with all lines. Its mean deviation must be at most half that of
    any other length.
    """
    if (proposed := _proposed(text)) is not None:
        return proposed
    steps = [value for _, value in samples("", text, "sglang:spec_num_steps")]
    if steps and len(set(steps)) == 1 and steps[0] >= 1:
        return int(steps[0])
    misfits = sorted((_misfit(lines, k), k) for lines, k in _possible(text))
    if not misfits:
        return None
    (least, length), *others = misfits
    is_clear = not others or 2 * least <= others[0][0]
    return length if is_clear else None


def _proposed(text: str) -> int | None:
    """Drafted tokens of a verification, if all requests of a text state the same number; None otherwise."""
    if "spec_num_proposed_drafts" not in text:
        return None
    try:
        requests = parse_objects("", text)
    except (InputError, ValueError):  # no JSON: `read` raises the error
        return None
    lengths = set()
    for request in requests:
        keys = ("spec_num_proposed_drafts", "spec_verify_ct")
        counts = [value_at(request.get("meta_info", request), key) for key in keys]
        proposed, passes = (count if is_count(count) else 0 for count in counts)
        lengths.add(proposed / passes if passes else 0)
    length, *others = lengths
    return int(length) if not others and length >= 1 and length == int(length) else None


def possible_lengths(text: str) -> list[int]:
    """The draft lengths that agree with the accept lengths and accept rates of a log or page."""
    return [length for _, length in _possible(text)]


def _possible(text: str) -> list[tuple[list[_LogLine], int]]:
    """Each draft length that agrees with a log or page, after the lines that determine the draft length."""
    lines = [line for line in (*_log_lines(text), *_page_line(text)) if line.rate >= LEAST_RATE]
    return [(lines, k) for k in range(1, LONGEST_DRAFT + 1) if lines and _agree(lines, k)]


def _misfit(lines: list[_LogLine], gamma: int) -> float:
    """The mean relative distance of the lines from a draft length, with the accept rate whose definition fits
    better (see `_agree`).
    """
    drafted = [(line.length - 1) / line.rate for line in lines]
    with_bonus = [line.length / line.rate for line in lines]
    return min(_relative_distance(drafted, gamma), _relative_distance(with_bonus, gamma + 1))


def _relative_distance(values: list[float], wanted: int) -> float:
    return statistics.fmean(abs(value - wanted) / wanted for value in values)


def _agree(lines: list[_LogLine], gamma: int) -> bool:
    """Whether all accepted lengths and rates belong to this draft length.

    Before April 2026, SGLang counts the bonus token in the accept rate: length / (gamma + 1). Later versions
    do not count it: (length - 1) / gamma (sglang#23530). All lines of a log have the same definition.
    """
    decisive = [line for line in lines if line.rate >= LEAST_RATE]

    def near(tokens: float, rate: float, drafted: int) -> bool:
        return abs(tokens / rate - drafted) <= ROUNDED_SHARE * drafted + ROUNDED_TOKENS / rate

    without_bonus = all(near(line.length - 1, line.rate, gamma) for line in decisive)
    with_bonus = all(near(line.length, line.rate, gamma + 1) for line in decisive)
    return without_bonus or with_bonus


def _server(where: str, info: dict[str, Any]) -> object:
    """The accept length in the answer of ``/get_server_info``; None if it has none. Raises InputError if the
    draft length adapts to the load.
    """
    if info.get("speculative_adaptive"):
        raise InputError(
            f"{where}: speculative_adaptive is on: the mean over changing draft lengths describes "
            "none of them; use the requests' spec_correct_drafts_histogram, or serve one length"
        )
    states = info.get("internal_states")
    first = states[0] if isinstance(states, list) and states else None
    return first.get("avg_spec_accept_length") if isinstance(first, dict) else None


def _histogram(where: str, counted: list[Any]) -> list[float]:
    """The sum of the histograms of all requests. Raises InputError."""
    for entry in counted:
        if not isinstance(entry, list) or not all(map(is_count, entry)):
            raise refuse(where, "spec_correct_drafts_histogram", "a list of counts", entry)
    return [float(sum(column)) for column in itertools.zip_longest(*counted, fillvalue=0)]


def _of_requests(where: str, requests: list[dict[str, Any]], key: str) -> Iterator[float]:
    """The count at a key of each request. Raises InputError if it is missing."""
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
