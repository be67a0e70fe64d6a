"""``perfmodel validate generate``: run the real decoder on real or random weights and print the results."""

from dataclasses import KW_ONLY, replace
from typing import TYPE_CHECKING, Annotated

import click

from perfmodel.answers.declaration import SHARE, Argument, question
from perfmodel.answers.question.arguments import TOKENS
from perfmodel.cli.commands import takes
from perfmodel.errors import InputError, refuse
from perfmodel.kv import parse_kv
from perfmodel.reading import is_folder
from perfmodel.specs import load_gpu, weight_format
from perfmodel.speculation.tree_shape import branching, widths
from perfmodel.validate.cli.arguments import DecodingQuestion
from perfmodel.validate.lm import bundled_checkpoint, is_trained_here

if TYPE_CHECKING:
    from perfmodel.validate.decoder import Model, ModelPair, Request

DEFAULT_CONTEXT = 4096


@question
class GenerateQuestion(DecodingQuestion):
    """The texts to decode, the draft, and the device."""

    _: KW_ONLY
    model: Annotated[
        str | None,
        Argument("Name of a model, with --weights random:SEED.", "NAME", "-m", without=("checkpoint",)),
    ] = None
    weights: Annotated[
        str | None, Argument("Source of the weights: checkpoint or random:SEED.", "SOURCE", group="Formats")
    ] = None
    draft_weights: Annotated[
        str | None,
        Argument("Weights of a separate draft model, written like --weights.", "SOURCE", group="Formats"),
    ] = None
    gamma: Annotated[int, Argument("Tokens drafted per iteration.", "N", "-g")] = 4
    batch: Annotated[
        int | None,
        Argument(
            "Batch size: sequences decoded together.",
            "N",
            "-b",
            default="all prompts, or 2 without prompts",
        ),
    ] = None
    context: Annotated[
        int | None,
        Argument(
            "Tokens to keep from the end of each prompt, in addition to the BOS.",
            TOKENS,
            "-c",
            default="all; 4k without prompts",
        ),
    ] = None
    new_tokens: Annotated[
        int, Argument("Tokens to generate for each prompt.", TOKENS, group="Acceptance")
    ] = 128
    temperature: Annotated[float, Argument("Temperature of sampling; 0 is greedy.", "T")] = 0.0
    alpha: Annotated[
        float | None,
        Argument(
            "Force this acceptance rate; without it, the rate is observed.",
            "RATE",
            limits=SHARE,
            group="Acceptance",
        ),
    ] = None
    tree: Annotated[
        str | None,
        Argument(
            "Draft trees, written as children by level: 4x2x1.",
            "TREE",
            group="Draft",
            without=("alpha",),
            why="because the acceptance of a tree is observed",
        ),
    ] = None
    middle_kv: Annotated[
        str | None,
        Argument(
            "Two levels: KV method of the middle (the target with a sparse cache); --draft drafts for it.",
            "METHOD[:BUDGET]",
            group="Draft",
            without=("alpha", "tree"),
            why="because the acceptance of two levels is observed",
        ),
    ] = None
    inner_gamma: Annotated[
        int, Argument("Two levels: tokens that --draft proposes to the middle per round.", "N", group="Draft")
    ] = 2
    hardware: Annotated[
        str | None, Argument("Device of the prediction; without it nothing is predicted.", "NAME|PATH")
    ] = None
    attention: Annotated[
        str,
        Argument(
            "auto, math, sdpa, triton, or triton-unsplit, whose verification does not split the cache.",
            "KERNEL",
            group="Run",
        ),
    ] = "auto"
    pointwise: Annotated[
        str, Argument("Kernels between matrix products: auto, torch or triton.", "KERNEL", group="Run")
    ] = "auto"
    draft_tp: Annotated[
        int | None, Argument("Number of ranks of a separate draft.", "N", default="--tp", group="Draft")
    ] = None

    def check(self) -> None:
        """See `Question.check`."""
        if self.checkpoint and not is_folder(self.checkpoint):
            raise refuse("--checkpoint", None, "a folder with config.json and .safetensors", self.checkpoint)
        if self.tree and self.draft.startswith("ngram"):
            raise refuse("--tree", None, "used with a draft that runs a model", self.draft)
        if self.middle_kv:
            parse_kv(self.middle_kv, "--middle-kv")
            if self.graphs:
                raise refuse("--graphs", None, "used without --middle-kv", "both")

    def request(self, kind: str) -> "Request":
        """The decoder request of one draft cache, drafted by `kind`."""
        from perfmodel.validate.decoder import Request, Sampling, scripted_weights

        parents = None
        gamma = self.gamma
        if self.tree is not None:
            parents = branching(self.tree)
            gamma = len(widths(parents)) - 1
        script = None
        if self.alpha is not None:
            script = tuple(scripted_weights(self.alpha, self.gamma))
        return Request(
            batch=self.batch or 2,
            context=self.context or DEFAULT_CONTEXT,
            new_tokens=self.new_tokens,
            gamma=gamma,
            draft=kind,
            sampling=Sampling(self.temperature, self.top_p, self.top_k),
            script=script,
            attention=self.attention,
            pointwise=self.pointwise,
            kv_dtype=self.kv_dtype,
            tree=parents,
            middle_kv=self.middle_kv,
            inner_gamma=self.inner_gamma if self.middle_kv else 0,
        )


