"""The request to a decoder: sizes, draft, sampling.

Flags and plans check each value; this module checks their combination, before anything is allocated.
"""

from dataclasses import dataclass, field, replace

from perfmodel.errors import InputError
from perfmodel.specs import ModelSpec
from perfmodel.speculation.tree import TreeAcceptance
from perfmodel.speculation.tree_shape import check_parents
from perfmodel.validate.decoder.sampling import Sampling


@dataclass(frozen=True)
class Request:
    """The settings of decoding. `context` is the longest prompt. `gamma` 0 is plain decoding, regardless of
    the draft.

    draft: ``self``, ``ngram[:LONGEST]`` or ``model`` (a separate one, given to `make_decoder`). tree: parents
    of the nodes of a token tree (see `Topology`) with gamma levels below the root; None for a chain. script:
    scripted acceptance; None observes the models. For a chain it has relative frequencies of 0 .. gamma
    accepted tokens, for a tree the probabilities that a node's 1st, 2nd, ... child is accepted. kv_dtype: of
    all caches: ``auto``, the type of the activations, or ``fp8``.
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
    pointwise: str = "auto"
    eos: tuple[int, ...] = ()
    tree: tuple[int, ...] | None = None
    kv_dtype: str = "auto"

    def __post_init__(self) -> None:
        if self.tree is not None:
            check_parents(self.tree)
            if self.script is not None:
                TreeAcceptance.of(self.script)

    def plain(self) -> "Request":
        """The same request with gamma 0: plain decoding."""
        return replace(self, gamma=0, tree=None, script=None if self.script is None else (1.0,))

    @property
    def cache_name(self) -> str:
        """The KV method of the draft, or the tree."""
        return self.draft if self.draft.startswith("ngram") else self.draft_kv

    @property
    def fp8(self) -> bool:
        """Whether caches are fp8."""
        return self.kv_dtype == "fp8"

    @property
    def queries(self) -> int:
        """Most tokens per sequence in a verification."""
        if self.tree is None:
            return self.gamma + 1
        return len(self.tree)


def check_prompts(prompts: list[list[int]], new_tokens: int, spec: ModelSpec, batch: int, room: int) -> None:
    """Refuse (InputError) prompts that do not fit in the model, or in caches for `batch` sequences of `room`
    tokens.
    """
    if len(prompts) != batch or not all(prompts):
        raise InputError(
            f"prompts: must be {batch} non-empty lists of tokens, given {sum(map(bool, prompts))}"
        )
    longest = max(map(len, prompts))
    limit = min(spec.max_position_embeddings, room) - new_tokens
    if longest > limit:
        positions = f"the {spec.max_position_embeddings} positions of {spec.name}"
        what = positions if room > limit + new_tokens else "the caches"
        raise InputError(
            f"prompt: must be at most {limit} tokens, to fit with {new_tokens} new ones in {what}, "
            f"given {longest}"
        )
    outside = [token for prompt in prompts for token in prompt if not 0 <= token < spec.vocab_size]
    if outside:
        raise InputError(f"prompt: tokens must be in 0 .. {spec.vocab_size - 1}, given {outside[0]}")
