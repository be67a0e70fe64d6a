"""Checks whether a server without drafts is as fast as predicted, from its log or its page of metrics."""

from dataclasses import replace
from typing import NamedTuple

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query, resolve, resolve_costs
from perfmodel.errors import InputError
from perfmodel.speculation import kv_cache_of
from perfmodel.validate.engine.acceptance.prometheus import samples, total
from perfmodel.validate.engine.acceptance.vllm import served_contexts
from perfmodel.validate.engine.compared import predicted_prompt_token_s
from perfmodel.validate.engine.expectation import Expectation
from perfmodel.validate.engine.health import Health, health
from perfmodel.validate.engine.logged_load import LoggedLoad
from perfmodel.validate.engine.logged_steps import LoggedSteps
from perfmodel.validate.engine.pace import Pace
from perfmodel.validate.engine.running_requests import GAUGES, of_all_ranks, running

USED_TOKENS = "sglang:num_used_tokens"
USED_SHARES = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
"""Gauges with the used share of the cache, in newer and older versions of vLLM."""


class BaselineHealth(NamedTuple):
    """The load of a server without drafts in words, and the comparison of its speed with the prediction for
    this load.
    """

    load: str
    health: Health


def baseline_health(query: Query, where: str, text: str, context: float | None) -> BaselineHealth:
    """Compares the speed of a server without drafts with the prediction for its own load. Raises InputError
    if the text states no throughput, or if the context is unknown.

    - context: cached tokens of a request; by default, those that the text states.
    """
    pace, requests, cached = _served(query, where, text, context)
    point = replace(query, batch=max(round(requests), 1), context=max(round(cached), 1), gamma=0)
    prompt_token_s = predicted_prompt_token_s(resolve(point), point.context, drafts=False)
    words = f"requests: {requests:g} running, at {point.context} tokens of context; no drafts"
    predicted = Expectation(whatif(point), 1.0, None, prompt_token_s)
    return BaselineHealth(words, health(pace, predicted, text))


def _served(query: Query, where: str, text: str, context: float | None) -> tuple[Pace, float, float]:
    """The speed, the number of running requests and the cached tokens of a request. Raises InputError if the
    text does not state one of them.

    - context: cached tokens of a request; by default, those that the text states.
    """
    if (steps := LoggedSteps.of(where, text, context)) is not None:
        return Pace(steps.step_s, waiting=0.0), steps.running, steps.context
    pace = Pace.of(where, text)
    requests = of_all_ranks(running(where, text), query, text)
    if pace is None or requests is None:
        raise InputError(f"{where}: states no draft, and no throughput of running requests")
    cached = context or _stated_context(where, text) or predicted_context(query, where, text, gamma=0)
    if cached is None:
        raise InputError(f"--context: must be given: {where} does not state the lengths of its requests")
    return pace, requests, cached


def predicted_context(query: Query, where: str, text: str, gamma: int) -> float | None:
    """The mean number of cached tokens of a request; None if the text does not show it. A page of SGLang
    counts the used tokens. A log or a page of vLLM states the used share of the cache, which is multiplied by
    the predicted cache size.

    - gamma: the draft length, which affects the predicted cache size.
    """
    load = LoggedLoad.of(text)
    requests = running(where, text)
    if load is None and requests is None:
        return None
    used = total(where, text, USED_TOKENS)
    if used and requests:
        return used / requests
    cache = kv_cache_of(resolve_costs(query), gamma, query.memory_fraction)
    rank_tokens = cache.kv_tokens / cache.groups
    if load is not None:
        return load.context_of(rank_tokens)
    shares = [share for name in USED_SHARES for _, share in samples(where, text, name)]
    now = sum(total(where, text, name) for name in GAUGES)
    return rank_tokens * sum(shares) / now if sum(shares) and now else None


def _stated_context(where: str, text: str) -> float | None:
    """The cached tokens of a request that a log or a page of vLLM states; None if the text does not state
    them. `predicted_context` reads the used tokens on a page of SGLang.
    """
    load = LoggedLoad.of(text)
    if load is not None:
        return load.context
    contexts = served_contexts(where, text)
    return None if contexts is None else contexts.mean
