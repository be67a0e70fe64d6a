"""Acceptance figures on a page of vLLM's ``/metrics`` (0.20 to 0.33): the counters by position, and the
contexts that follow from the histograms of requests. All engines of a page count together.
"""

import re
from dataclasses import dataclass

from perfmodel.errors import refuse
from perfmodel.speculation.acceptance import MAX_POSITIONS
from perfmodel.validate.engine.acceptance.contexts import Contexts, quantile
from perfmodel.validate.engine.acceptance.counters import Counters, lacks_counters
from perfmodel.validate.engine.acceptance.prometheus import POSITION, samples, total

LOW_END = 0.05
"""Quantile of lengths at which the range of contexts begins."""
HIGH_END = 0.95
"""Quantile of lengths at which the range of contexts ends."""
_BOUND = re.compile(r'(?:^|,)\s*le="(\+Inf|[\d.e+]+)"')


def page_counters(where: str, text: str) -> Counters:
    """The counters on a page. Raises InputError."""
    drafts = _sum(where, text, "vllm:spec_decode_num_drafts")
    draft_tokens = _sum(where, text, "vllm:spec_decode_num_draft_tokens")
    accepted = _accepted(where, text)
    if drafts is None or not accepted:
        raise lacks_counters(where)
    generated = _sum(where, text, "vllm:generation_tokens")
    finished = _sum(where, text, "vllm:request_success")
    decoded = None if generated is None or finished is None else generated - finished
    return Counters(drafts, accepted, draft_tokens, decoded)


def page_contexts(where: str, text: str) -> Contexts | None:
    """The contexts that follow from the lengths of prompts and outputs; None without their histograms. A
    request decodes on average with its prompt and half of its output in the cache.
    """
    prompts = _histogram(where, text, "vllm:request_prompt_tokens")
    outputs = _histogram(where, text, "vllm:request_generation_tokens")
    if prompts is None or outputs is None:
        return None
    longest = quantile(prompts.bounds, HIGH_END) + quantile(outputs.bounds, HIGH_END)
    shortest = max(quantile(prompts.bounds, LOW_END), 1.0)
    mean = prompts.mean + outputs.mean / 2
    return Contexts(mean, min(shortest, mean), max(longest, mean))


def _sum(where: str, text: str, name: str) -> float | None:
    """The sum of a metric over all its labels; None if the page does not have it."""
    values = [value for _, value in samples(where, text, name)]
    return sum(values) if values else None


def _accepted(where: str, text: str) -> tuple[float, ...]:
    """The accepted tokens by position. Raises InputError if a position is missing."""
    by_position = dict[int, float]()
    for labels, value in samples(where, text, "vllm:spec_decode_num_accepted_tokens_per_pos"):
        label = POSITION.search(labels)
        if not label:
            raise refuse(
                where, "spec_decode_num_accepted_tokens_per_pos", "labelled with its position", labels
            )
        position = int(label[1])
        by_position[position] = by_position.get(position, 0.0) + value
    count = len(by_position)
    if count > MAX_POSITIONS:
        raise refuse(where, "positions", f"at most {MAX_POSITIONS}", count)
    if sorted(by_position) != list(range(count)):
        raise refuse(where, "positions", "0, 1, 2, ... without gaps", sorted(by_position))
    return tuple(by_position[position] for position in range(count))


@dataclass(frozen=True, slots=True)
class _Histogram:
    """A histogram of the lengths of requests.

    - bounds: pairs of an upper bound, in tokens, and the number of requests up to it, in rising order.
    - mean: the mean length, in tokens.
    """

    bounds: list[tuple[float, float]]
    mean: float


def _histogram(where: str, text: str, name: str) -> _Histogram | None:
    """A histogram of a page; None if it is missing or empty."""
    counts: dict[float, float] = {}
    for labels, value in samples(where, text, f"{name}_bucket"):
        label = _BOUND.search(labels)
        if label:
            bound = float(label[1].replace("Inf", "inf"))
            counts[bound] = counts.get(bound, 0.0) + value
    number = total(where, text, f"{name}_count")
    if counts and number:
        return _Histogram(sorted(counts.items()), total(where, text, f"{name}_sum") / number)
    return None
