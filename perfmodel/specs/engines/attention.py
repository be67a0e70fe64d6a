"""How engines' attention kernels cut the cache for their passes, from ``hardware/attention.yaml``.

Kernels that cut the cache of a sequence into pieces for one query token alone leave a verification to as many
multiprocessors as it has sequences times KV heads: the re-read of theory with its cause.
"""

from functools import cache
from typing import Annotated

from msgspec import Meta

from perfmodel.errors import unknown_name
from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen, Text

Pieces = Annotated[int, Meta(ge=1, le=1024)]


class Backend(Frozen):
    """One attention backend. one, several: pieces that the cache of a sequence and KV head is cut into, for
    one query token and for several; None: as many as fill the device. latent_rereads: whether each query
    token reads a latent cache again. word: of the engine's own --attention-backend; None: it has none.
    """

    one: Pieces | None = None
    several: Pieces | None = None
    latent_rereads: bool = False
    word: str | None = None
    source: Text


class DefaultBackend(Frozen):
    """An engine's own choice on devices whose architecture starts so. latent: of a latent cache alone."""

    architecture: str
    latent: bool = False
    backend: str


class EngineAttention(Frozen):
    """One engine. defaults: of those that fit the first counts."""

    backends: dict[str, Backend]
    defaults: tuple[DefaultBackend, ...]
    source: Text

    def __post_init__(self) -> None:
        for chosen in self.defaults:
            if chosen.backend not in self.backends:
                raise ValueError(f"defaults: {chosen.backend} must be one of backends")

    def default(self, architecture: str, latent: bool) -> str | None:
        """What the engine takes where nobody says; None on devices of which that is not known."""
        fits = (d for d in self.defaults if architecture.startswith(d.architecture) and latent >= d.latent)
        return next((d.backend for d in fits), None)


class AttentionFile(Frozen):
    """The file. engines: word of ``--engine`` -> its backends."""

    engines: dict[str, EngineAttention]


@cache
def engine_attention() -> dict[str, EngineAttention]:
    """Word of ``--engine`` -> its backends; of a research stack nothing is stated."""
    return files.load_bundled(AttentionFile, "", "attention").engines


@cache
def backend_name(engine: str, architecture: str, latent: bool, asked: str | None = None) -> str | None:
    """Name of the backend that attends: as asked, else the engine's own choice; None where none is known.

    Raises InputError for one that the engine does not have.
    """
    known = engine_attention().get(engine)
    if asked is not None and (known is None or asked not in known.backends):
        raise unknown_name(
            "--attention-backend", f"backend of {engine}", asked, known.backends if known else ()
        )
    if asked is not None or known is None:
        return asked
    return known.default(architecture, latent)


def backend_of(engine: str, architecture: str, latent: bool, asked: str | None = None) -> Backend | None:
    """The backend of that name; None where none is known."""
    name = backend_name(engine, architecture, latent, asked)
    return None if name is None else engine_attention()[engine].backends[name]
