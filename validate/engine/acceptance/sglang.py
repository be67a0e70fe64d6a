"""Acceptance figures of SGLang 0.5, from requests, ``bench_serving``, ``/get_server_info``, ``/metrics`` and
log lines.

Lengths are in tokens per iteration, including the bonus token. The histogram of a request counts iterations
by the number of accepted tokens, without the bonus token.
"""

import itertools
import re
import statistics
from collections.abc import Iterator
from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.speculation import alpha_from_tokens_per_iteration
from perfmodel.validate.engine.acceptance.contexts import Contexts, octaves
from perfmodel.validate.engine.acceptance.counters import AcceptanceSubject, Counted, CountedText
from perfmodel.validate.engine.acceptance.prometheus import samples, total
from perfmodel.validate.engine.acceptance.sglang_lengths import agree, draft_length
from perfmodel.validate.engine.acceptance.sglang_log import damaged_figures, has_log_lines, log_lines
from perfmodel.validate.engine.text import MAX_COUNT, floats, is_count, parse_objects

CONVENTION = "SGLang accept length: completion tokens over verification passes, bonus token included"
COUNTED = "SGLang counters: tokens behind the first of each request over verification passes"
HISTOGRAM = "SGLang spec_correct_drafts_histogram: iterations by accepted draft tokens"
_DRAFTS = re.compile(r"^[ \t]*sglang:spec_\w+(?:\{[^\n]*\})?[ \t]+(\S+)", re.M)
"""A metric about drafts on a page, and its value."""
WORDS = ("accept_length", "spec_verify_ct", "spec_correct_drafts_histogram", "sglang:spec_", "accept len:")


def is_page_without_drafts(text: str) -> bool:
    """Whether a text is a page of metrics whose figures about drafts are all 0, like those of a server
    without a draft.
    """
    values = _DRAFTS.findall(text)
    return bool(values) and not any(floats(values))


def read(where: str, text: str, subject: AcceptanceSubject) -> CountedText:
    """The rates for the rows of an acceptance file. Raises InputError."""
    gamma = subject.gamma
    if (length := _page_length(where, text)) is not None:
        return CountedText([Counted(_alpha(where, length, gamma), None)], COUNTED)
    if re.search(r"^\s*sglang:spec_accept_length", text, re.M):
        convention = CONVENTION + " (a gauge: of the last log interval only)"
        return CountedText([Counted(_alpha(where, _gauge(where, text), gamma), None)], convention)
    if has_log_lines(text):
        groups = _logged(where, text, gamma, whole=bool(subject.context))
        return CountedText(
            [Counted(_alpha(where, length, gamma), contexts) for length, contexts in groups], CONVENTION
        )
    return _read_objects(where, parse_objects(where, text), gamma)


def _read_objects(where: str, objects: list[dict[str, Any]], gamma: int) -> CountedText:
    """The rates in the JSON objects of requests, of runs of ``bench_serving``, or of ``/get_server_info``.
    Raises InputError.
    """
    infos = [each.get("meta_info", each) for each in objects]
    infos = [info for info in infos if isinstance(info, dict)]
    key = "spec_correct_drafts_histogram"
    if histograms := [info[key] for info in infos if key in info]:
        rates: dict[str, Any] = {"histogram": _histogram(where, histograms)}
        return CountedText([Counted(rates, _contexts_of(infos))], HISTOGRAM)
    if len(objects) == 1 and "internal_states" in objects[0]:
        rates = _alpha(where, _server(where, objects[0]), gamma)
        return CountedText([Counted(rates, None)], CONVENTION)
    if all("accept_length" in each for each in objects):
        rates = _alpha(where, _mean_length(where, objects), gamma)
        return CountedText([Counted(rates, Contexts.of_runs(objects))], CONVENTION)
    rates = _alpha(where, _length_of_requests(where, objects), gamma)
    return CountedText([Counted(rates, _contexts_of(infos))], CONVENTION)


def _contexts_of(infos: list[dict[str, Any]]) -> Contexts | None:
    """The contexts of requests with these prompt and completion tokens."""
    prompts = [info.get("prompt_tokens") for info in infos]
    outputs = [info.get("completion_tokens") for info in infos]
    return Contexts.of_requests(prompts, outputs)


def _mean_length(where: str, runs: list[dict[str, Any]]) -> float:
    """The mean accept length of runs of ``bench_serving``. Raises InputError."""
    lengths = [run["accept_length"] for run in runs]
    if not all(map(is_count, lengths)):
        raise refuse(where, "accept_length", "a finite number in each line", lengths)
    return statistics.fmean(lengths)


def _length_of_requests(where: str, requests: list[dict[str, Any]]) -> float | None:
    """The tokens per verification of requests; None without verifications. Raises InputError."""
    tokens = sum(_of_requests(where, requests, "completion_tokens"))
    passes = sum(_of_requests(where, requests, "spec_verify_ct"))
    return tokens / passes if passes else None


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
    """The mean accept length of the log lines in each octave of contexts, weighted by running requests, and
    these contexts. Raises InputError for lines of another draft length.

    - whole: whether all lines form one group.
    """
    lines = log_lines(text)
    if damaged := damaged_figures(text):
        figures = "#running-req, #token, accept len and accept rate of a line"
        raise refuse(where, figures, f"numbers from 0 to {MAX_COUNT:g}", damaged)
    if not agree(lines, gamma):
        logged = draft_length(text)
        allowed = "the draft length of" if logged is None else f"{logged}, the draft length of"
        raise refuse("--gamma", None, f"{allowed} {where}", gamma)
    running = [max(line.running, 1) for line in lines]
    contexts_of_lines: list[float | None] = [None] * len(lines)
    if not whole:
        contexts_of_lines = [line.cached / n for line, n in zip(lines, running, strict=True)]
    means = []
    for contexts, group in octaves(contexts_of_lines, running):
        tokens = sum(running[i] * lines[i].length for i in group)
        means.append((tokens / sum(running[i] for i in group), contexts))
    return means


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
