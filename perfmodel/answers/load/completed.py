"""Fills in arguments that a question to `traffic` does not state, and checks the lengths of its requests."""

from dataclasses import replace

from perfmodel.answers.load.mixed_classes import check_mix, mix_values
from perfmodel.answers.load.rollout import rollout_values
from perfmodel.answers.load.traced import check_fits, trace_of, trace_values
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.question import Named, usual_draft
from perfmodel.errors import refuse
from perfmodel.specs import ModelSpec, engine_of
from perfmodel.specs.engines.request_costs import request_constants


def completed(question: TrafficQuery) -> tuple[TrafficQuery, str]:
    """Two results: the question, with missing arguments filled in from its files, its model and its engine;
    and the source of the standard deviation of acceptance between requests. Raises InputError for wrong
    input.
    """
    values = mix_values(question) | trace_values(question) | rollout_values(question)
    named = Named.of(question)
    if question.draft is None:
        engine = engine_of(named.calibration)
        values["draft"] = usual_draft(question.model, named.target, engine, question.engine)
    published = request_constants().acceptance_std.get(named.target.name)
    source = "assumed"
    if question.acceptance_std is not None:
        source = "as given"
    elif published is not None:
        values["acceptance_std"] = published.value
        source = published.source
    return replace(question, **values) if values else question, source


def check_lengths(question: TrafficQuery, target: ModelSpec) -> None:
    """Raises InputError for requests with more tokens than the model has positions."""
    longest = target.max_position_embeddings
    if question.trace is not None:
        check_fits(question.trace, trace_of(question.trace), target)
    if question.mix is not None:
        check_mix(question.mix, longest)
    total = f"--input-len {question.input_len} and --output-len {question.output_len}"
    if question.turns > 1:
        total += f" in {question.turns} turns ({question.longest} tokens)"
    check_positions(question.longest, total, target)


def check_positions(tokens: int, stated: str, target: ModelSpec) -> None:
    """Raises InputError if the model has fewer than `tokens` positions.

    - stated: the lengths of the request, for the message.
    """
    longest = target.max_position_embeddings
    if tokens > longest:
        allowed = f"at most the {longest} positions of {target.name}, with the output"
        raise refuse("--input-len", None, allowed, stated)
