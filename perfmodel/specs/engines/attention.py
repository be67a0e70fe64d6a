"""The attention kernels that an engine chooses, the way they split the cache, and the way they are launched.
These facts are read from ``attention`` in ``hardware/engines/<word>.yaml``.

Some kernels cut the cache of a sequence into pieces only if there is one query token. A verification with
such a kernel uses at most as many multiprocessors as it has sequences times KV heads, so it may read the
cache slowly. Some passes do not run as a full CUDA graph. In these passes, the host launches the attention of
every layer.
"""

from typing import Annotated

from msgspec import Meta

from perfmodel.operations import Head
from perfmodel.specs.boundary.frozen import Frozen, Share, Text
from perfmodel.specs.engines.engines import release

Pieces = Annotated[int, Meta(ge=1, le=1024)]


class Backend(Frozen):
    """The facts about one attention backend.

    - one, several: number of pieces into which the cache of one sequence and KV head is cut. `one` applies to
      one query token, `several` to several query tokens. The number is None if there are enough pieces to
      fill the device.
    - latent_rereads: whether each query token reads a latent cache again.
    - latent_only: whether the backend reads only latent caches (MLA).
    - portable: whether the backend runs on every NVIDIA GPU.
    - no_sinks_on: first words of the architectures on which the backend does not run heads with attention
      sinks.
    - graphs_one: whether full CUDA graphs are captured only for passes with one query token per sequence.
    - tile_rows: number of rows of one tile, for heads of up to 128 values. The rows are the query heads of a
      KV head times the query tokens. Each further tile reads the cache again. It is None if no tile does.
    - padded_rows: number of rows that one program multiplies for a query head, even if there are fewer query
      tokens. It is None if rows are not padded, or if programs load for longer than they compute.
    - padded_peak_on: the share of the 16-bit peak that these programs reach, by the first words of an
      architecture. It is 1 on other architectures.
    - word: name of the backend in the engine's own flag --attention-backend. None means that the flag has no
      value for this backend.
    - environment: an environment variable and its value. The engine chooses the backend only if the server
      has this variable. It is empty if no variable is needed.
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
        """Whether the backend runs this kind of heads on an architecture."""
        if head == "sinks" and architecture.startswith(self.no_sinks_on):
            return False
        return head == "latent" or not self.latent_only

    def padded_peak_share(self, architecture: str) -> float:
        """The share of the 16-bit peak that programs with padded rows reach on an architecture."""
        for words, share in self.padded_peak_on.items():
            if architecture.startswith(words):
                return share
        return 1.0


class Span(Frozen):
    """A range of an engine's versions: from `since` up to `before`, which is excluded."""

    since: str = ""
    before: str = ""

    def holds(self, version: str) -> bool:
        """Whether a version is in the range. A version without a number means the newest version."""
        at = release(version)
        if not at:
            return not self.before
        after = not self.since or release(self.since) <= at
        return after and (not self.before or at < release(self.before))


class DefaultBackend(Span):
    """The backend that an engine chooses by default on devices whose architecture starts with `architecture`.

    - head: the kind of heads to which the choice applies. By default it applies to all heads without a latent
      cache.
    - narrow: whether the choice applies only to a cache with values below 16 bits.
    """

    architecture: str
    head: Head | None = None
    narrow: bool = False
    backend: str

    def fits(self, architecture: str, head: Head, narrow: bool, version: str) -> bool:
        """Whether the choice applies to this kind of heads and of cache, on this architecture and in this
        version.
        """
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
    """The attention backends of one engine, and its default choices among them. The first matching entry of
    `defaults` is used.

    - host_launches: versions in which the host launches attention in every pass.
    - piecewise_drafts: whether passes of a draft, and verifications of varying length, run without a full
      CUDA graph.
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
        """The engine's default choice. The result is None for devices for which it is unknown."""
        fits = (d for d in self.defaults if d.fits(architecture, head, narrow, version))
        return next((d.backend for d in fits), None)

    def named(self, requested: str) -> list[str]:
        """The backends with this name. The name may also be the engine's own word (``ROCM_AITER_FA``), which
        several backends may share.
        """
        if requested in self.backends:
            return [requested]
        word = requested.upper().replace("-", "_")
        worded = ((name, backend.word) for name, backend in self.backends.items() if backend.word)
        return [name for name, own_word in worded if own_word.upper() == word]

    def choices(self, architecture: str, vendor: str, head: Head, version: str = "") -> list[str]:
        """The backends that a user may choose on this kind of device for this kind of heads. If several
        backends share one of the engine's words, only one of them is listed, because the engine decides
        between them. A backend without such a word is listed only if it is the engine's default.
        """
        by_default = {self.default(architecture, head, narrow, version) for narrow in (False, True)}
        by_word: dict[str, str] = {}
        for name in self._for_heads(architecture, vendor, head):
            backend = self.backends[name]
            has_choice = backend.word is not None or name in by_default
            if has_choice and backend.runs(architecture, head):
                by_word.setdefault(backend.word or name, name)
        return list(by_word.values())

    def _for_heads(self, architecture: str, vendor: str, head: Head) -> list[str]:
        """The backends for this kind of heads on this kind of device. Those that are a default choice for the
        architecture come first.
        """
        own = self._defaults_of(architecture)
        if head == "latent" and any(backend.latent_only for backend in self.backends.values()):
            # such an engine has separate backends for a latent cache
            latent = {default.backend for default in own if default.head == head and default.holds("")}
            return [name for name in self.backends if name in latent]
        wide = {default.backend for default in own if default.head == "wide"}
        if head == "wide" and wide:
            # an engine without such defaults runs wide heads with its usual kernels
            return [name for name in self.backends if name in wide]
        usual = {default.backend for default in own}
        portable = [name for name, b in self.backends.items() if b.portable and vendor == "NVIDIA"]
        first = [name for name in self.backends if name in usual]
        return [*first, *(name for name in portable if name not in usual)]

    def _defaults_of(self, architecture: str) -> list[DefaultBackend]:
        """The default choices for the most precise matching name of the architecture. The choices for
        ``Blackwell GB`` take precedence over those for ``Blackwell``.
        """
        known = [default for default in self.defaults if architecture.startswith(default.architecture)]
        longest = max((len(default.architecture) for default in known), default=0)
        return [default for default in known if len(default.architecture) == longest]
