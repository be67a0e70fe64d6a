"""Acceptance figures of vLLM in JSON: a result of ``vllm bench serve`` (0.20 to 0.33), responses of the
server (0.32), or an object with the names of the counters.
"""

import itertools
from typing import Any

from perfmodel.errors import refuse
from perfmodel.reading import parse_json
from perfmodel.validate.engine.acceptance.contexts import Contexts
from perfmodel.validate.engine.acceptance.counters import Counters, lacks_counters
from perfmodel.validate.engine.formats.fields import value_at
from perfmodel.validate.engine.text import is_count, parse_objects

BENCH = "spec_decode_per_position_acceptance_rates"
"""The key of the rates by position in a result of ``vllm bench serve``."""
_OF_RESPONSE = "metrics.speculative_decoding"
"""The field in which a response counts its verifications (``--per-request-spec-decode-metrics``)."""


def json_counters(where: str, text: str) -> Counters:
    """The counters in a JSON text. Raises InputError."""
    responses = _counting_responses(where, text)
    if responses:
        return _of_responses(where, responses)
    data = parse_json(where, text)
    return of_bench(where, data) if BENCH in data else _of_names(where, data)


def json_contexts(where: str, text: str) -> Contexts | None:
    """The contexts of the responses or of the requests of a run; None if their lengths are not stated. Raises
    InputError.
    """
    responses = _counting_responses(where, text)
    if responses:
        prompts = [value_at(response, "usage.prompt_tokens") for response in responses]
        outputs = [value_at(response, "usage.completion_tokens") for response in responses]
        return Contexts.of_requests(prompts, outputs)
    return _contexts_of_bench(parse_json(where, text))


def of_bench(where: str, data: dict[str, Any]) -> Counters:
    """The counters in a result of ``vllm bench serve``. Its rates are relative to all drafts of the run.
    Raises InputError.
    """
    rates = data.get(BENCH)
    drafts = data.get("spec_decode_num_drafts")
    if not isinstance(rates, list) or not rates or not all(is_count(rate) and rate <= 1 for rate in rates):
        raise refuse(where, BENCH, "a list of rates from 0 to 1 by position", rates)
    if not is_count(drafts):
        raise refuse(where, "spec_decode_num_drafts", "a finite count, 0 or more", drafts)
    tokens = data.get("spec_decode_draft_tokens")
    generated = data.get("total_output_tokens")
    completed = data.get("completed")
    decoded = None
    if is_count(generated) and is_count(completed):
        decoded = float(generated - completed)
    return Counters(
        drafts=float(drafts),
        accepted=tuple(rate * drafts for rate in rates),
        draft_tokens=float(tokens) if is_count(tokens) else None,
        decoded=decoded,
    )


def _counting_responses(where: str, text: str) -> list[dict[str, Any]]:
    """All objects of a text if one of them is a response that counts verifications; empty otherwise."""
    objects = parse_objects(where, text)
    return objects if any(value_at(each, _OF_RESPONSE) for each in objects) else []


def _of_responses(where: str, responses: list[dict[str, Any]]) -> Counters:
    """The counters in the histograms of responses. A histogram counts verifications by their number of
    accepted tokens. Raises InputError.
    """
    key = f"{_OF_RESPONSE}.acceptance_histogram"
    histograms = [value_at(response, key) for response in responses]
    for histogram in histograms:
        if not isinstance(histogram, list) or len(histogram) < 2 or not all(map(is_count, histogram)):
            raise refuse(where, key, "a list of counts in each response", histogram)
    verifications = [sum(column) for column in itertools.zip_longest(*histograms, fillvalue=0)]
    at_least = [float(sum(verifications[accepted:])) for accepted in range(len(verifications))]
    return Counters(drafts=at_least[0], accepted=tuple(at_least[1:]))


def _of_names(where: str, data: dict[str, Any]) -> Counters:
    """The counters in a JSON object that has vLLM's names for them. Raises InputError."""
    drafts = data.get("num_drafts")
    accepted = data.get("num_accepted_tokens_per_pos")
    tokens = data.get("num_draft_tokens")
    if not is_count(drafts):
        raise lacks_counters(where)
    if not isinstance(accepted, list) or not accepted or not all(map(is_count, accepted)):
        raise lacks_counters(where)
    return Counters(float(drafts), tuple(map(float, accepted)), float(tokens) if is_count(tokens) else None)


def _contexts_of_bench(run: dict[str, Any]) -> Contexts | None:
    """Contexts from the lengths of a run's requests, or from their means."""
    prompts = run.get("input_lens")
    outputs = run.get("output_lens")
    return Contexts.of_requests(prompts, outputs) if prompts and outputs else Contexts.of_runs([run])
