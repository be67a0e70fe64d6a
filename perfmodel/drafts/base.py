"""What a draft is to the engine: how many passes it makes, what one pass counts, and what it keeps in memory."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from perfmodel import costs
from perfmodel.kv.base import KVMethod
from perfmodel.ops import Cost, Floats, Op
from perfmodel.specs.formats import Precision
from perfmodel.specs.model import ModelSpec


class Draft(Protocol):
    """A draft of gamma tokens costs `passes(gamma)` passes of `query(gamma)` query tokens per sequence.

    views_target_cache: the draft reads the target's cache and keeps only what `kv.stored_bytes` counts beside it.
    shares_weights: the draft runs the target's own weights, so that it needs no memory for any.
    shares_prefill: the target's prefill leaves everything the draft needs except what `kv.setup` counts.
    max_gamma: the longest draft that it can make at all; None where there is no end.
    """

    @property
    def name(self) -> str: ...
    @property
    def model(self) -> ModelSpec: ...
    @property
    def kv(self) -> KVMethod: ...
    @property
    def tensor_parallel(self) -> int: ...
    @property
    def precision(self) -> Precision: ...
    @property
    def views_target_cache(self) -> bool: ...
    @property
    def shares_weights(self) -> bool: ...
    @property
    def shares_prefill(self) -> bool: ...
    @property
    def max_gamma(self) -> int | None: ...
    def passes(self, gamma: Floats) -> Floats: ...
    def query(self, gamma: Floats) -> Floats: ...
    def ops(self, part: costs.Shard, batch: Floats, context: Floats, query: Floats) -> list[Op]: ...
    def own_weight_bytes(self, part: costs.Shard) -> float: ...


@dataclass(frozen=True, slots=True)
class DraftFields:
    """The fields that every draft kind carries, and the behaviour of most: one token per pass of a whole model.

    `kind` is the word of the command line, `source` the paper, `example` a spelling that works for any target.
    """

    kind: ClassVar[str]
    source: ClassVar[str]
    example: ClassVar[str]

    model: ModelSpec
    kv: KVMethod
    tensor_parallel: int
    precision: Precision

    @property
    def name(self) -> str:
        """As the user names it."""
        return self.kind

    @property
    def views_target_cache(self) -> bool:
        """False: its keys and values are its own."""
        return False

    @property
    def shares_weights(self) -> bool:
        """False: its weights are its own."""
        return False

    @property
    def shares_prefill(self) -> bool:
        """False: it has to see the prompt itself."""
        return False

    @property
    def max_gamma(self) -> int | None:
        """None: it can draft any number of tokens."""
        return None

    def passes(self, gamma: Floats) -> Floats:
        """Draft passes of one iteration: one per drafted token."""
        return gamma

    def query(self, gamma: Floats) -> Floats:
        """Query tokens per sequence of one pass."""
        return 1.0

    def ops(self, part: costs.Shard, batch: Floats, context: Floats, query: Floats) -> list[Op]:
        """Ops of one pass, KV selection left aside; part: the draft model's share of one device."""
        return costs.forward(part, batch, query, context, self.kv)

    def own_weight_bytes(self, part: costs.Shard) -> float:
        """Weights kept on one device beside the target's."""
        return 0.0 if self.shares_weights else part.stored_weight_bytes


def dense(name: str, part: costs.Shard, inputs: float, outputs: float, tokens: Floats, copies: Floats = 1.0) -> Op:
    """A projection beside a draft's layers, sharded like the others; copies: separate weights, each run on `tokens`."""
    n, form = part.tensor_parallel, part.precision.weights
    weights, act = inputs * outputs / n, part.precision.activation_bytes
    cost = Cost(
        2.0 * weights * tokens * copies,
        weights * form.bytes_per_value * copies,
        0.0,
        (inputs + outputs / n) * act * tokens * copies,
    )
    return Op(name, "linear", copies, cost, form.compute)
