"""``perfmodel validate generate``: run the real decoder on real or random weights and print what it did."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfmodel.errors import InputError, refuse
from perfmodel.parse import parse_count, parse_numbers
from perfmodel.specs.formats import weight_format
from perfmodel.specs.gpu import load_gpu
from perfmodel.validate.cli.predicted import predicted
from perfmodel.validate.lm import bundled_checkpoint, is_trained_here

if TYPE_CHECKING:
    from perfmodel.validate.decoder.model import Model
    from perfmodel.validate.decoder.pair import Pair
    from perfmodel.validate.decoder.request import Request

DEFAULT_CONTEXT = 4096


def generate(
    checkpoint: Annotated[
        str | None, typer.Option(help="Folder: config.json, .safetensors, tokenizer [bundled model].")
    ] = None,
    model: Annotated[str | None, typer.Option(help="A model's name, with --weights random:SEED.")] = None,
    weights: Annotated[str | None, typer.Option(help="checkpoint or random:SEED.")] = None,
    draft: Annotated[str, typer.Option(help="self, ngram[:LONGEST], or a model's folder or name.")] = "self",
    draft_weights: Annotated[str | None, typer.Option(help="Of a separate draft model, as --weights.")] = None,
    draft_kv: Annotated[list[str] | None, typer.Option(help="METHOD[:BUDGET]; repeatable [all].")] = None,
    gamma: Annotated[str, typer.Option(help="Tokens drafted per iteration.")] = "4",
    prompt: Annotated[list[str] | None, typer.Option(help="Text to continue; repeatable, one sequence each.")] = None,
    prompts: Annotated[
        Path | None, typer.Option(help='JSON lines, {"text": ...} or lists of tokens; or .txt. One sequence each.')
    ] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Texts are a user's messages, for the chat template.")] = False,
    batch: Annotated[
        str | None, typer.Option(help="Sequences decoded together [all prompts; 2 where none are given].")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Last tokens of each prompt, BOS kept [all; 4k].")] = None,
    new_tokens: Annotated[str, typer.Option(help="Tokens to generate for each prompt.")] = "128",
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Fewest tokens of this probability.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Most likely tokens; 0 for all.")] = 0,
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
    pointwise: Annotated[str, typer.Option(help="Steps between matrix products: auto, torch or triton.")] = "auto",
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

    from perfmodel.validate.cli import generated
    from perfmodel.validate.cli.trees import Planned, check_tree, planned
    from perfmodel.validate.decoder import kv
    from perfmodel.validate.decoder.pair import Pair
    from perfmodel.validate.decoder.parallel import joined
    from perfmodel.validate.decoder.request import Request
    from perfmodel.validate.decoder.sampling import Sampling
    from perfmodel.validate.decoder.script import scripted_weights
    from perfmodel.validate.decoder.text import end_tokens, last_tokens, read_prompts, tokenizer
    from perfmodel.validate.harness.side_by_side import compare

    if checkpoint and model:
        raise InputError("--checkpoint and --model: only one of them may be given")
    if checkpoint and not Path(checkpoint).is_dir():
        raise refuse("--checkpoint", None, "a folder with config.json and .safetensors", checkpoint)
    if not 0 <= seed < 2**63:
        raise refuse("--seed", None, "in 0 .. 2**63 - 1", seed)
    if rates is not None and tree is None:
        raise InputError("--rates: is of a tree's children: give --tree too")
    by_rank = parse_numbers(rates, "--rates") if rates is not None else None
    pair = Pair(checkpoint or model or bundled_checkpoint(), weights, draft, draft_weights, device, dtype, tp, draft_tp)
    if tree is not None:
        check_tree(tree, by_rank, draft, alpha)
    steps, inner = parse_count(gamma, "--gamma"), parse_count(inner_gamma, "--inner-gamma")
    asked = Request(
        batch=parse_count(batch, "--batch") if batch else 2,
        context=parse_count(context, "--context") if context else DEFAULT_CONTEXT,
        new_tokens=parse_count(new_tokens, "--new-tokens"),
        gamma=steps,
        draft=pair.kind,
        sampling=Sampling(temperature, top_p, top_k),
        script=None if alpha is None or tree is not None else tuple(scripted_weights(alpha, steps)),
        attention=attention,
        pointwise=pointwise,
        middle_kv=middle_kv,
        inner_gamma=inner if middle_kv else 0,
    )
    if hardware is not None:  # refused before the decoding, not after it
        load_gpu(hardware).peak_flops(weight_format(pair.precision()).base.compute)
    pair.set_threads(threads)
    with joined(tp, pair.place()) as shard:
        target, second = pair.models(shard)
        reader = tokenizer(target.spec, pair.folder)
        given = read_prompts(reader, prompt or [], prompts, target.spec.vocab_size, chat)
        if given:
            length, most = asked.context if context else None, asked.batch if batch else len(given)
            texts = [last_tokens(one, length, reader.bos if reader else None) for one in given[:most]]
        else:
            texts = _made_up(asked, pair, target, bool(context), seed)
        asked = replace(asked, batch=len(texts), context=max(map(len, texts)), eos=end_tokens(pair.folder))
        methods = tuple(method for method in draft_kv or () if method != "all")
        if not methods:
            slides = (second or target).spec.num_sliding_layers > 0
            alone = middle_kv or draft.startswith("ngram")
            methods = ("full",) if alone else kv.every_method(asked.context, steps, slides)
        requests, trees = [replace(asked, draft_kv=method) for method in methods], list[Planned]()
        try:
            if tree is not None:
                trees = [planned(target, one, tree, by_rank, texts, second, seed) for one in requests]
                requests = [one.request for one in trees]
            plain, runs = compare(target, requests, texts, second, seed, graphs)
        except torch.OutOfMemoryError:
            raise InputError(f"{target.device}: out of memory: lower --batch, --context or --new-tokens") from None
        if shard.rank == 0:
            generated.texts(reader, texts, plain)
            typer.echo(f"{target.spec.name}, {target.device.type} x {tp}, {pair.precision()}")
            generated.table(plain, runs, [predicted(pair, run, hardware) for run in runs])
            generated.details(runs, trees)


def _made_up(asked: "Request", pair: "Pair", model: "Model", stated: bool, seed: int) -> list[list[int]]:
    """Prompts where none are given: held-out text for a model trained here, else random tokens."""
    import torch

    from perfmodel.validate.decoder.memory import check_fits

    positions = max(1, model.spec.max_position_embeddings - asked.new_tokens)
    length = asked.context if stated else min(asked.context, positions)
    tokens = asked.batch * (length + asked.new_tokens)
    check_fits("KV cache", tokens * model.spec.kv_bytes_per_token(model.dtype.itemsize) / pair.tp, model.device)
    if is_trained_here(pair.folder):
        from perfmodel.validate.lm.data import held_out_prompts

        return held_out_prompts(asked.batch, length, seed)
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(model.spec.vocab_size, (asked.batch, length), generator=generator).tolist()
