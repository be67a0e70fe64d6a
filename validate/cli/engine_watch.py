"""``perfmodel validate engine --watch``: whether the draft length of a server is still the best one."""

from collections.abc import Sequence
from dataclasses import fields, replace

import click

from perfmodel.answers.question import OF_SERVER, Query, resolve_costs
from perfmodel.cli.output import say, say_whole
from perfmodel.errors import InputError, refuse
from perfmodel.specs import ENGINES, VERSION_SEPARATOR, load_gpu
from perfmodel.specs.acceptance.acceptance_file import AcceptanceEntry
from perfmodel.specs.boundary.files import looks_like_path
from perfmodel.validate.cli.engine_question import EngineQuestion
from perfmodel.validate.engine.acceptance import (
    AcceptanceSubject,
    counts_drafts,
    import_text,
    served_gamma,
)
from perfmodel.validate.engine.acceptance.contexts import MissingContexts
from perfmodel.validate.engine.acceptance.prometheus import since
from perfmodel.validate.engine.api_key import without_words
from perfmodel.validate.engine.baseline import baseline_health, predicted_context
from perfmodel.validate.engine.cache_size import compared_cache, printed_draft_length
from perfmodel.validate.engine.expected_acceptance import expected
from perfmodel.validate.engine.logged_config import LoggedConfig, started_draft
from perfmodel.validate.engine.metrics_page import read_page
from perfmodel.validate.engine.pace import Pace
from perfmodel.validate.engine.pastes import form_of
from perfmodel.validate.engine.printed_by import printed_by
from perfmodel.validate.engine.running_requests import of_all_ranks, running
from perfmodel.validate.engine.served_counts import ServedCounts
from perfmodel.validate.engine.signs import refused_draft
from perfmodel.validate.engine.watch import command, drift
from perfmodel.validate.engine.watched_health import check_health

FURTHER = (*(name for name in OF_SERVER if name != "power_limit"), "engine", "calibration")
"""Arguments of `schedule` in addition to its model, device and draft. It has no power limit."""


def watch_pages(question: EngineQuestion) -> None:
    """Runs `watch` on a page of metrics or a log. With two pages, it uses the counts between them."""
    if len(question.watch) > 2:
        allowed = "given once, or twice: an earlier page and a later one"
        raise refuse("--watch", None, allowed, len(question.watch))
    page, *earlier = [read_page(place) for place in reversed(question.watch)]
    where, text = page
    form = form_of(text)
    is_log = form is None or form.of_server or counts_drafts(text) or Pace.of(where, text)
    if form is not None and not is_log:
        kind = f"{where} is {form.title}"
        raise InputError(f"--watch: must be a log of a server or a page of metrics: {kind}; use --from")
    if earlier:
        text = since(earlier[0].text, text)
    watch(question, where, text)


def compare_cache(question: EngineQuestion, text: str) -> None:
    """Prints the cache size that a server's log states, and the predicted size."""
    query = _query_of_log(question, text)
    for difference in LoggedConfig.of(text).differences(query, resolve_costs(query).target.weights):
        say(f"warning: {difference}")
    gamma = 0
    if question.draft is not None:
        gamma = question.gamma or printed_draft_length(text) or 1
    say(compared_cache(query, text, gamma))


def watch(question: EngineQuestion, where: str, text: str) -> None:
    """Prints whether the draft length of a server is still the best one, and exits with 1 if it is not."""
    query = _query_of_log(question, text)
    scenario = resolve_costs(query)
    for difference in LoggedConfig.of(text).differences(query, scenario.target.weights):
        say(f"warning: {difference}")
    longest = scenario.target.max_position_embeddings
    if question.context and max(question.context) > longest:
        allowed = f"at most {longest}, the longest of {scenario.target.name}"
        raise refuse("--context", None, allowed, question.context[-1])
    if counts_drafts(text) is None:
        return _without_drafts(question, query, where, text)
    served = served_counts(question, query, where, text)
    if words := compared_cache(query, text, served[0].gamma):
        say(words)
    usual = [expected(query, scenario, counts.context, question.acceptance) for counts in served]
    drifts = [drift(query, counts, known) for counts, known in zip(served, usual, strict=True)]
    for of_range in drifts:
        for line in of_range.lines:
            say(line)
    health = check_health(query, served[-1], usual[-1], where, text)
    if health is not None:
        for line in health.lines:
            say(line)
        if not health.healthy:
            say(f"mend this before the draft length: the figures above hold for {health.assumed}")
            raise click.exceptions.Exit(1)
    if all(of_range.holds for of_range in drifts):
        return say(f"keep K = {served[0].gamma}")
    say_whole(f"run instead: {command(query, served[-1], further_flags(query))}")
    raise click.exceptions.Exit(1)


