"""``perfmodel validate generate``: run the real decoder on real or random weights and print what it did."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfmodel.errors import InputError, refuse
from perfmodel.parse import parse_count, parse_numbers
from perfmodel.specs.formats import weight_format
from perfmodel.specs.gpu import load_gpu
from perfmodel.specs.model import load_model
from perfmodel.validate.cli.predicted import predicted
from perfmodel.validate.lm import CHECKPOINT, bundled_checkpoint

if TYPE_CHECKING:
    from perfmodel.validate.decoder.compare import Run
    from perfmodel.validate.decoder.job import Job
    from perfmodel.validate.decoder.model import Model
    from perfmodel.validate.decoder.tokens import Tokenizer

DEFAULT_CONTEXT = 4096
SHOWN_CHARACTERS = 300
SMALL_PARAMS = 50_000_000


def generate(
    checkpoint: Annotated[str | None, typer.Option(help="Folder: config.json, .safetensors [bundled model].")] = None,
    model: Annotated[str | None, typer.Option(help="A model's name, with --weights random:SEED.")] = None,
    weights: Annotated[str | None, typer.Option(help="checkpoint or random:SEED.")] = None,
    draft: Annotated[str, typer.Option(help="self, ngram[:LONGEST], or a model's folder or name.")] = "self",
    draft_weights: Annotated[str | None, typer.Option(help="Of a separate draft model, as --weights.")] = None,
    draft_kv: Annotated[list[str] | None, typer.Option(help="METHOD[:BUDGET]; repeatable [all].")] = None,
    gamma: Annotated[str, typer.Option(help="Tokens drafted per iteration.")] = "4",
    batch: Annotated[str, typer.Option(help="Sequences decoded together.")] = "2",
    context: Annotated[str | None, typer.Option(help="Prompt tokens [4k, or the whole prompt file].")] = None,
    new_tokens: Annotated[str, typer.Option(help="Tokens to generate for each prompt.")] = "128",
    prompt_file: Annotated[Path | None, typer.Option(help="Text to continue: its last --context tokens.")] = None,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Nucleus sampling.")] = 1.0,
    alpha: Annotated[float | None, typer.Option(help="Script acceptance at this rate; else it is observed.")] = None,
    tree: Annotated[
        str | None, typer.Option(help="Draft trees: children by level as 4x2x1, or sequoia:NODES of --gamma levels.")
    ] = None,
    rates: Annotated[
        str | None, typer.Option(help="P(accepted) of a node's 1st, 2nd, ... child, for --tree [measured first].")
    ] = None,
    middle_kv: Annotated[
        str | None, typer.Option(help="METHOD[:BUDGET] through which the target itself drafts, over a small --draft.")
    ] = None,
    inner_gamma: Annotated[str, typer.Option(help="Tokens of --draft in each round below --middle-kv.")] = "2",
    hardware: Annotated[str | None, typer.Option(help="Device to predict for; no prediction without.")] = None,
    attention: Annotated[str, typer.Option(help="auto, math, sdpa or triton.")] = "auto",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto (bf16 on CUDA, else fp32), fp32, bf16 or fp64.")] = "auto",
    tp: Annotated[int, typer.Option(help="Tensor-parallel processes, started by torchrun.")] = 1,
    draft_tp: Annotated[int | None, typer.Option(help="Ranks a separate draft is split over [--tp].")] = None,
    graphs: Annotated[bool, typer.Option("--graphs", help="Replay iterations as CUDA graphs.")] = False,
    threads: Annotated[int | None, typer.Option(help="CPU threads [torch's choice; 1 for a small model].")] = None,
    seed: Annotated[int, typer.Option(help="Of sampling, scripts and random prompts.")] = 0,
) -> None:
    """Decode with and without speculation: text, tokens/s, acceptance of each draft cache, predicted and measured."""
    import torch

    from perfmodel.validate.decoder.compare import compare
    from perfmodel.validate.decoder.job import Job
    from perfmodel.validate.decoder.levels import check_levels, level_lines
    from perfmodel.validate.decoder.parallel import joined
    from perfmodel.validate.decoder.sampling import Sampling
    from perfmodel.validate.decoder.table import lines
    from perfmodel.validate.decoder.tokens import tokenizer
    from perfmodel.validate.decoder.tree_plan import check_spec, planned

    if checkpoint and model:
        raise InputError("--checkpoint and --model: only one of them may be given")
    if checkpoint and not Path(checkpoint).is_dir():
        raise refuse("--checkpoint", None, "a folder with config.json and .safetensors", checkpoint)
    if not 0 <= seed < 2**63:
        raise refuse("--seed", None, "in 0 .. 2**63 - 1", seed)
    by_rank = parse_numbers(rates, "--rates") if rates is not None else None
    if tree is not None:
        check_spec(tree, by_rank, draft, alpha)
    elif rates is not None:
        raise InputError("--rates: is of a tree's children: give --tree too")
    if middle_kv is not None:
        check_levels(draft, tree, alpha)
    name = checkpoint or model or bundled_checkpoint()
    _set_threads(threads, name)
    job = Job(
        name=name,
        gamma=parse_count(gamma, "--gamma"),
        batch=parse_count(batch, "--batch"),
        new_tokens=parse_count(new_tokens, "--new-tokens"),
        weights=weights,
        draft=draft,
        draft_weights=draft_weights,
        draft_kv=tuple(method for method in draft_kv or () if method != "all"),
        sampling=Sampling(temperature, top_p),
        alpha=alpha,
        attention=attention,
        device=device,
        dtype=dtype,
        tp=tp,
        draft_tp=draft_tp,
        middle_kv=middle_kv,
        inner_gamma=parse_count(inner_gamma, "--inner-gamma"),
    )
    if hardware is not None:  # refused before the decoding, not after it
        load_gpu(hardware).peak_flops(weight_format(job.precision()).base.compute)
    with joined(tp, job.place()) as shard:
        target, second = job.models(shard)
        reader = tokenizer(target.spec, job.folder)
        length = parse_count(context, "--context") if context else None
        prompts = _prompts(job, target, reader, length, prompt_file, seed)
        try:
            requests, trees = job.requests(max(map(len, prompts))), []
            if tree is not None:
                trees = [planned(target, one, tree, by_rank, prompts, second, seed) for one in requests]
                requests = [one.request for one in trees]
            plain, runs = compare(target, requests, prompts, second, seed, graphs)
        except torch.OutOfMemoryError:
            raise InputError(f"{target.device}: out of memory: lower --batch, --context or --new-tokens") from None
        if shard.rank == 0:
            _show_text(reader, prompts[0], plain)
            typer.echo(f"{target.spec.name}, {target.device.type} x {tp}, {job.precision()}")
            told = [line for one, run in zip(trees, runs, strict=False) for line in one.lines(run)]
            told += [line for run in runs for line in level_lines(run)]
            typer.echo("\n".join(lines(plain, runs, [predicted(job, run, hardware) for run in runs]) + told))


def _set_threads(threads: int | None, name: str) -> None:
    """As asked, else one for a model whose operators are too short to be shared out."""
    import torch

    if threads is not None and threads < 1:
        raise refuse("--threads", None, "1 or more", threads)
    if threads is not None or load_model(name).total_params < SMALL_PARAMS:
        torch.set_num_threads(threads or 1)


def _prompts(
    job: "Job", model: "Model", reader: "Tokenizer | None", length: int | None, file: Path | None, seed: int
) -> list[list[int]]:
    """From the file, from the bundled model's held-out text, or random."""
    import torch

    from perfmodel.validate.decoder.cache import check_fits

    if file is not None:
        return [_from_file(file, reader, length)] * job.batch
    length = length or min(DEFAULT_CONTEXT, max(1, model.spec.max_position_embeddings - job.new_tokens))
    tokens = job.batch * (length + job.new_tokens)
    check_fits("KV cache", tokens * model.spec.kv_bytes_per_token(model.dtype.itemsize) / job.tp, model.device)
    if job.folder == CHECKPOINT:
        from perfmodel.validate.lm.data import held_out_prompts

        return held_out_prompts(job.batch, length, seed)
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(model.spec.vocab_size, (job.batch, length), generator=generator).tolist()


def _from_file(file: Path, reader: "Tokenizer | None", length: int | None) -> list[int]:
    if reader is None:
        raise InputError("--prompt-file: needs a byte-level model, or a folder with tokenizer.json")
    try:
        tokens = reader.encode(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--prompt-file: must be a readable text file: {error}") from None
    if len(tokens) < (length or 1):
        raise InputError(f"--prompt-file: must hold {length or 1} tokens or more, given {len(tokens)}")
    return tokens[-length:] if length else tokens


def _show_text(reader: "Tokenizer | None", prompt: list[int], plain: "Run") -> None:
    if reader is not None:
        typer.echo("--- prompt (its end) ---\n" + reader.decode(prompt[-SHOWN_CHARACTERS:]))
        typer.echo("--- continuation ---\n" + reader.decode(plain.generation.tokens[0])[:SHOWN_CHARACTERS] + "\n---")
