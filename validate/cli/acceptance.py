"""``perfmodel validate acceptance``: how often drafted tokens are accepted, observed or imported."""

from pathlib import Path
from typing import Annotated

import typer

from perfmodel.errors import InputError
from perfmodel.writing import destination, write


def acceptance(
    ctx: typer.Context,
    checkpoint: Annotated[str | None, typer.Option(help="Folder: config.json, .safetensors [bundled model].")] = None,
    draft_kv: Annotated[list[str] | None, typer.Option(help="METHOD:BUDGET, repeatable.")] = None,
    context: Annotated[str, typer.Option(help="Prompt tokens, several with commas.")] = "1k,4k",
    gamma: Annotated[int, typer.Option(help="Tokens drafted per iteration.")] = 6,
    prompts: Annotated[int, typer.Option(help="Held-out texts for each context.")] = 8,
    new_tokens: Annotated[int, typer.Option(help="Tokens generated for each text.")] = 128,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    text: Annotated[Path | None, typer.Option(help="Prompts of your own, a file [held-out text].")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="CPU threads [torch's choice].")] = None,
    seed: Annotated[int, typer.Option(help="Of prompts and sampling.")] = 0,
    convert: Annotated[Path | None, typer.Option("--import", help="Another tool's figures instead of a run.")] = None,
    format: Annotated[
        str | None, typer.Option(help="Of --import: vllm, sglang or llama.cpp [seen by its content].")
    ] = None,
    lengths: Annotated[
        str | None, typer.Option(help="Of --import: the draft lengths of the schedule that was served, such as 1,3.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Of --import: the target's name.")] = None,
    draft: Annotated[str, typer.Option(help="Of --import: self or the draft's name.")] = "self",
    out: Annotated[Path | None, typer.Option(help="File for `whatif --acceptance` [stdout].")] = None,
) -> int:
    """Measure how often drafted tokens are accepted, by KV method, budget and context; or import such figures."""
    from perfmodel.parse import parse_counts
    from perfmodel.validate.engine.acceptance import Subject, import_file
    from perfmodel.validate.harness import acceptance as observe

    if out is not None:
        destination(out, flag="--out")
    if convert is not None:
        if target is None:
            raise InputError("--import: needs --target")
        contexts = parse_counts(context, "--context")
        stated = str(ctx.get_parameter_source("gamma")).endswith("COMMANDLINE")
        served = () if lengths is None else parse_counts(lengths, "--lengths")
        subject = Subject(target, draft, (draft_kv or ["full"])[0], contexts[0], gamma, stated, served)
        table = import_file(convert, format, subject)
    else:
        setting = observe.Setting(
            checkpoint, tuple(draft_kv or observe.METHODS), parse_counts(context, "--context"), gamma, prompts,
            new_tokens, temperature, text, device, threads, seed,
        )  # fmt: skip
        table = observe.measure(setting)
    content, lines = observe.as_text(table), observe.summary(table)
    if out is None:
        typer.echo(content, nl=False)
    else:
        write(out, content, "--out")
    for line in lines:
        typer.echo(line, err=True)
    return 0
