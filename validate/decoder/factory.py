"""Builds the decoder for a request: the draft, its view of the cache, and the caches."""

from perfmodel.errors import InputError
from perfmodel.kv import KVMethod, parse_kv
from perfmodel.validate.decoder import backends, kv
from perfmodel.validate.decoder.cache import KVCache
from perfmodel.validate.decoder.drafts import LONGEST_MATCH, Drafter, ModelDrafter, NGramDrafter, ViewRunner
from perfmodel.validate.decoder.eagle import HeadModel, HeadRunner
from perfmodel.validate.decoder.fp8 import FP8
from perfmodel.validate.decoder.kv.streamingllm import WINDOW_CHUNK, RollingCache
from perfmodel.validate.decoder.level_counts import LevelCounter
from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.pair import check_vocabulary
from perfmodel.validate.decoder.request import Request
from perfmodel.validate.decoder.runner import Runner
from perfmodel.validate.decoder.sampling import Script
from perfmodel.validate.decoder.speculative import Decoder
from perfmodel.validate.decoder.tree import TreeDecoder, TreeDrafter
from perfmodel.validate.decoder.tree_counts import TreeCounter
from perfmodel.validate.decoder.tree_sampling import Topology, TreeScript
from perfmodel.validate.decoder.two_levels import CollectingRunner, TwoLevelDecoder, TwoLevelDrafter


def make_decoder(model: Model, request: Request, draft_model: Model | None = None) -> Decoder:
    """The decoder for a request, with caches that are large enough for it.

    - draft_model: the separate draft model; None if the request names none.

    Raises InputError for a request that cannot be run.
    """
    for loaded in (model, draft_model):
        if loaded is not None:
            loaded.pointwise = backends.pointwise(request.pointwise, loaded.device, loaded.dtype, request.fp8)
    target = _runner(model, request)
    draft = _draft(target, request, draft_model) if request.gamma else None
    script = request.script
    if isinstance(draft, TreeDrafter):
        of_tree = None if script is None else TreeScript(draft.tree, script)
        return TreeDecoder(target, draft, request.sampling, of_tree, request.eos)
    if isinstance(draft, TwoLevelDrafter):
        return TwoLevelDecoder(target, draft, request.sampling, request.eos)
    of_chain = Script(script, model.device) if script else None
    return Decoder(target, draft, request.sampling, of_chain, request.eos)


def watched(decoder: Decoder) -> TreeCounter | LevelCounter | None:
    """Attaches a counter to the decoder and returns it. The counter counts the accepted children of a tree,
    or the tokens that each of two levels accepts. A chain needs no counter, because its state has a
    histogram.
    """
    counter: TreeCounter | LevelCounter
    if isinstance(decoder, TreeDecoder):
        counter = TreeCounter(decoder.tree)
    elif isinstance(decoder, TwoLevelDecoder):
        counter = LevelCounter(decoder.levels)
    else:
        return None
    decoder.observers.append(counter)
    return counter


def _runner(model: Model, request: Request, rolls: bool = False) -> Runner:
    """A model whose cache has room for the prompt, the output and the tokens of one iteration.

    - rolls: whether the cache has room only for a chunk of the prompt or the tokens of one iteration, because
      a `RollingView` keeps the other tokens.
    """
    spec = model.spec
    ahead = request.queries + _inner_round(request)
    tokens = request.context + request.new_tokens
    window = spec.sliding_window if spec.num_sliding_layers else None
    if window is not None and window <= ahead:
        raise InputError(f"--gamma: must be below the window of {spec.name}, {window} tokens, given {ahead}")
    if window is not None and rolls:
        raise InputError(f"--draft-kv: own_prefill=true cannot be run with the sliding layers of {spec.name}")
    if rolls and request.fp8:
        raise InputError(
            "--draft-kv: own_prefill=true rotates the kept keys, which an fp8 cache would round: use bf16"
        )
    slots = max(WINDOW_CHUNK, ahead + 1) if rolls else tokens + ahead  # a rolling cache lags by one token
    shape = (spec.num_hidden_layers, request.batch, model.kv_heads, slots, spec.head_dim)
    dtype = FP8 if request.fp8 else model.dtype
    cache_class = RollingCache if rolls else KVCache
    cache = cache_class(shape, model.device, dtype)
    attention = backends.choose(request.attention, model.device, model.dtype, request.fp8)
    return Runner(model, cache, attention, model.rotary(tokens))


