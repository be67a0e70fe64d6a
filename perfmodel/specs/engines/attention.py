"""How the attention kernels of an engine split the cache: ``attention`` in ``hardware/engines/<word>.yaml``.

Some kernels cut the cache of a sequence into pieces only for one query token. A verification then runs on no
more multiprocessors than it has sequences times KV heads. This is the cause of the theory's KV re-read.
"""

from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary.frozen import Frozen, Text

Pieces = Annotated[int, Meta(ge=1, le=1024)]


class Backend(Frozen):
    """One attention backend.

    one, several: number of pieces into which the cache of one sequence and KV head is cut, for one query
    token and for several; None if there are as many as fill the device. latent_rereads: whether each query
    token reads a latent cache again. latent_only: whether it reads only latent caches. portable: whether it
    runs on every NVIDIA GPU. word: its name in the
    engine's own --attention-backend; None if it has no name there.
    """

    one: Pieces | None = None
    several: Pieces | None = None
    latent_rereads: bool = False
    latent_only: bool = False
    portable: bool = False
    word: str | None = None
    source: Text


class DefaultBackend(Frozen):
    """An engine's own choice on devices whose architecture starts with this word. latent: for a latent cache
    only.
    """

    architecture: str
    latent: bool = False
    backend: str


class EngineAttention(Frozen):
    """The attention of one engine. The first matching entry of `defaults` counts."""

    backends: dict[str, Backend]
    defaults: tuple[DefaultBackend, ...]
    source: Text

    def __post_init__(self) -> None:
        for chosen in self.defaults:
            if chosen.backend not in self.backends:
                raise ValueError(f"defaults: {chosen.backend} must be one of backends")

    def default(self, architecture: str, latent: bool) -> str | None:
        """The engine's default choice; None on devices for which it is unknown."""
        fits = (d for d in self.defaults if architecture.startswith(d.architecture) and latent >= d.latent)
        return next((d.backend for d in fits), None)

    def choices(self, architecture: str, vendor: str, latent: bool) -> list[str]:
        """The backends that a user may choose on such a device."""
        usual = {d.backend for d in self.defaults if architecture.startswith(d.architecture)}
        portable = {name for name, b in self.backends.items() if b.portable and vendor == "NVIDIA"}
        return [
            name
            for name, backend in self.backends.items()
            if name in usual | portable and backend.latent_only <= latent
        ]
