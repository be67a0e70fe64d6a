"""The facts about serving requests in an engine's file: seats, the order of passes, and the cache."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary.frozen import Frozen, Positive, Share, Text
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.engines.engines import release, since


class LargeSeats(Frozen):
    """The default number of concurrent requests on devices with at least `from_bytes` of memory, from version
    `since` on.

    - but: a word in the names of devices that never get this default.
    """

    seats: Positive
    from_bytes: Annotated[float, Meta(gt=0)]
    since: str
    but: Annotated[str, Meta(min_length=1)]

    def apply(self, version: str, gpu: GPUSpec) -> bool:
        """Whether a version has this default on a device. An empty version means the newest."""
        is_large = gpu.memory is not None and gpu.memory_bytes >= self.from_bytes
        is_new = not version or release(version) >= release(self.since)
        return is_large and is_new and self.but not in gpu.name


class Seats(Frozen):
    """The default number of concurrent requests of an engine.

    - large: another default, for devices with much memory.
    - drafting: the default of a server that drafts, if it differs. It is the number over all data-parallel
      groups.
    """

    usual: Positive
    large: LargeSeats | None = None
    drafting: Positive | None = None
    source: Text

    def of(self, version: str, gpu: GPUSpec) -> int:
        """The default on one device without a draft.

        - version: version of the engine. Empty means the newest version.
        """
        if self.large is not None and self.large.apply(version, gpu):
            return self.large.seats
        return self.usual


class PassOrder(StrEnum):
    """How prompts and decoding requests share the passes of a server.

    - mixed: a pass runs all decoding requests and as many prompt tokens as its budget leaves.
    - alternating: prompts run in separate passes. A decoding pass follows each of these passes.
    - prompts_first: prompts run in separate passes. Decoding waits until all prompts that fit are read.
    """

    MIXED = "mixed"
    ALTERNATING = "alternating"
    PROMPTS_FIRST = "prompts_first"


class Scheduler(Frozen):
    """The order of passes in an engine.

    - passes: the default order, by the first version that has it.
    """

    passes: dict[str, PassOrder]
    source: Text

    def order(self, version: str) -> PassOrder:
        """The default order of passes in a version. An empty version means the newest."""
        return since(self.passes, version)


class DraftedSlots(Frozen):
    """The number of cache tokens that a running request holds for each drafted token.

    - tokens: this number, by the first version that has it.
    """

    tokens: dict[str, Annotated[int, Meta(ge=0)]]
    source: Text

    def of(self, version: str) -> int:
        """The number for a version. An empty version means the newest."""
        return since(self.tokens, version)


class ReservedOutput(Frozen):
    """The cache memory that an engine keeps free for future tokens when it admits a request.

    - share: share of the tokens that running requests still have to produce. The output of the new request
      counts in full.
    - most: the largest share, with the most conservative setting.
    """

    share: Share
    most: Share
    source: Text

    def at(self, conservativeness: float) -> float:
        """The share if the engine's conservativeness is set to this multiple of its default. The share is at
        most `most`.
        """
        return min(conservativeness * self.share, self.most)


class PrefixBlocks(Frozen):
    """The blocks of an engine's prefix cache.

    - block: number of tokens of one block.
    - drops: whether the last block of each hit is computed again for a draft that starts from the target's
      hidden states (`Draft.starts_from_features`).
    - keeps: the option with which the engine does not compute this block again.
    - raised: whether a model with recurrent layers gets larger blocks, so that one recurrent state fits in
      the page of an attention layer.
    - latent: smallest number of tokens of a block for such a model, if its attention layers are MLA.
    """

    block: Annotated[int, Meta(ge=1)]
    source: Text
    drops: bool = False
    keeps: str = ""
    raised: bool = False
    latent: Annotated[int, Meta(ge=1)] = 1


class StatePool(Frozen):
    """The way in which an engine stores the states of recurrent layers.

    - format_flag: the server's flag for the format of the states.
    - replay_flag: the flag with which a request stores records instead of one state for each verified token.
      It is empty if there is no such flag.
    - replay_without: kinds of draft that do not run with this flag.
    - unread: whether the engine's rule for the states of drafted tokens is unknown, because its code was not
      read.
    """

    format_flag: Text
    replay_flag: str = ""
    replay_without: tuple[str, ...] = ()
    unread: bool = False
    source: Text


GRAPH_TOKENS_PER_SEAT = 2
"""Tokens of vLLM's largest CUDA graph for each request that the server runs at once."""


class CapturedGraphs(Frozen):
    """The rule for the largest CUDA graph with default flags. It applies to versions from `since` on and
    before `until`.

    - times_tokens: whether the largest graph grows with the tokens of a request in an iteration.
    - most: largest number of tokens of a graph on any device.
    """

    since: Text
    until: str | None = None
    times_tokens: bool = False
    most: Positive

    def of_version(self, version: str) -> bool:
        """Whether a version has this rule. An empty version means the newest."""
        if not version:
            return self.until is None
        number = release(version)
        return release(self.since) <= number and (self.until is None or number < release(self.until))

    def largest(self, seats: int, tokens: int) -> int:
        """The number of tokens of the largest graph.

        - seats: requests that the server runs at once.
        - tokens: tokens of a request in an iteration.
        """
        of_seats = GRAPH_TOKENS_PER_SEAT * seats * (tokens if self.times_tokens else 1)
        return min(of_seats, self.most)