def _draft(target: Runner, request: Request, draft_model: Model | None) -> Drafter:
    """The draft that a request names: n-grams, an EAGLE head, or passes of a model."""
    kind, _, option = request.draft.partition(":")
    if kind == "ngram":
        return _ngrams(request, option)
    names_a_model = kind == "model"
    if kind not in ("self", "model") or option or names_a_model != (draft_model is not None):
        raise _unknown_draft(request)
    if isinstance(draft_model, HeadModel):
        return _head(target, request, draft_model)
    return _passes(target, request, draft_model)


def _unknown_draft(request: Request) -> InputError:
    return InputError(f"--draft: must be self, ngram[:LONGEST] or a model, given {request.draft!r}")


def _ngrams(request: Request, longest: str) -> NGramDrafter:
    """The draft of prompt lookup.

    - longest: the largest number of tokens of a match, as the user wrote it; empty for the default.
    """
    if request.tree is not None:
        raise InputError(f"--tree: must be used with a draft that runs a model, given {request.draft!r}")
    if longest and not longest.isdigit():
        raise _unknown_draft(request)
    return NGramDrafter(request.gamma, int(longest or LONGEST_MATCH))


def _passes(target: Runner, request: Request, draft_model: Model | None) -> Drafter:
    """A draft that runs the target or a separate model. It drafts a chain, a tree, or for a second level."""
    rolls = parse_kv(request.draft_kv).needs_own_prefill
    runner = target
    has_own_cache = draft_model is not None or rolls
    behind = int(has_own_cache)
    if has_own_cache:
        runner = _runner(draft_model or target.model, request, rolls)
        check_vocabulary(target.model.spec, runner.model.spec)
    view = _view(request.draft_kv, runner, request)
    if request.middle_kv is not None:
        small = CollectingRunner(runner, view, _collected(request), has_own_cache)
        return _two_levels(target, small, parse_kv(request.middle_kv, "--middle-kv"), request)
    if request.tree is None:
        passes = ViewRunner(runner, view, request.gamma + behind, has_own_cache)
        return ModelDrafter(passes, request.gamma, request.sampling)
    tree = Topology(request.tree, target.model.device)
    passes = ViewRunner(runner, view, tree.starts[-2] + behind, has_own_cache)
    return TreeDrafter(passes, tree, request.sampling)


def _head(target: Runner, request: Request, head: HeadModel) -> ModelDrafter:
    if request.tree is not None or request.middle_kv is not None or request.draft_kv != "full":
        raise InputError(
            "--draft: a head drafts chains over its own full cache: leave out --tree, --middle-kv and "
            "--draft-kv"
        )
    runner = _runner(head, request)
    view = _view("full", runner, request)
    passes = HeadRunner(target, runner, head, view, request.queries)
    return ModelDrafter(passes, request.gamma, request.sampling)


def _two_levels(
    target: Runner, small: CollectingRunner, method: KVMethod, request: Request
) -> TwoLevelDrafter:
    if method.needs_own_prefill:
        raise InputError("--middle-kv: own_prefill=true can be predicted but not run by the decoder")
    view = kv.view(method, target, request.new_tokens, request.max_accepted)
    if view.by_query and not request.sampling.greedy:
        raise InputError(
            f"--middle-kv: {method.name} selects by the queries of the tokens that it verifies, so sampling "
            "would not be exact: use a method that selects before, or temperature 0"
        )
    middle = CollectingRunner(target, view, _collected(request), owns_cache=False)
    return TwoLevelDrafter(middle, small, (request.inner_gamma, request.gamma), request.sampling)


def _inner_round(request: Request) -> int:
    """The number of tokens of an inner round of two levels. It includes the middle's own token, and one token
    by which a cache can lag.
    """
    return 0 if request.middle_kv is None else request.inner_gamma + 2


def _collected(request: Request) -> int:
    """The number of scratch slots of two levels. They have the collected tokens and those of one more
    round.
    """
    return request.queries + _inner_round(request)


def _view(method: str, runner: Runner, request: Request) -> kv.View:
    return kv.view(parse_kv(method), runner, request.new_tokens, request.max_accepted)
