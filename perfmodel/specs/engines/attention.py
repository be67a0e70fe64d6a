"""Which attention kernels an engine chooses, how they split the cache and are launched: ``attention`` in
``hardware/engines/<word>.yaml``.

Some kernels cut the cache of a sequence into pieces only for one query token. A verification then runs on
no more multiprocessors than it has sequences times KV heads. This is one cause of the KV re-read
(docs/glossary.md). Some passes do not run as a full CUDA graph: the host launches the attention of every
layer.
"""

from typing import Annotated

from msgspec import Meta

from perfmodel.operations import Head
from perfmodel.specs.boundary.frozen import Frozen, Share, Text
from perfmodel.specs.engines.engines import release

Pieces = Annotated[int, Meta(ge=1, le=1024)]


class Backend(Frozen):
    """One attention backend.

    one, several: number of pieces into which the cache of one sequence and KV head is cut, for one query
    token and for several; None if there are as many as fill the device. latent_rereads: whether each query
    token reads a latent cache again. latent_only: whether it reads only latent caches. portable: whether
    it runs on every NVIDIA GPU. no_sinks_on: architectures, by their first words, on which it does not run
    heads with attention sinks. graphs_one: whether full CUDA graphs hold passes of one query token only.
    tile_rows: rows of one tile (query heads of a KV head, times query tokens), for heads of up to 128
    values. Each further tile reads the cache again; None if no tile does. padded_rows: rows that one
    program multiplies for a query head, even if it has fewer query tokens; None if rows are not padded, or
    if programs load for longer than they compute. padded_peak_on: the share of the 16-bit peak that these
    programs reach, by the first words of an architecture; 1 elsewhere. word: its name in the engine's own
    --attention-backend; None if it has no name there. environment: the variable of the server's
    environment without which the engine does not choose it, with its value; empty if none is needed.
    """

    one: Pieces | None = None
    several: Pieces | None = None
    latent_rereads: bool = False
    latent_only: bool = False
    portable: bool = False
    no_sinks_on: tuple[str, ...] = ()
    graphs_one: bool = False
    tile_rows: Annotated[int, Meta(ge=1)] | None = None
    padded_rows: Annotated[int, Meta(ge=1)] | None = None
    padded_peak_on: dict[str, Share] = {}
    word: str | None = None
    environment: str = ""
    source: Text

    def runs(self, architecture: str, head: Head) -> bool:
        """Whether it runs such heads on an architecture."""
        if head == "sinks" and architecture.startswith(self.no_sinks_on):
            return False
        return head == "latent" or not self.latent_only

    def padded_peak_share(self, architecture: str) -> float:
        """Share of the 16-bit peak that programs of padded rows reach on an architecture."""
        for words, share in self.padded_peak_on.items():
            if architecture.startswith(words):
                return share
        return 1.0


class Span(Frozen):
    """A range of an engine's versions: from `since`, up to but without `before`."""

    since: str = ""
    before: str = ""

    def holds(self, version: str) -> bool:
        """Whether a version is in the range. A version without a number is the newest."""
        at = release(version)
        if not at:
            return not self.before
        after = not self.since or release(self.since) <= at
        return after and (not self.before or at < release(self.before))


class DefaultBackend(Span):
    """The backend that an engine chooses on devices whose architecture starts with this word.

    head: the choice applies only to such heads; by default to all heads without a latent cache. narrow: it
    applies only to a cache with values below 16 bits.
    """

    architecture: str
    head: Head | None = None
    narrow: bool = False
    backend: str

    def fits(self, architecture: str, head: Head, narrow: bool, version: str) -> bool:
        """Whether this choice applies to such heads and such a cache on this architecture in this version."""
        if self.head is None:
            of_head = head != "latent"
        else:
            of_head = head == self.head
        return (
            architecture.startswith(self.architecture)
            and of_head
            and (narrow or not self.narrow)
            and self.holds(version)
        )


class EngineAttention(Frozen):
    """The attention backends of one engine, and its default choices among them. The first matching entry
    of `defaults` counts.

    host_launches: versions in which the host launches attention in every pass. piecewise_drafts: whether
    neither a draft's pass nor a verification of varying length runs as a full CUDA graph.
    """

    backends: dict[str, Backend]
    defaults: tuple[DefaultBackend, ...]
    host_launches: Span | None = None
    piecewise_drafts: bool = False
    source: Text

    def __post_init__(self) -> None:
        for chosen in self.defaults:
            if chosen.backend not in self.backends:
                raise ValueError(f"defaults: {chosen.backend} must be one of backends")

    def default(self, architecture: str, head: Head, narrow: bool, version: str) -> str | None:
        """The engine's default choice; None for devices for which it is unknown."""
        fits = (d for d in self.defaults if d.fits(architecture, head, narrow, version))
        return next((d.backend for d in fits), None)

    def named(self, requested: str) -> list[str]:
        """The backends of a name, or of the engine's own word for them (``ROCM_AITER_FA``), which several may
        share.
        """
        if requested in self.backends:
            return [requested]
        word = requested.upper().replace("-", "_")
        worded = ((name, backend.word) for name, backend in self.backends.items() if backend.word)
        return [name for name, own_word in worded if own_word.upper() == word]

    def choices(self, architecture: str, vendor: str, head: Head, version: str = "") -> list[str]:
        """The backends that a user may choose on such a device for such heads. If several backends share
        one word of the engine, only one of them is listed, because the engine decides between them. A
        backend without a word of the engine cannot be chosen by a user: only the engine's defaults use it.
        """
        by_itself = {self.default(architecture, head, narrow, version) for narrow in (False, True)}
        known = [d for d in self.defaults if architecture.startswith(d.architecture)]
        nearest = max((len(d.architecture) for d in known), default=0)  # Blackwell GB202 is no B200
        own = [d for d in known if len(d.architecture) == nearest]
        usual = {d.backend for d in own}
        portable = {name for name, b in self.backends.items() if b.portable and vendor == "NVIDIA"}
        if head == "latent" and any(b.latent_only for b in self.backends.values()):
            usual = {d.backend for d in own if d.head == head and d.holds("")}
            portable = set()  # such an engine has other backends for a latent cache
        of_wide = {d.backend for d in own if d.head == "wide"}
        if head == "wide" and of_wide:
            usual = of_wide
            portable = set()  # the engine leaves its usual kernels for these heads, which they do not have
        by_word: dict[str, str] = {}
        for name, backend in sorted(self.backends.items(), key=lambda item: item[0] not in usual):
            to_be_had = backend.word is not None or name in by_itself
            if name in usual | portable and to_be_had and backend.runs(architecture, head):
                by_word.setdefault(backend.word or name, name)
        return list(by_word.values())