def _query_of_log(question: EngineQuestion, text: str) -> Query:
    """The question about the engine that printed the log, and about the version of vLLM that the log states.
    The question stays as it is if it names an engine or a calibration, or if the device has a calibration of
    its own.
    """
    query = question.query_of_engine()
    gpu = load_gpu(query.hardware)
    has_own = gpu.kind == "cpu" or looks_like_path(gpu.calibration)
    if question.engine or question.calibration or has_own:
        return query
    word = printed_by(text)
    if word not in ("", "vllm"):
        say(f"engine: {ENGINES[word]}, as the text shows")
        return question.query_of_engine(word)
    version = LoggedConfig.of(text).version
    if version is None or question.version:
        return query
    say(f"version: vLLM {version}, as the log says")
    return replace(query, engine=f"vllm{VERSION_SEPARATOR}{version}")


def _without_drafts(question: EngineQuestion, query: Query, where: str, text: str) -> None:
    """Prints whether a server without drafts is as fast as predicted, and exits with 1 if it is not."""
    if why := refused_draft(text):
        raise InputError(f"{where}: {why}")
    if question.draft is not None:
        raise InputError(
            f"{where}: counts no draft: add the lines or counters of drafts, or leave --draft out for a "
            "server without one"
        )
    if method := started_draft(text):
        raise InputError(
            f"{where}: the server drafts with {method}, but no line counts drafts: add its lines or counters "
            "of drafts (vLLM: SpecDecoding metrics; SGLang: accept len)"
        )
    checked = baseline_health(query, where, text, question.mean_context)
    say(checked.load)
    for line in checked.health.lines:
        say(line)
    if not checked.health.healthy:
        raise click.exceptions.Exit(1)


def served_counts(question: EngineQuestion, query: Query, where: str, text: str) -> list[ServedCounts]:
    """The acceptance counts of a page or log, one entry per range of contexts. Raises InputError. While an
    API key is set, its message contains no text that the server sent.
    """
    if question.draft is None:
        method = LoggedConfig.of(text).method
        of_method = f" of method {method}" if method else ""
        raise InputError(f"--draft: must be given: {where} counts drafts{of_method}")
    gamma = served_gamma(where, text, question.gamma)
    subject = AcceptanceSubject(
        query.model,
        query.draft or "self",
        question.draft_kv,
        question.context or (),
        gamma or 1,
        gamma is not None,
    )
    try:
        rows = _rows(query, subject, where, text)
        requests = of_all_ranks(running(where, text), query, text)
    except InputError as error:
        raise without_words(error) from None
    return [ServedCounts.of(row, gamma, requests) for row in rows]


def _rows(query: Query, subject: AcceptanceSubject, where: str, text: str) -> Sequence[AcceptanceEntry]:
    """The imported rows. If a text does not state contexts, the context follows from the used part of the
    cache. Raises InputError if neither is stated.
    """
    try:
        return import_text(where, text, None, subject).rows
    except MissingContexts:
        context = predicted_context(query, where, text, subject.gamma)
        if context is None:
            raise
    say(f"context: about {context:.0f} tokens, by the used part of the cache (--context states it)")
    return import_text(where, text, None, replace(subject, context=(max(round(context), 1),))).rows


def further_flags(query: Query) -> Sequence[str]:
    """The flags of the question besides --model, --hardware and --draft, without those that have their
    default.
    """
    defaults = {field.name: field.default for field in fields(Query)}
    words = []
    for name in FURTHER:
        value = getattr(query, name)
        if value != defaults[name]:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return words
