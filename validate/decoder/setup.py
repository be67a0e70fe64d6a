"""From a request to a decoder: which draft, which view, how much room."""

from dataclasses import dataclass, field

import torch

from perfmodel.errors import InputError
from perfmodel.kv import parse_kv
from validate.decoder import attention, kv
from validate.decoder.cache import KVCache
from validate.decoder.drafts import Draft, ModelDraft
from validate.decoder.model import Model
from validate.decoder.ngram import NGramDraft
from validate.decoder.runner import Observed, Runner
from validate.decoder.sampling import Sampling, Script
from validate.decoder.speculative import Decoder, check_vocabulary
from validate.decoder.state import State


@dataclass(frozen=True)
class Request:
    """What to decode with. `context` is the longest prompt; `gamma` 0 is plain decoding, whatever the draft.

    draft: ``self``, ``ngram[:LONGEST]`` or ``model`` (a separate one, handed to `decoder`).
    script: relative frequencies of 0 .. gamma accepted tokens, None to observe what the models do.
    """

    batch: int
    context: int
    new_tokens: int
    gamma: int = 0
    draft: str = "self"
    draft_kv: str = "full"
    sampling: Sampling = field(default_factory=Sampling)
    script: tuple[float, ...] | None = None
    attention: str = "auto"
    eos: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, value, least in (("batch", self.batch, 1), ("context", self.context, 1), ("gamma", self.gamma, 0)):
            if value < least:
                raise InputError(f"--{name}: must be {least} or more, given {value}")
        if self.script is not None and len(self.script) != self.gamma + 1:
            counts = self.gamma + 1
            raise InputError(f"scripted acceptance: must be gamma + 1 = {counts} counts, given {len(self.script)}")


def decoder(model: Model, request: Request, draft_model: Model | None = None) -> Decoder:
    """A decoder with caches of the size the request needs."""
    chosen = attention.choose(request.attention, model.device, model.dtype)
    target = Runner(model, _cache(model, request), chosen)
    script = Script(list(request.script), model.device) if request.script is not None else None
    draft = _draft(target, request, draft_model) if request.gamma else None
    return Decoder(target, draft, request.sampling, script, request.eos)


def _cache(model: Model, request: Request) -> KVCache:
    room = request.context + request.new_tokens + request.gamma + 1
    spec = model.spec
    window = spec.sliding_window if spec.num_sliding_layers else None
    if window is not None and window < room:
        raise InputError(
            f"model {spec.name}: attends to the last {window} tokens and must be run within them, given {room}"
        )
    layers, batch = spec.num_hidden_layers, request.batch
    return KVCache(layers, batch, model.kv_heads, room, spec.head_dim, model.device, model.dtype)


def _draft(target: Runner, request: Request, draft_model: Model | None) -> Draft:
    kind, _, option = request.draft.partition(":")
    if kind == "ngram" and (not option or option.isdigit()):
        return NGramDraft(request.gamma, int(option or 3))
    if kind not in ("self", "model") or option or (kind == "model") != (draft_model is not None):
        raise InputError(f"--draft: must be self, ngram[:LONGEST] or a model, given {request.draft!r}")
    runner = target
    if draft_model is not None:
        runner = Runner(draft_model, _cache(draft_model, request), target.attention)
        check_vocabulary(target, runner)
    method = parse_kv(request.draft_kv)
    view = kv.view(method, runner.cache, target.attention, request.new_tokens, request.gamma)
    return ModelDraft(runner, view, request.gamma, request.sampling, own=draft_model is not None)


@torch.inference_mode()
def start_random(made: Decoder, context: int, new_tokens: int, seed: int = 0) -> State:
    """A state as after prompts of `context` tokens, with random cache contents: timing needs no prefill."""
    model, cache = made.target.model, made.target.cache
    generator = torch.Generator(model.device).manual_seed(seed)
    batch = len(cache.lengths)
    tokens = torch.randint(model.spec.vocab_size, (batch, context), generator=generator, device=model.device)
    length = torch.full((batch,), context, device=model.device)
    state = State.from_tokens(tokens, length, new_tokens, made.gamma, seed)
    _fill(cache, state.length, context, generator)
    if isinstance(made.draft, ModelDraft):
        draft = made.draft
        if draft.own:
            _fill(draft.runner.cache, state.length - 1, context - 1, generator)
        draft.view.build(_random_queries(draft.runner, batch, draft.view.window, generator))
    state.append(tokens[:, -1:], torch.ones_like(state.length), made.eos)
    return state


def _fill(cache: KVCache, lengths: torch.Tensor, bound: int, generator: torch.Generator) -> None:
    for part in (cache.k, cache.v):
        for layer in part:
            layer.normal_(generator=generator)
    cache.set_lengths(lengths, bound)


def _random_queries(runner: Runner, batch: int, window: int, generator: torch.Generator) -> Observed:
    spec, model = runner.model.spec, runner.model
    heads = spec.num_attention_heads // model.shard.size
    shape = (spec.num_hidden_layers, batch, heads, window + 1, spec.head_dim)
    return Observed(torch.empty(shape, dtype=model.dtype, device=model.device).normal_(generator=generator), window)
