"""The request to a decoder: its sizes, draft and sampling.

Flags and plans check each value separately. This module checks combinations of values before anything is
allocated.
"""

from dataclasses import dataclass, field, replace

from perfmodel.errors import InputError
from perfmodel.specs import ModelSpec
from perfmodel.speculation.tree import TreeAcceptance
from perfmodel.speculation.tree_shape import check_parents
from perfmodel.validate.decoder.sampling import Sampling


@dataclass(frozen=True)
class Request:
    """The settings of decoding.

    - context: the number of tokens of the longest prompt.
    - new_tokens: the largest number of output tokens.
    - gamma: the draft length; 0 without a draft.
    - draft: ``self``, ``ngram[:LONGEST]`` or ``model``. The last is a separate model that `make_decoder`
      receives.
    - draft_kv: the KV method of the draft.
    - tree: the parent of each node of a token tree (see `Topology`) with gamma levels below the root; None
      for a chain.
    - script: the scripted acceptance; None if the models decide. For a chain, it has the relative frequencies
      of 0 .. gamma accepted tokens. For a tree, it has the probabilities that the 1st, 2nd, ... child of a
      node is accepted.
    - attention, pointwise: the implementations (see `backends`).
    - eos: the tokens that end a sequence.
    - kv_dtype: the format of all caches: ``fp8``, or ``auto`` for the type of the activations.
    - middle_kv: for a two-level draft (see `two_levels`), the KV method with which the target verifies the
      tokens of a small model; None for one level.
    - inner_gamma: the number of tokens that the small model drafts per inner round. With two levels, `gamma`
      is the number of collected tokens from which on a sequence waits for the target.

    Raises InputError for values that cannot be combined.
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
    middle_kv: str | None = None
    inner_gamma: int = 0

    def __post_init__(self) -> None:
        if self.tree is not None:
            check_parents(self.tree)
            if self.script is not None:
                TreeAcceptance.of(self.script)
        if self.middle_kv is not None:
            self._check_levels()

    def _check_levels(self) -> None:
        if self.draft != "model":
            raise InputError(f"--middle-kv: needs a --draft that is another model, given {self.draft!r}")
        if self.tree is not None or self.script is not None:
            raise InputError("--middle-kv: must be used without --tree and --alpha")
        if self.inner_gamma < 1:
            raise InputError(f"--inner-gamma: must be 1 or more, given {self.inner_gamma}")

    def plain(self) -> "Request":
        """The same request with gamma 0, which is decoding without a draft."""
        script = None if self.script is None else (1.0,)
        return replace(self, gamma=0, tree=None, script=script, middle_kv=None, inner_gamma=0)

    @property
    def cache_name(self) -> str:
        """The name of the draft's KV method. For two levels, it has the methods of the middle and of the
        small model. For n-grams, it is the name of the draft.
        """
        if self.draft.startswith("ngram"):
            return self.draft
        return self.draft_kv if self.middle_kv is None else f"{self.middle_kv} < {self.draft_kv}"

    @property
    def fp8(self) -> bool:
        """Whether caches are fp8."""
        return self.kv_dtype == "fp8"

    @property
    def max_accepted(self) -> int:
        """The largest number of draft tokens that one iteration can accept."""
        return self.gamma + self.inner_gamma

    @property
    def queries(self) -> int:
        """The largest number of tokens per sequence in a verification."""
        if self.tree is None:
            return self.max_accepted + 1
        return len(self.tree)


def check_two_tokens(prompts: list[list[int]]) -> None:
    """Raises InputError for prompts of one token, because the cache of a two-level draft's small model lags
    by two tokens.
    """
    if any(len(prompt) < 2 for prompt in prompts):
        raise InputError("--middle-kv: prompts must be of 2 tokens or more, given 1")


def check_prompts(prompts: list[list[int]], new_tokens: int, spec: ModelSpec, batch: int, room: int) -> None:
    """Raises InputError for prompts that do not fit in the positions of the model, or in caches for `batch`
    sequences of `room` tokens.
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
