"""The contexts at which a server decoded while it counted drafts: their mean and range, from its figures
about requests.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from perfmodel.errors import InputError
from perfmodel.validate.engine.text import is_count

LEAST_KNOWN = 0.5
"""Smallest share of all drafts whose context must be known. The other drafts, from the start or the end of a
server's work, count at the mean context.
"""
LEAST_SHARE = 0.1
"""Smallest share of all drafts for which one octave of contexts gets its own row."""


class MissingContexts(InputError):
    """Raised if the figures of a server count drafts but do not state the lengths of the requests."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """Cached tokens per sequence.

    - mean: the mean over all decoded tokens.
    - low, high: the smallest and the largest number.
    """

    mean: float
    low: float
    high: float

    @classmethod
    def of_requests(cls, prompts: object, outputs: object) -> "Contexts | None":
        """The contexts of requests. None if a length is missing, or if nothing was decoded.

        - prompts, outputs: the lengths of each request, in tokens.
        """
        if not isinstance(prompts, list) or not isinstance(outputs, list) or len(prompts) != len(outputs):
            return None
        if not all(map(is_count, [*prompts, *outputs])) or not sum(outputs):
            return None
        pairs = list(zip(prompts, outputs, strict=True))
        mean = sum(output * (prompt + output / 2) for prompt, output in pairs) / sum(outputs)
        longest = max(prompt + output for prompt, output in pairs)
        return cls(mean, max(min(prompts), 1.0), longest)

    @classmethod
    def of_runs(cls, runs: Sequence[Mapping[str, Any]]) -> "Contexts | None":
        """The contexts of the mean request of each run, from the totals in its result (``vllm bench serve``
        and SGLang's ``bench_serving``). None if a total is missing, or if nothing was decoded.
        """
        prompts = [_mean_of_run(run, "total_input_tokens") for run in runs]
        outputs = [_mean_of_run(run, "total_output_tokens") for run in runs]
        return cls.of_requests(prompts, outputs)

    @classmethod
    def given(cls, tokens: Sequence[int]) -> "Contexts":
        """The contexts that a user gave: one number, or the ends of a range."""
        return cls(fmean(tokens), float(min(tokens)), float(max(tokens)))


def _mean_of_run(run: Mapping[str, Any], total: str) -> float | None:
    """A total of a run, divided by the number of its completed requests; None if either is missing."""
    tokens = run.get(total)
    completed = run.get("completed")
    return tokens / completed if is_count(tokens) and is_count(completed) and completed else None


def octaves(
    contexts: Sequence[float | None], drafts: Sequence[float]
) -> Sequence[tuple[Contexts | None, list[int]]]:
    """Groups counts by the octave of their context. Returns the contexts and the indices of each group,
    beginning with the shortest context. All counts are in one group if fewer than `LEAST_KNOWN` of the drafts
    have a context.

    An octave with less than `LEAST_SHARE` of the drafts is joined to a neighbouring octave.
    """
    stated = [i for i, context in enumerate(contexts) if context]
    counted = sum(drafts[i] for i in stated)
    if not stated or counted < LEAST_KNOWN * sum(drafts):
        return [(None, list(range(len(contexts))))]
    mean = _merged([contexts[i] or 0.0 for i in stated], [drafts[i] for i in stated]).mean
    known = [context or mean for context in contexts]
    octave_of = [math.floor(math.log2(context)) for context in known]
    groups: list[list[int]] = []
    enough = LEAST_SHARE * sum(drafts)
    for i in sorted(range(len(known)), key=known.__getitem__):
        if groups:
            last = groups[-1]
            is_small = sum(drafts[j] for j in last) < enough
            if is_small or octave_of[i] == octave_of[last[0]]:
                last.append(i)
                continue
        groups.append([i])
    if sum(drafts[i] for i in groups[-1]) < enough:  # there are several groups: one has all drafts
        last = groups.pop()
        groups[-1] += last
    merged = []
    for group in groups:
        of_group = _merged([known[i] for i in group], [drafts[i] for i in group])
        merged.append((of_group, group))
    return merged


def _merged(contexts: list[float], drafts: list[float]) -> Contexts:
    """The range of the contexts, and their mean, weighted by drafts."""
    mean = fmean(contexts, drafts if sum(drafts) else None)
    return Contexts(mean, min(contexts), max(contexts))


def quantile(bounds: Sequence[tuple[float, float]], share: float) -> float:
    """A quantile of a cumulative histogram.

    - bounds: pairs of an upper bound and the count up to it, in rising order.
    - share: the share of the counts below the quantile, 0 to 1.

    It is interpolated linearly within a bucket, as in Prometheus' ``histogram_quantile``. It is at most the
    last finite bound.
    """
    wanted = share * bounds[-1][1]
    low = 0.0
    before = 0.0
    for high, count in bounds:
        if count >= wanted and count > before:
            if math.isinf(high):
                return low
            return low + (high - low) * (wanted - before) / (count - before)
        low = high
        before = count
    return low
