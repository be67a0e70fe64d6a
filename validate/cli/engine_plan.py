"""``perfmodel validate engine --plan``: the benchmark commands that are worth running."""

import os
from dataclasses import replace

import click

from perfmodel.answers.question import Query, resolve
from perfmodel.drafts import kinds
from perfmodel.errors import InputError, refuse
from perfmodel.specs import hub_id, load_gpu, served_id, short_name
from perfmodel.specs.acceptance.acceptance_library import acceptance_library
from perfmodel.validate.cli.engine_question import EngineQuestion
from perfmodel.validate.engine.bench_commands import GAMMAS, BenchRequest, commands
from perfmodel.validate.engine.servers import OWN

METHODS = ("eagle3", "dflash", "dspark", "ngram", "mtp")
"""Kinds of draft that engines call by the same word."""


def print_plan(question: EngineQuestion) -> None:
    """Prints the commands. Raises InputError for an invalid question."""
    query = question.query()
    resolve(replace(query, alpha=0.5))  # raises InputError for an unknown name; the acceptance has no effect
    draft = question.draft or "ngram"
    method = _method(draft)
    model = served_id(query.model) or query.model
    device = load_gpu(query.hardware)
    request = BenchRequest(
        model=model,
        engine=question.engine or "vllm",
        tp=query.tp,
        method=method or "draft_model",
        draft=question.draft_path or _draft_path(query.model, draft, method),
        gammas=(question.gamma,) if question.gamma else GAMMAS,
        batches=question.batches,
        prompts=question.prompts,
        new_tokens=question.new_tokens,
        question=tuple(_flags(question, query, draft)),
        records=os.path.relpath(question.results_folder()),
        pretends=device.kind != "cpu",
    )
    for line in commands(request):
        click.echo(line)


def _method(draft: str) -> str | None:
    """The engines' word for a kind of draft; None for a model. Raises InputError for another kind."""
    word = draft.partition(":")[0]
    if word == "eagle":
        return "eagle3" if "features=" in draft else "eagle"
    if word in METHODS:
        return word
    if word in kinds():
        allowed = f"a model's name or one of eagle, {', '.join(METHODS)} for --plan"
        raise refuse("--draft", None, allowed, draft)
    return None


def _flags(question: EngineQuestion, query: Query, draft: str) -> list[str]:
    """The question in flags, for the commands that read the results."""
    words = ["--model", query.model, "--hardware", query.hardware, "--draft", draft]
    if query.tp != EngineQuestion.tp:
        words += ["--tp", str(query.tp)]
    optional = {
        "--weights": question.weights,
        "--kv-dtype": question.kv_dtype,
        "--results": question.results,
    }
    for flag, value in optional.items():
        if value is not None:
            words += [flag, str(value)]
    return words


def _draft_path(model: str, draft: str, method: str | None) -> str | None:
    """The engine's path of a draft: the id of a model, or of the published head for the target."""
    if method is None:
        return hub_id(draft, "--draft") or draft
    published = acceptance_library().find(short_name(model), method)
    head = published.head if published else None
    if method not in OWN and not head:
        raise InputError(f"--draft-path: must say where the engine finds the {method} head")
    return head
