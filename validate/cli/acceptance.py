"""``perfmodel validate acceptance``: how often drafted tokens are accepted, observed or imported."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfmodel.errors import InputError, refuse
from perfmodel.parse import parse_counts
from perfmodel.specs.acceptance_file import AcceptanceFile
from perfmodel.specs.acceptance_rows import positions_from_histogram
from perfmodel.speculation.acceptance import alpha_from_tokens_per_iteration
from perfmodel.writing import destination, write

if TYPE_CHECKING:
    from perfmodel.validate.decoder.pair import Pair


def acceptance(
    ctx: typer.Context,
    checkpoint: Annotated[
        str | None, typer.Option(help="Folder: config.json, .safetensors, tokenizer [bundled model].")
    ] = None,
    draft: Annotated[
        str, typer.Option(help="self, ngram[:LONGEST], or a model's folder; of --import, the draft's name.")
    ] = "self",
    draft_kv: Annotated[list[str] | None, typer.Option(help="METHOD:BUDGET, repeatable.")] = None,
    context: Annotated[str, typer.Option(help="Cached tokens, several with commas.")] = "1k,4k",
    gamma: Annotated[int, typer.Option(help="Tokens drafted per iteration.")] = 6,
    prompt: Annotated[list[str] | None, typer.Option(help="A text, repeatable.")] = None,
    prompts: Annotated[
        Path | None, typer.Option(help='JSON lines, {"text": ...} or lists of tokens, a document each; or .txt.')
    ] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Texts are a user's messages, for the chat template.")] = False,
    documents: Annotated[int, typer.Option(help="Documents for each context, at most.")] = 32,
    batch: Annotated[int, typer.Option(help="Documents decoded together.")] = 8,
    new_tokens: Annotated[int, typer.Option(help="Tokens generated for each document, at most.")] = 128,
    temperature: Annotated[float, typer.Option(help="0 is greedy, which flatters: its loops are easy to draft.")] = 1.0,
    top_p: Annotated[float, typer.Option(help="Fewest tokens of this probability.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Most likely tokens; 0 for all.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto (bf16 on CUDA, else fp32), fp32, bf16 or fp64.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="CPU threads [torch's choice; 1 for a small model].")] = None,
    seed: Annotated[int, typer.Option(help="Of sampling, and of the choice of held-out texts.")] = 0,
    convert: Annotated[Path | None, typer.Option("--import", help="Another tool's figures instead of a run.")] = None,
    format: Annotated[
        str | None, typer.Option(help="Of --import: vllm, sglang or llama.cpp [seen by its content].")
    ] = None,
    lengths: Annotated[
        str | None, typer.Option(help="Of --import: the draft lengths of the schedule that was served, such as 1,3.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Of --import: the target's name.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "--output", help="File for `whatif --acceptance`, kept up to date [stdout].")
    ] = None,
) -> int:
    """Measure how often drafted tokens are accepted, by KV method, budget and context; or import such figures."""
    from perfmodel.validate.decoder.pair import Pair
    from perfmodel.validate.decoder.sampling import Sampling

    contexts = parse_counts(context, "--context")
    if out is not None:
        destination(out, flag="--out")
    if convert is not None:
        from perfmodel.validate.engine.acceptance import Subject, import_file

        if target is None:
            raise InputError("--import: needs --target")
        stated = str(ctx.get_parameter_source("gamma")).endswith("COMMANDLINE")
        served = () if lengths is None else parse_counts(lengths, "--lengths")
        subject = Subject(target, draft, (draft_kv or ["full"])[0], contexts[0], gamma, stated, served)
        table = import_file(convert, format, subject)
        if out is not None:
            write(out, as_text(table), "--out")
    else:
        from perfmodel.validate.harness.acceptance import AcceptanceSetting, measure
        from perfmodel.validate.lm import bundled_checkpoint

        if not 0 <= seed < 2**63:
            raise refuse("--seed", None, "from 0 to 2^63 - 1", seed)
        pair = Pair(checkpoint or bundled_checkpoint(), draft=draft, device=device, dtype=dtype)
        pair.set_threads(threads)
        texts = _texts(pair, prompt or [], prompts, chat)
        name = (
            AcceptanceSetting.name
            if texts is None
            else f"{len(texts)} documents of {prompts.name if prompts else '--prompt'}"
        )
        setting = AcceptanceSetting(
            pair, tuple(draft_kv or ()), contexts, gamma, new_tokens, Sampling(temperature, top_p, top_k), documents,
            batch, texts, name, chat, seed,
        )  # fmt: skip
        table = measure(setting, lambda rows: write(out, as_text(rows), "--out") if out else None)
    if out is None:
        typer.echo(as_text(table), nl=False)
    for line in summary(table):
        typer.echo(line, err=True)
    return 0


def _texts(pair: "Pair", texts: list[str], file: Path | None, chat: bool) -> list[list[int]] | None:
    """Tokens of what is to be continued, None for the held-out text of a model that was trained on the other part."""
    from perfmodel.specs.model import load_model
    from perfmodel.validate.decoder.text import read_prompts, tokenizer
    from perfmodel.validate.lm import is_trained_here

    if pair.folder is None:
        raise refuse("--checkpoint", None, "a folder with config.json and .safetensors", pair.target)
    if not texts and file is None:
        if is_trained_here(pair.folder):
            return None
        raise refuse("--prompts", None, "given with --checkpoint: JSON lines or a .txt", "none")
    spec = load_model(pair.target)
    read = read_prompts(tokenizer(spec, pair.folder), texts, file, spec.vocab_size, chat)
    if not read:
        raise refuse("--prompts", str(file), "one document or more", "none")
    return read


def as_text(table: AcceptanceFile) -> str:
    """The file that `whatif --acceptance` reads, a row a line."""
    head = table.model_dump(mode="json", exclude_none=True)
    rows = ["  " + json.dumps(row) for row in head.pop("rows")]
    opening = json.dumps(head)[:-1]
    return f'{opening}, "rows": [\n' + ",\n".join(rows) + "\n]}\n"


def summary(table: AcceptanceFile) -> list[str]:
    """One line a row for the reader: effective alpha, tokens per iteration, acceptance by position."""
    lines = []
    for row in table.rows:
        what = row.draft_kv + (f":{row.kv_budget_tokens}" if row.kv_budget_tokens else "")
        place = f"{what:20} at {row.context_tokens:g}: "
        if row.histogram:
            counts, error = [float(count) for count in row.histogram], row.standard_error
            omega = 1 + sum(j * count for j, count in enumerate(counts)) / sum(counts)
            alpha = float(alpha_from_tokens_per_iteration(omega, float(len(counts) - 1)))
            by = " ".join(f"{rate:.2f}" for rate in positions_from_histogram(counts))
            known = f" +/- {error.tokens_per_iteration:.2f} ({error.documents} documents)" if error else ""
            lines.append(f"{place}alpha {alpha:.3f}, {omega:.2f}{known} tokens per iteration, by position {by}")
        elif row.positions:
            lines.append(place + "by position " + " ".join(f"{rate:.2f}" for rate in row.positions))
        else:
            lines.append(f"{place}alpha {row.alpha:.3f}")
    return lines