@takes(GenerateQuestion)
def generate(question: GenerateQuestion) -> None:
    """Decode with and without speculation; print text, speed and acceptance, predicted and measured."""
    import torch

    from perfmodel.validate.cli import generated
    from perfmodel.validate.decoder import (
        ModelPair,
        end_tokens,
        joined,
        kv,
        last_tokens,
        read_prompts,
        tokenizer,
    )
    from perfmodel.validate.harness.side_by_side import compare

    q = question
    pair = ModelPair(
        q.checkpoint or q.model or bundled_checkpoint(),
        q.weights,
        q.draft,
        q.draft_weights,
        q.device,
        q.dtype,
        q.tp,
        q.draft_tp,
        q.kv_dtype,
    )
    request = q.request(pair.kind)
    if q.hardware is not None:  # refused before the decoding, not after it
        load_gpu(q.hardware).peak_flops(weight_format(pair.formats.weights).base.compute)
    pair.set_threads(q.threads)
    with joined(q.tp, pair.place()) as shard:
        target, second = pair.models(shard)
        reader = tokenizer(target.spec, pair.folder)
        given = read_prompts(reader, list(q.prompt or ()), q.prompts, target.spec.vocab_size, q.chat)
        if given:
            length = q.context
            most = q.batch or len(given)
            texts = [last_tokens(one, length, reader.bos if reader else None) for one in given[:most]]
        else:
            texts = default_prompts(request, pair, target, q.context is not None, q.seed)
        request = replace(
            request, batch=len(texts), context=max(map(len, texts)), eos=end_tokens(pair.folder)
        )
        methods = tuple(method for method in q.draft_kv or () if method != "all")
        if not methods:
            own_prefill = not (request.fp8 or (second or target).spec.num_sliding_layers)
            alone = q.middle_kv or q.draft.startswith("ngram") or pair.is_head(target.spec)
            methods = ("full",) if alone else kv.every_method(request.context, request.gamma, own_prefill)
        requests = [replace(request, draft_kv=method) for method in methods]
        try:
            baseline, runs = compare(target, requests, texts, second, q.seed, q.graphs)
        except torch.OutOfMemoryError:
            raise InputError(
                f"{target.device}: out of memory: lower --batch, --context or --new-tokens"
            ) from None
        if shard.rank == 0:
            generated.texts(reader, texts, baseline)
            click.echo(f"{target.spec.name}, {target.device.type} x {q.tp}, {pair.spelled}")
            predicted = [generated.predicted(pair, run, q.hardware) for run in runs]
            generated.table(baseline, runs, q.hardware, predicted)
            generated.details(runs)


def default_prompts(
    request: "Request", pair: "ModelPair", model: "Model", given: bool, seed: int
) -> list[list[int]]:
    """Default prompts: held-out text for the bundled model, else random tokens."""
    import torch

    from perfmodel.validate.decoder.memory import check_fits

    positions = max(1, model.spec.max_position_embeddings - request.new_tokens)
    length = request.context if given else min(request.context, positions)
    tokens = request.batch * (length + request.new_tokens)
    token_bytes = model.spec.kv_bytes_per_token(1 if request.fp8 else model.dtype.itemsize)
    check_fits("KV cache", tokens * token_bytes / pair.tp, model.device)
    if is_trained_here(pair.folder):
        from perfmodel.validate.lm.data import held_out_prompts

        return held_out_prompts(request.batch, length, seed)
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(model.spec.vocab_size, (request.batch, length), generator=generator).tolist()
