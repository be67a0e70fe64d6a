"""``perfmodel validate acceptance``: the acceptance of drafted tokens, measured here or imported from another
tool.
"""

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from perfmodel.answers.declaration import Argument, question
from perfmodel.answers.question.arguments import COUNTS, TOKENS
from perfmodel.cli.commands import takes
from perfmodel.errors import InputError, refuse
from perfmodel.reading import read_text
from perfmodel.specs import load_model
from perfmodel.specs.acceptance.acceptance_file import AcceptanceEntry, AcceptanceFile
from perfmodel.specs.acceptance.acceptance_rows import positions_from_histogram
from perfmodel.speculation import alpha_from_tokens_per_iteration
from perfmodel.validate.cli.arguments import DecodingQuestion, Out
from perfmodel.validate.lm import bundled_checkpoint, is_trained_here
from perfmodel.writing import destination, write

if TYPE_CHECKING:
    from perfmodel.validate.decoder import ModelPair

DEFAULT_GAMMA = 6
DEFAULT_CONTEXTS = (1024, 4096)


@question
class AcceptanceQuestion(DecodingQuestion):
    """The models, the draft and the texts of a measurement. With --import, these are a file of another tool
    and the models that it is about.
    """

    _: KW_ONLY
    context: Annotated[
        tuple[int, ...] | None,
        Argument(
            "Context lengths to measure, in cached tokens. With --import: one context, or the smallest and "
            "largest served context.",
            COUNTS,
            default="1024,4096; with --import, the contexts in the file",
        ),
    ] = None
    gamma: Annotated[
        int | None,
        Argument(
            "Number of drafted tokens per iteration.",
            "N",
            "-g",
            default=f"{DEFAULT_GAMMA}; with --import, that of the file",
        ),
    ] = None
    documents: Annotated[int, Argument("Maximum number of documents per context.", "N")] = 32
    batch: Annotated[int, Argument("Number of documents decoded together.", "N", "-b")] = 8
    new_tokens: Annotated[
        int, Argument("Maximum number of generated tokens per document.", TOKENS, group="Acceptance")
    ] = 128
    temperature: Annotated[
        float,
        Argument(
            "Sampling temperature. 0 is greedy, which inflates acceptance, because repeated text "
            "is easy to draft.",
            "T",
        ),
    ] = 1.0
    convert: Annotated[
        Path | None,
        Argument(
            "File with acceptance figures from another tool, used instead of running the decoder.",
            "FILE",
            flag="--import",
            group="Acceptance",
        ),
    ] = None
    format: Annotated[
        str | None,
        Argument(
            "With --import: format of the file (vllm, sglang or llama.cpp).",
            "NAME",
            default="detected from the content",
            group="Acceptance",
        ),
    ] = None
    lengths: Annotated[
        tuple[int, ...] | None,
        Argument(
            "With --import: draft lengths that the server used, if they changed with the batch.",
            COUNTS,
            group="Acceptance",
        ),
    ] = None
    target: Annotated[
        str | None,
        Argument("With --import: name of the target; --draft names the draft.", "NAME", group="Acceptance"),
    ] = None


@takes(AcceptanceQuestion)
def acceptance(question: AcceptanceQuestion, out: Out = None) -> None:
    """Measure or import the acceptance of drafted tokens by KV method, budget and context.

    Pass the output file to `whatif --acceptance`. A run rewrites the file after every row.
    """
    if out is not None:
        destination(out, flag="--out")
    table = (
        _measured(question, out) if question.convert is None else _imported(question, question.convert, out)
    )
    if table is None:  # only rank 0 has the result
        return
    if out is None:
        click.echo(as_text(table), nl=False)
    for line in summary(table):
        click.echo(line, err=True)


def _imported(q: AcceptanceQuestion, file: Path, out: Path | None) -> AcceptanceFile:
    """The acceptance in a file of another tool. Writes it to `out` if that is given."""
    from perfmodel.validate.engine.acceptance import (
        AcceptanceSubject,
        counts_drafts,
        import_file,
        served_gamma,
    )

    if q.target is None:
        raise InputError("--import: needs --target")
    cache = (q.draft_kv or ("full",))[0]
    served = q.lengths or ()
    text = read_text(file)
    gamma = q.gamma
    if counts_drafts(text) is not None:
        gamma = served_gamma(str(file), text, q.gamma)
    subject = AcceptanceSubject(
        q.target, q.draft, cache, q.context or (), gamma or DEFAULT_GAMMA, q.gamma is not None, served
    )
    table = import_file(file, q.format, subject)
    if out is not None:
        write(out, as_text(table), "--out")
    return table


