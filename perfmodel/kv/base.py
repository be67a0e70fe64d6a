"""The costs of a KV method: the bytes that attention reads, the selection of tokens, a set-up once per
sequence, and additional memory.

All costs are per sequence and per layer on one device. `context` (S) is the number of cached tokens, a float
or a float64 array of any shape. A result has the shape of `context`, or is 0.0 if there is no such cost. S is
a real number, and nothing is rounded up.

If the context is not longer than the budget, a method selects nothing. The draft then reads the target's
cache, as with `full`. Selection, set-up and additional memory are zero.
"""

import dataclasses
import math
from typing import ClassVar, dataclass_transform

import numpy as np

from perfmodel.errors import refuse
from perfmodel.immutable import Immutable
from perfmodel.operations import Floats

SCORE_BYTES = 4.0
"""Bytes of one attention score or one token index as a selection kernel keeps it (fp32, int32)."""

TILE_VALUES = 128
"""For heads of at most this many values, a tile of an attention kernel has its full number of rows. For
larger heads it has fewer.
"""

MAX_BUDGET = 2**40
"""Budgets above this many tokens are refused as typing errors."""


class KVLayout(Immutable):
    """The KV cache of one layer on one device.

    `num_kv_heads` and `query_heads` are the numbers of heads on this device. Grouped-query attention has
    `values_per_token = 2 * num_kv_heads * head_dim`. Absorbed MLA has one KV head that all query heads share.
    `head_dim` and `values_per_token` are then both the latent width, because key and value are the same
    stored vector.
    """

    num_kv_heads: float
    head_dim: float
    values_per_token: float
    query_heads: float
    bytes_per_value: float

    @property
    def token_bytes(self) -> float:
        """Bytes of one cached token in this layer (kappa_l)."""
        return self.values_per_token * self.bytes_per_value

    @property
    def key_bytes(self) -> float:
        """Bytes of one cached token that a kernel reads to score it: its keys, or the whole MLA latent."""
        return min(self.num_kv_heads * self.head_dim, self.values_per_token) * self.bytes_per_value

    @property
    def group(self) -> float:
        """Rows of an attention kernel's tile that one query token fills: the number of query heads per KV
        head, and more if heads have more than `TILE_VALUES` values.
        """
        return self.query_heads / self.num_kv_heads * max(self.head_dim / TILE_VALUES, 1.0)

    @property
    def score_flops(self) -> float:
        """FLOPs of scoring one cached key with all heads of one query token."""
        return 2.0 * self.query_heads * self.head_dim


class Step(Immutable):
    """Work in addition to attention.

    - flops: FLOPs.
    - bytes: bytes read plus bytes written.
    - kernels: kernel launches, each of which waits for the previous one.
    - searched: number of tokens or pages of a sequence among which a kernel searches for the best. It is 0
      without a search.
    """

    flops: Floats
    bytes: Floats
    kernels: Floats
    searched: Floats = 0.0

    def times(self, factor: Floats) -> "Step":
        """All numbers multiplied by a factor, such as a mask or a share of iterations."""
        return Step(self.flops * factor, self.bytes * factor, self.kernels * factor, self.searched * factor)


NOTHING = Step(0.0, 0.0, 0.0)


@dataclass_transform(frozen_default=True)
class KVMethod:
    """The way in which a draft stores and selects the cached tokens that it reads. Each subclass becomes a
    frozen dataclass whose fields are its options.

    One draft step reads `read_bytes + select_step().bytes`, which docs/kv.md lists for each method.
    """

    name: ClassVar[str]
    """Name of the method and of its file."""
    source: ClassVar[str]
    """Paper with arXiv id."""
    example: ClassVar[str]
    """A complete command-line spelling, for help, tables and contract tests."""
    aliases: ClassVar[tuple[str, ...]] = ()
    reads_all: ClassVar[bool] = False
    """Whether the method reads every token of the target's cache and needs no additional memory."""
    evicts: ClassVar[bool] = False
    """Whether a cache that only the draft uses holds only the tokens that are attended to."""

    budget: int | None
    """K: cached tokens that one draft step reads. None where the method reads a share or all of the context.
    """

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(frozen=True)(cls)
        cls.name = cls.__module__.rpartition(".")[2]

    def __post_init__(self) -> None:
        """Raises InputError for impossible options. The base class checks the budget."""
        if self.budget is not None:
            self.check_budget()

    @property
    def needs_own_prefill(self) -> bool:
        """Whether the draft must run its own pass over the prompt. `setup` does not count this pass."""
        return False

    def attended_tokens(self, context: Floats) -> Floats:
        """Number of cached tokens to which the draft attends. By default, this is min(budget, S)."""
        if self.budget is None:
            return context
        return np.minimum(float(self.budget), context)

    def read_bytes(self, context: Floats, layout: KVLayout) -> Floats:
        """Bytes of cached keys and values that the attention of one draft step reads."""
        return self.attended_tokens(context) * layout.token_bytes

    def select_step(self, context: Floats, layout: KVLayout) -> Step:
        """Work of selecting tokens in each draft step."""
        return NOTHING

    def select_iteration(self, context: Floats, layout: KVLayout) -> Step:
        """Work of selecting tokens once per iteration (gamma draft steps and a verification).

        Work that is only done in every r-th iteration counts 1/r.
        """
        return NOTHING

    def setup(self, context: Floats, layout: KVLayout) -> Step:
        """Work that is done once per sequence, after the target's prefill of S tokens and before the first
        draft.
        """
        return NOTHING

    def stored_bytes(self, context: Floats, layout: KVLayout) -> Floats:
        """Bytes of memory in addition to the target's own cache."""
        return 0.0

    def own_bytes(self, context: Floats, layout: KVLayout) -> Floats:
        """Bytes of a cache that only the draft uses, such as that of a separate model. The cache holds all
        tokens that the method does not evict, and `stored_bytes`.
        """
        kept = self.attended_tokens(context) if self.evicts else context
        return kept * layout.token_bytes + self.stored_bytes(context, layout)

    def beyond_budget(self, context: Floats) -> Floats:
        """1.0 where the context is longer than the budget, else 0.0."""
        return np.greater(context, math.inf if self.budget is None else self.budget).astype(np.float64)

    def label(self) -> str:
        """A text with all options, such as ``quest:1024,page=16``. `parse_kv` converts the text back into
        this method.
        """
        text = self.name if self.budget is None else f"{self.name}:{self.budget}"
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.name != "budget" and value is not None:
                text += f",{field.name}={str(value).lower()}"
        return text

    def check_budget(self, above: int = 0) -> None:
        """Raises InputError unless the budget is a whole number of tokens above `above` and at most
        `MAX_BUDGET`.
        """
        allowed = f"a whole number of tokens above {above} and at most 2^40"
        self.check("budget", isinstance(self.budget, int) and above < self.budget <= MAX_BUDGET, allowed)

    def check(self, option: str, good: bool, allowed: str) -> None:
        """Raises InputError about an option of this method unless `good` is true.

        - allowed: the allowed values, in words.
        """
        if not good:
            raise refuse(self.name, option, allowed, getattr(self, option))


def gather(tokens: Floats, layout: KVLayout) -> Step:
    """The work of copying `tokens` cached tokens into a packed cache. Each token is read once and written
    once.
    """
    return Step(0.0, 2.0 * tokens * layout.token_bytes, 1.0)
