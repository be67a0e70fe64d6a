"""How an engine serves requests, as its file states it: seats, the order of passes, and its cache."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary.frozen import Frozen, Positive, Share, Text
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.engines.engines import release, since


class LargeSeats(Frozen):
    """The default number of concurrent requests on devices with much memory, from a version on.

    - but: word in the names of devices that never get this default.
    """

    seats: Positive
    from_bytes: Annotated[float, Meta(gt=0)]
    since: str
    but: Annotated[str, Meta(min_length=1)]

    def apply(self, version: str, gpu: GPUSpec) -> bool:
        """Whether a version has this default on a device; an empty version is the newest."""
        is_large = gpu.memory is not None and gpu.memory_bytes >= self.from_bytes
        is_new = not version or release(version) >= release(self.since)
        return is_large and is_new and self.but not in gpu.name


class Seats(Frozen):
    """Default number of concurrent requests of an engine.

    - large: another default for some devices.
    - drafting: the number for all groups of a server that drafts, if it differs.
    """

    usual: Positive
    large: LargeSeats | None = None
    drafting: Positive | None = None
    source: Text

    def of(self, version: str, gpu: GPUSpec) -> int:
        """The number on one device without a draft.

        - version: empty for the newest.
        """
        if self.large is not None and self.large.apply(version, gpu):
            return self.large.seats
        return self.usual


class PassOrder(StrEnum):
    """How prompts and decoding requests share the passes of a server.

    - mixed: a pass runs all decoding requests and as many prompt tokens as its budget leaves.
    - alternating: prompts have passes of their own, each followed by one that decodes.
    - prompts_first: prompts have passes of their own, and nothing decodes until all prompts that fit are
      read.
    """

    MIXED = "mixed"
    ALTERNATING = "alternating"
    PROMPTS_FIRST = "prompts_first"


class Scheduler(Frozen):
    """An engine's order of passes.

    - passes: first version with a default -> that default.
    """

    passes: dict[str, PassOrder]
    source: Text

    def order(self, version: str) -> PassOrder:
        """The default of a version. An empty version means the newest."""
        return since(self.passes, version)


class DraftedSlots(Frozen):
    """Tokens of cache that a running request holds for each drafted token.

    - tokens: first version with a number -> that number.
    """

    tokens: dict[str, Annotated[int, Meta(ge=0)]]
    source: Text

    def of(self, version: str) -> int:
        """The number for a version. An empty version means the newest."""
        return since(self.tokens, version)


class ReservedOutput(Frozen):
    """Cache memory that an engine keeps free for tokens still to come when it admits a request.

    - share: share of the tokens that running requests still have to produce; the new request's own output
      counts in full.
    - most: the largest share, with the most conservative setting.
    """

    share: Share
    most: Share
    source: Text

    def at(self, conservativeness: float) -> float:
        """The share if the engine is set to this many times its default conservativeness; at most `most`."""
        return min(conservativeness * self.share, self.most)


class PrefixBlocks(Frozen):
    """Blocks of an engine's prefix cache.

    - block: tokens of one block.
    - drops: whether the last block of each hit is computed again for a draft that starts from the target's
      hidden states (`Draft.starts_from_features`).
    - keeps: the option that prevents this.
    - raised: whether a model with recurrent layers gets larger blocks, such that the page of an attention
      layer holds one recurrent state.
    - latent: smallest `block` of such a model if its attention layers are MLA.
    """

    block: Annotated[int, Meta(ge=1)]
    source: Text
    drops: bool = False
    keeps: str = ""
    raised: bool = False
    latent: Annotated[int, Meta(ge=1)] = 1


class StatePool(Frozen):
    """How the engine keeps the states of recurrent layers.

    - format_flag: the server's flag for their format.
    - replay_flag: the flag with which a request keeps records instead of a state for each verified token;
      empty if there is none.
    - replay_without: kinds of draft that do not run with this flag.
    - unread: whether the engine's rule for the states of drafted tokens is unknown, because its code was not
      read.
    """

    format_flag: Text
    replay_flag: str = ""
    replay_without: tuple[str, ...] = ()
    unread: bool = False
    source: Text