def _measured(q: AcceptanceQuestion, out: Path | None) -> AcceptanceFile | None:
    """The acceptance that the decoder measures; None on ranks other than 0. Each finished row is written to
    `out`.
    """
    from perfmodel.validate.decoder import ModelPair, Sampling
    from perfmodel.validate.harness.acceptance import AcceptanceSetting, measure

    pair = ModelPair(
        q.checkpoint or bundled_checkpoint(),
        draft=q.draft,
        device=q.device,
        dtype=q.dtype,
        tp=q.tp,
        kv_dtype=q.kv_dtype,
    )
    pair.set_threads(q.threads)
    texts = _texts(pair, q.prompt or (), q.prompts, q.chat)
    origin = q.prompts.name if q.prompts else "--prompt"
    name = AcceptanceSetting.name if texts is None else f"{len(texts)} documents of {origin}"
    setting = AcceptanceSetting(
        pair,
        draft_kv=q.draft_kv or (),
        contexts=q.context or DEFAULT_CONTEXTS,
        gamma=q.gamma or DEFAULT_GAMMA,
        new_tokens=q.new_tokens,
        sampling=Sampling(q.temperature, q.top_p, q.top_k),
        count=q.documents,
        batch=q.batch,
        texts=texts,
        name=name,
        chat=q.chat,
        seed=q.seed,
        graphs=q.graphs,
    )

    def keep(table: AcceptanceFile) -> None:
        if out is not None:
            write(out, as_text(table), "--out")

    return measure(setting, keep)


def _texts(pair: "ModelPair", texts: Sequence[str], file: Path | None, chat: bool) -> list[list[int]] | None:
    """Tokens of the texts to continue; None for the held-out text of the bundled model."""
    from perfmodel.validate.decoder import read_prompts, tokenizer

    if pair.folder is None:
        raise refuse("--checkpoint", None, "a folder with config.json and .safetensors", pair.target)
    if not texts and file is None:
        if is_trained_here(pair.folder):
            return None
        raise refuse("--prompts", None, "given with --checkpoint: JSON lines or a .txt", "none")
    spec = load_model(pair.target)
    return read_prompts(tokenizer(spec, pair.folder), list(texts), file, spec.vocab_size, chat)


def as_text(table: AcceptanceFile) -> str:
    """The text of the file that `whatif --acceptance` reads, with one row per line."""
    head = table.as_mapping(exclude_none=True)
    rows = ["  " + json.dumps(row) for row in head.pop("rows")]
    return json.dumps(head)[:-1] + ', "rows": [\n' + ",\n".join(rows) + "\n]}\n"


def summary(table: AcceptanceFile) -> list[str]:
    """One line per row: effective alpha, tokens per iteration, acceptance by position."""
    return [f"{_place(row)}: {_rates(row)}" for row in table.rows]


def _place(row: AcceptanceEntry) -> str:
    """The draft's KV method with its budget, and the context with its range."""
    method = row.draft_kv
    if row.kv_budget_tokens:
        method += f":{row.kv_budget_tokens}"
    ends = row.context_range_tokens or ()
    span = " ({:g} to {:g})".format(*ends) if len(set(ends)) > 1 else ""
    return f"{method:20} at {row.context_tokens:g}{span}"


def _rates(row: AcceptanceEntry) -> str:
    """The acceptance of a row in words, by position if this is known."""
    if not row.histogram:
        return f"by position {_in_words(row.positions)}" if row.positions else f"alpha {row.alpha:.3f}"
    counts = [float(count) for count in row.histogram]
    accepted = sum(j * count for j, count in enumerate(counts))
    omega = 1 + accepted / sum(counts)
    gained = f"{omega:.2f}"
    error = row.standard_error
    if error:
        gained += f" +/- {error.tokens_per_iteration:.2f} ({error.documents} documents)"
    alpha = float(alpha_from_tokens_per_iteration(omega, float(len(counts) - 1)))
    by_position = _in_words(positions_from_histogram(counts))
    return f"alpha {alpha:.3f}, {gained} tokens per iteration, by position {by_position}"


def _in_words(rates: Sequence[float]) -> str:
    return " ".join(f"{rate:.2f}" for rate in rates)
