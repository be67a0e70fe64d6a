"""From a request to a decoder: which draft, which view, how much room."""

from dataclasses import dataclass, field, replace

import torch

from perfmodel.errors import InputError
from perfmodel.kv import parse_kv
from perfmodel.validate.decoder import backends, kv
from perfmodel.validate.decoder.ahead import Ahead, AheadDraft
from perfmodel.validate.decoder.cache import KVCache
from perfmodel.validate.decoder.drafts import Draft, ModelDraft
from perfmodel.validate.decoder.kv import View
from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.ngram import NGramDraft
from perfmodel.validate.decoder.runner import Observed, Runner
from perfmodel.validate.decoder.sampling import Sampling, Script
from perfmodel.validate.decoder.speculative import Decoder, check_vocabulary
from perfmodel.validate.decoder.state import State
from perfmodel.validate.decoder.topology import Topology, check_parents, depths
from perfmodel.validate.decoder.tree import TreeDecoder
from perfmodel.validate.decoder.tree_draft import TreeDraft
from perfmodel.validate.decoder.two_level import Inner, TwoLevelDecoder, TwoLevelDraft


@dataclass(frozen=True)
class Request:
    """What to decode with. `context` is the longest prompt; `gamma` 0 is plain decoding, whatever the draft.

    draft: ``self``, ``ngram[:LONGEST]`` or ``model`` (a separate one, handed to `decoder`).
    tree: parents of the nodes of a token tree (see `topology`) of gamma levels below the root, None for a chain.
    middle_kv: the target's sparse cache that stands between a separate draft and the target itself (see `two_level`),
    drafting gamma tokens from rounds of `inner_gamma` of the draft's; None for one level.
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
    tree: tuple[int, ...] | None = None
    middle_kv: str | None = None
    inner_gamma: int = 0

    def __post_init__(self) -> None:
        for name, value, least in (("batch", self.batch, 1), ("context", self.context, 1), ("gamma", self.gamma, 0)):
            if value < least:
                raise InputError(f"--{name}: must be {least} or more, given {value}")
        if self.tree is not None:
            self._check_tree(self.tree)
        if self.middle_kv is not None:
            self._check_levels()
        if self.script is not None and len(self.script) != self.gamma + 1:
            counts = self.gamma + 1
            raise InputError(f"scripted acceptance: must be gamma + 1 = {counts} counts, given {len(self.script)}")

    def _check_tree(self, parents: tuple[int, ...]) -> None:
        check_parents(parents)
        if self.gamma != depths(parents)[-1]:
            raise InputError(f"--gamma: must be the {depths(parents)[-1]} levels below the root, given {self.gamma}")
        if self.script is not None:
            raise InputError("--alpha: must not be given with --tree: it is a chain's, and a tree's is observed")

    def _check_levels(self) -> None:
        if self.draft != "model" or self.tree is not None or self.script is not None:
            raise InputError("--middle-kv: must stand over a separate --draft model, without --tree and --alpha")
        if self.inner_gamma < 1 or self.gamma < 1:
            raise InputError(
                f"--inner-gamma, --gamma: must be 1 or more with --middle-kv, given {self.inner_gamma}, {self.gamma}"
            )

    def plain(self) -> "Request":
        """The same without speculation."""
        script = None if self.script is None else (1.0,)
        return replace(self, gamma=0, tree=None, middle_kv=None, script=script)

    @property
    def cache_name(self) -> str:
        """What is read for drafting, from the level that verifies down."""
        if self.draft.startswith("ngram"):
            return self.draft
        return self.draft_kv if self.middle_kv is None else f"{self.middle_kv} < {self.draft_kv}"

    @property
    def masked(self) -> bool:
        """Whether new tokens are more than a chain."""
        return self.tree is not None or self.middle_kv is not None

    @property
    def most(self) -> int:
        """Most drafted tokens that one iteration can accept."""
        return self.gamma if self.middle_kv is None else self.gamma + self.inner_gamma

    @property
    def queries(self) -> int:
        """Tokens that a verification runs for each sequence, at most."""
        return self.most + 1 if self.tree is None else len(self.tree)


def decoder(model: Model, request: Request, draft_model: Model | None = None) -> Decoder:
    """A decoder with caches of the size the request needs."""
    chosen = backends.choose(request.attention, model.device, model.dtype, masked=request.masked)
    target = Runner(model, _cache(model, request), chosen)
    script = Script(list(request.script), model.device) if request.script is not None else None
    draft = _draft(target, request, draft_model) if request.gamma else None
    if isinstance(draft, TreeDraft):
        return TreeDecoder(target, draft, request.sampling, request.eos)
    if isinstance(draft, TwoLevelDraft):
        return TwoLevelDecoder(target, draft, request.sampling, request.eos)
    return Decoder(target, draft, request.sampling, script, request.eos)


def _cache(model: Model, request: Request) -> KVCache:
    room = request.context + request.new_tokens + request.queries
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
    if kind == "ngram" and request.tree is not None:
        raise InputError(f"--tree: must be grown by a draft that runs a model, given {request.draft!r}")
    if kind == "ngram" and (not option or option.isdigit()):
        return NGramDraft(request.gamma, int(option or 3))
    if kind not in ("self", "model") or option or (kind == "model") != (draft_model is not None):
        raise InputError(f"--draft: must be self, ngram[:LONGEST] or a model, given {request.draft!r}")
    runner = target
    if draft_model is not None:
        runner = Runner(draft_model, _cache(draft_model, request), target.attention)
        check_vocabulary(target, runner)
    view = _view(request.draft_kv, runner, request)
    if request.middle_kv is not None:
        middle_view = _view(request.middle_kv, target, request)
        if middle_view.by_query and not request.sampling.greedy:
            raise InputError(
                f"--middle-kv: {middle_view.method} selects by the drafted tokens' own queries, so that sampling from "
                "what it sees would not be exact: use a method that selects before, or temperature 0"
            )
        small = AheadDraft(runner, view, request.inner_gamma, request.sampling, request.most)
        middle = Ahead(target.model, middle_view, request.queries + request.inner_gamma)
        return TwoLevelDraft(Inner(middle, small, request.sampling), request.gamma)
    own = draft_model is not None
    if request.tree is not None:
        return TreeDraft(runner, view, Topology(request.tree, target.model.device), request.sampling, own)
    return ModelDraft(runner, view, request.gamma, request.sampling, own)


def _view(method: str, runner: Runner, request: Request) -> View:
    return kv.view(parse_kv(method), runner.cache, runner.attention, request.new_tokens, request.most)


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
