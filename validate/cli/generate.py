"""``perfmodel validate generate``: run the decoder on real or random weights and print the results."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from perfmodel.cli.commands import takes
from perfmodel.errors import InputError
from perfmodel.specs import load_gpu, weight_format
from perfmodel.validate.cli.generate_question import GenerateQuestion
from perfmodel.validate.lm import is_trained_here

if TYPE_CHECKING:
    from perfmodel.validate.decoder import Model, ModelPair, Request
    from perfmodel.validate.decoder.text import Tokenizer


@takes(GenerateQuestion)
def generate(question: GenerateQuestion) -> None:
    """Decode with and without speculation; print the text, the acceptance, and the measured and predicted
    speed.
    """
    import torch

    from perfmodel.validate.cli import generated
    from perfmodel.validate.decoder import end_tokens, joined, tokenizer
    from perfmodel.validate.harness.side_by_side import compare

    q = question
    pair = q.pair()
    request = q.request(pair.kind)
    if q.hardware is not None:  # raises InputError before the decoding
        load_gpu(q.hardware).peak_flops(weight_format(pair.formats.weights).base.compute)
    pair.set_threads(q.threads)
    with joined(q.tp, pair.place()) as shard:
        target, second = pair.models(shard)
        reader = tokenizer(target.spec, pair.folder)
        prompts = _prompts(q, reader, target)
        if not prompts:
            prompts = default_prompts(request, pair, target, q.context is not None, q.seed)
        longest = max(map(len, prompts))
        request = replace(request, batch=len(prompts), context=longest, eos=end_tokens(pair.folder))
        methods = draft_caches(q, request, pair, target, second)
        requests = [replace(request, draft_kv=method) for method in methods]
        try:
            baseline, runs = compare(target, requests, prompts, second, q.seed, q.graphs)
        except torch.OutOfMemoryError:
            raise InputError(
                f"{target.device}: out of memory: lower --batch, --context or --new-tokens"
            ) from None
        if shard.rank == 0:
            generated.texts(reader, prompts, baseline)
            click.echo(f"{target.spec.name}, {target.device.type} x {q.tp}, {pair.spelled}")
            predicted = [generated.predicted(pair, run, q.hardware) for run in runs]
            generated.table(baseline, runs, q.hardware, predicted)
            generated.details(runs)


def _prompts(q: GenerateQuestion, reader: "Tokenizer | None", target: "Model") -> list[list[int]]:
    """The ends of the prompts that the question gives, one sequence each; empty if it gives none."""
    from perfmodel.validate.decoder import last_tokens, read_prompts

    given = read_prompts(reader, list(q.prompt or ()), q.prompts, target.spec.vocab_size, q.chat)
    first_token = reader.bos if reader else None
    return [last_tokens(prompt, q.context, first_token) for prompt in given[: q.batch or len(given)]]


def draft_caches(
    q: GenerateQuestion, request: "Request", pair: "ModelPair", target: "Model", second: "Model | None"
) -> Sequence[str]:
    """The KV methods of the draft: those of the question, or by default all methods that this draft can
    use.
    """
    from perfmodel.validate.decoder import kv

    named = tuple(method for method in q.draft_kv or () if method != "all")
    if named:
        return named
    if q.middle_kv or q.draft.startswith("ngram") or pair.is_head(target.spec):
        return ("full",)
    own_prefill = not request.fp8 and not (second or target).spec.num_sliding_layers
    return kv.every_method(request.context, request.gamma, own_prefill)


def default_prompts(
    request: "Request", pair: "ModelPair", model: "Model", given: bool, seed: int
) -> list[list[int]]:
    """Default prompts: text that the bundled model was not trained on, or random tokens for another model.

    - given: whether the user gave the context. Otherwise it is shortened to the positions of the model.
    """
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
