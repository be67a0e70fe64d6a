"""The iterations that TensorRT-LLM lists in JSON: ``/metrics`` of trtllm-serve, ``get_stats()`` of its LLM
API, and the iteration log of trtllm-bench.

An object has ``iter``, ``iterLatencyMS``, ``numActiveRequests``, ``kvCacheStats`` and
``inflightBatchingStats``. Iterations of a draft also have ``specDecodingStats`` (names recalled).
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from statistics import fmean, median
from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.validate.engine.formats.fields import number, optional, step
from perfmodel.validate.engine.pastes.base import TextForm
from perfmodel.validate.engine.timing import (
    GivenFacts,
    RequestLengths,
    Timing,
    drafted_length,
    needed,
    speculation,
)
from perfmodel.validate.solving import grouped

_KEY = re.compile(r"[\"']iterLatencyMS[\"']\s*:")
_OBJECT = re.compile(r"\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+\}")
"""An object whose values can be objects without objects in them."""
_DRAFTS = ("specDecodingStats", "specDecStats")

Iteration = Mapping[str, Any]


class TrtllmIterations(TextForm):
    """A step is the median of all iterations with the same number of requests. Iterations that read prompts
    are left out, and so are objects that were cut off.

    The context is that of the used blocks of the cache, unless the user gives ``input=N``. The TensorRT
    engine does not count drafts, but states the mean of decoded tokens.
    """

    title = "iterations of TensorRT-LLM in JSON"
    engine = "trtllm"
    of_server = True

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return _KEY.search(text) is not None

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        iterations = list(_iterations(text))
        if not iterations:
            raise InputError(f"{where}: iterLatencyMS: has no whole iteration: paste all of its {{...}}")
        decoding = [one for one in iterations if _requests(where, one) and not _prompts(where, one)]
        if not decoding:
            raise InputError(f"{where}: has no iteration that decodes alone: paste those behind the prompts")
        loads = grouped(decoding, lambda one: _requests(where, one))
        return [_step(where, list(group), requests, facts) for requests, group in loads.items()]


def _iterations(text: str) -> Iterator[Iteration]:
    """The whole iterations in a text. They are JSON, or mappings as Python prints them."""
    for found in _OBJECT.finditer(text):
        for parse in (json.loads, ast.literal_eval):
            with suppress(ValueError, SyntaxError):
                one = parse(found[0])
                if isinstance(one, dict) and "iterLatencyMS" in one and "iter" in one:
                    yield one
                break


def _requests(where: str, one: Iteration) -> float:
    """The number of requests that decode."""
    counted = optional(where, dict(one), "inflightBatchingStats.numGenRequests")
    return number(where, dict(one), "numActiveRequests") if counted is None else counted


def _prompts(where: str, one: Iteration) -> float:
    """The number of requests whose prompts are read."""
    return optional(where, dict(one), "inflightBatchingStats.numContextRequests") or 0.0


def _step(where: str, iterations: list[Iteration], requests: float, facts: GivenFacts) -> Timing:
    """The median iteration of these, which have this number of requests."""
    milliseconds = [number(where, dict(one), "iterLatencyMS") for one in iterations]
    seconds = median(milliseconds) / 1e3
    if not seconds:
        raise refuse(where, "iterLatencyMS", "above 0", seconds)
    context = facts.input or _context(where, iterations, requests)
    lengths = RequestLengths(needed(where, "input", context), facts.output or 0.0)
    counted = _speculated(where, iterations)
    drafted = speculation(where, facts, counted.accepted, counted.gamma)
    return step(where, seconds, requests, lengths, drafted, how="median iteration")


def _context(where: str, iterations: list[Iteration], requests: float) -> float | None:
    """The mean number of cached tokens of a request; None if the used blocks are not stated."""
    used = [
        blocks * number(where, dict(one), "kvCacheStats.tokensPerBlock")
        for one in iterations
        if (blocks := optional(where, dict(one), "kvCacheStats.usedNumBlocks"))
    ]
    return fmean(used) / requests if used else None


def _speculated(where: str, iterations: list[Iteration]) -> GivenFacts:
    """The draft length and the tokens per iteration. A value is None if the iterations do not state it."""
    counts = [one[key] for one in iterations for key in _DRAFTS if isinstance(one.get(key), dict)]
    drafts = sum(number(where, count, "numRequestsWithDraftTokens") for count in counts)
    if not drafts:
        means = [
            optional(where, dict(one), "inflightBatchingStats.avgNumDecodedTokensPerIter")
            for one in iterations
        ]
        decoded = fmean(mean or 0.0 for mean in means)
        return GivenFacts(accepted=decoded if decoded > 1.0 else None)
    drafted = sum(number(where, count, "numDraftTokens") for count in counts)
    accepted = sum(number(where, count, "numAcceptedTokens") for count in counts)
    if accepted > drafted:
        raise refuse(where, "numAcceptedTokens", f"at most the {drafted:g} drafted tokens", accepted)
    return GivenFacts(gamma=drafted_length(drafted / drafts), accepted=1.0 + accepted / drafts)
