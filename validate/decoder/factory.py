"""From a request to a decoder: which draft, which view, how much room; and a start without a prefill."""

import torch

from perfmodel.errors import InputError
from perfmodel.kv import parse_kv
from perfmodel.validate.decoder import backends, kv
from perfmodel.validate.decoder.cache import KVCache, RollingCache
from perfmodel.validate.decoder.drafts import Draft, ModelDraft, ViewRunner
from perfmodel.validate.decoder.kv import View
from perfmodel.validate.decoder.kv.streamingllm import WINDOW_CHUNK
from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.ngram import NGramDraft
from perfmodel.validate.decoder.request import Request
from perfmodel.validate.decoder.runner import Observed, Runner
from perfmodel.validate.decoder.sampling import Script
from perfmodel.validate.decoder.speculative import Decoder, check_vocabulary
from perfmodel.validate.decoder.state import State
from perfmodel.validate.decoder.topology import Topology
from perfmodel.validate.decoder.tree import TreeDecoder, TreeDraft
from perfmodel.validate.decoder.tree_sampling import TreeScript
from perfmodel.validate.decoder.two_levels import TwoLevelDecoder, TwoLevelDraft


def make_decoder(model: Model, request: Request, draft_model: Model | None = None) -> Decoder:
    """A decoder with caches of the size the request needs."""
    attention = backends.choose(request.attention, model.device, model.dtype)
    for each in (model, draft_model):
        if each is not None:
            each.pointwise = backends.pointwise(request.pointwise, each.device, each.dtype)
    target = Runner(model, _cache(model, request), attention)
    draft, sampling = _draft(target, request, draft_model) if request.gamma else None, request.sampling
    if isinstance(draft, TreeDraft):
        path = TreeScript(draft.tree, request.script) if request.script is not None else None
        return TreeDecoder(target, draft, sampling, path, request.eos)
    script = _script(request.script, model)
    if isinstance(draft, TwoLevelDraft):
        return TwoLevelDecoder(target, draft, sampling, script, request.eos)
    return Decoder(target, draft, sampling, script, request.eos)


def _script(frequencies: tuple[float, ...] | None, model: Model) -> Script | None:
    return None if frequencies is None else Script(frequencies, model.device)


def _cache(model: Model, request: Request, rolls: bool = False) -> KVCache:
    """Room for prompt, output and the tokens of an iteration; two levels write further ahead.

    rolls: room for a chunk of the prompt or the tokens of an iteration alone, since a `RollingView` keeps the others.
    """
    spec, ahead = model.spec, request.queries + (request.inner_gamma + 2 if request.middle_kv is not None else 0)
    room = request.context + request.new_tokens + ahead
    window = spec.sliding_window if spec.num_sliding_layers else None
    if window is not None and window <= ahead:
        raise InputError(
            f"--gamma: {spec.name} sees {window} tokens and must be given fewer in one pass, given {ahead}"
        )
    if window is not None and rolls:
        raise InputError(f"--draft-kv: own_prefill=true cannot be run with the sliding layers of {spec.name}")
    model.expect(room)
    shape = spec.num_hidden_layers, request.batch, model.kv_heads
    if not rolls:
        return KVCache(*shape, room, spec.head_dim, model.device, model.dtype)
    assert model.frequencies is not None
    recent = max(WINDOW_CHUNK, request.queries, _slots(request))
    return RollingCache(model.frequencies, *shape, recent, spec.head_dim, model.device, model.dtype)


def _draft(target: Runner, request: Request, draft_model: Model | None) -> Draft:
    kind, _, option = request.draft.partition(":")
    if kind == "ngram" and request.tree is not None:
        raise InputError(f"--tree: must be grown by a draft that runs a model, given {request.draft!r}")
    if kind == "ngram" and (not option or option.isdigit()):
        return NGramDraft(request.gamma, int(option or 3))
    if kind not in ("self", "model") or option or (kind == "model") != (draft_model is not None):
        raise InputError(f"--draft: must be self, ngram[:LONGEST] or a model, given {request.draft!r}")
    rolls = parse_kv(request.draft_kv).needs_own_prefill
    runner, own, sampling = target, draft_model is not None or rolls, request.sampling
    if own:
        model = draft_model or target.model
        runner = Runner(model, _cache(model, request, rolls), target.attention)
        check_vocabulary(target, runner)
    view = _view(request.draft_kv, runner, request)
    if request.middle_kv is not None:
        return _two_levels(target, ViewRunner(runner, view, _slots(request), own, collects=True), request)
    if request.tree is None:
        return ModelDraft(ViewRunner(runner, view, request.gamma + 1, own), request.gamma, sampling)
    tree = Topology(request.tree, target.model.device)
    return TreeDraft(ViewRunner(runner, view, tree.starts[-2] + own, own), tree, sampling)


def _two_levels(target: Runner, small: ViewRunner, request: Request) -> TwoLevelDraft:
    if parse_kv(request.middle_kv or "full").needs_own_prefill:
        raise InputError("--middle-kv: own_prefill=true can be predicted but not run by the decoder")
    view, sampling = _view(request.middle_kv or "full", target, request), request.sampling
    if view.by_query and not sampling.greedy:
        raise InputError(
            f"--middle-kv: {view.method} selects by the drafted tokens' own queries, so that sampling from "
            "what it sees would not be exact: use a method that selects before, or temperature 0"
        )
    middle = ViewRunner(target, view, _slots(request), own=False, collects=True)
    script = _script(request.inner_script, target.model)
    return TwoLevelDraft(middle, ModelDraft(small, request.inner_gamma, sampling), request.gamma, sampling, script)


def _slots(request: Request) -> int:
    """Collected tokens, and those of another round."""
    return request.max_accepted + request.inner_gamma + 3


def _view(method: str, runner: Runner, request: Request) -> View:
    return kv.view(parse_kv(method), runner.cache, runner.attention, request.new_tokens, request.max_accepted)


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
    for passes in made.models:
        if passes.own:
            _fill(passes.runner.cache, state.length - passes.behind, context - passes.behind, generator)
        passes.view.build(_random_queries(passes.runner, batch, passes.view.window, generator))
    state.append(tokens[:, -1:], torch.ones_like(state.length), made.eos)
    return state


def _fill(cache: KVCache, lengths: torch.Tensor, bound: int, generator: torch.Generator) -> None:
    for layer in cache.kv.flatten(0, 1):
        layer.normal_(generator=generator)
    cache.set_lengths(lengths, bound)


def _random_queries(runner: Runner, batch: int, window: int, generator: torch.Generator) -> Observed:
    spec, model = runner.model.spec, runner.model
    heads = spec.num_attention_heads // model.shard.size
    shape = (spec.num_hidden_layers, batch, heads, window + 1, spec.head_dim)
    return Observed(torch.empty(shape, dtype=model.dtype, device=model.device).normal_(generator=generator), window)
