"""What serving engines can run, from ``hardware/serving.yaml``: drafts by version, windows, the dynamic
mode.
"""

from functools import cache
from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen, Text
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.engines.engines import release


class ServedDraft(Frozen):
    """A kind of draft in one engine: what the engine calls it and which of its releases have it.

    windows: KV methods of the draft that it has beside the whole cache, from `windows_since` on.
    """

    method: str
    since: str
    until: str | None = None
    windows: tuple[str, ...] = ()
    windows_since: str | None = None


class DynamicMode(Frozen):
    """A draft length by batch size. price: share of single-stream speed that turning it on costs."""

    price: Annotated[float, Meta(ge=0, lt=1)]
    since: str
    source: str


class Defect(Frozen):
    """Something known to go wrong with drafts in one engine. thread: where it was reported. says: what
    happens, as a clause.

    It is of these kinds of draft, of architectures that start so, of one attention backend, of targets with
    recurrent layers or routed experts, from a context and from `since` to before `until`; what is left out
    does not matter. slows: whether a draft may lose by it, so that no verdict is sure that it pays.
    """

    thread: Text
    says: Text
    drafts: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    backend: str | None = None
    recurrent: bool = False
    experts: bool = False
    context_from: Annotated[int, Meta(ge=0)] = 0
    since: str | None = None
    until: str | None = None
    slows: bool = False

    def of_version(self, version: str) -> bool:
        """Whether a release has it."""
        at = release(version)
        return release(self.since or "0.0") <= at and (self.until is None or at < release(self.until))


class Seats(Frozen):
    """Requests that an engine runs at once unless asked: `usual`, and `large` from a version and a memory on.

    but: word of devices' names that never get `large`.
    """

    usual: Annotated[int, Meta(ge=1)]
    large: Annotated[int, Meta(ge=1)]
    from_bytes: float
    since: str
    but: str
    source: str

    def of(self, version: str, gpu: GPUSpec) -> int:
        """On one device; version: empty for the newest."""
        large = gpu.memory is not None and gpu.memory_bytes >= self.from_bytes and self.but not in gpu.name
        return self.large if large and release(version or self.since) >= release(self.since) else self.usual


class PrefixBlocks(Frozen):
    """Blocks of an engine's prefix cache. block: tokens of one. drops: whether a draft that starts from the
    target's hidden states (`Draft.starts_from_features`) has the last block of each hit computed again, and
    keeps: the option against it. raised: whether a model with recurrent layers has its block raised until
    the page of an attention layer holds one recurrent state.
    """

    block: Annotated[int, Meta(ge=1)]
    source: Text
    drops: bool = False
    keeps: str = ""
    raised: bool = False


class ServingEngine(Frozen):
    """One engine. sparse: what is known of a draft with a view of the cache that it does not have.

    prefix: of its prefix cache. makers: of the devices that it runs on. defects: known to go wrong there.
    seats: None where its own choice is not known.
    """

    title: str
    newest: str
    source: str
    makers: tuple[str, ...]
    drafts: dict[str, ServedDraft]
    sparse: str
    prefix: PrefixBlocks
    dynamic: DynamicMode | None = None
    seats: Seats | None = None
    defects: tuple[Defect, ...] = ()


class ServingFile(Frozen):
    """The file. engines: word of ``--engine`` -> what it serves; research stacks are not among them."""

    engines: dict[str, ServingEngine]


@cache
def serving_engines() -> dict[str, ServingEngine]:
    """Word of ``--engine`` -> what it serves; research stacks are not among them."""
    return files.load_bundled(ServingFile, "", "serving").engines
