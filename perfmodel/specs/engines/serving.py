"""What serving engines can run, from ``hardware/serving.yaml``: drafts by version, windows, and draft lengths
by batch size.
"""

from functools import cache
from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen, Text
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.engines.engines import release


class ServedDraft(Frozen):
    """A kind of draft in one engine: its name there, and the releases that have it.

    windows: KV methods of the draft in addition to the whole cache, from `windows_since` on. without:
    architectures (``model_type``) for which the engine has no such draft.
    """

    method: str
    since: str
    until: str | None = None
    windows: tuple[str, ...] = ()
    windows_since: str | None = None
    without: tuple[str, ...] = ()


class DynamicMode(Frozen):
    """A draft length by batch size. price: share of the single-stream speed that this mode costs."""

    price: Annotated[float, Meta(ge=0, lt=1)]
    since: str
    source: str


class Defect(Frozen):
    """A known problem with drafts in one engine. thread: its report. effect: what it does, as a clause.

    It affects the listed kinds of draft, architectures (by their first word), attention backend, targets with
    recurrent layers or routed experts, contexts from a length on, and versions from `since` to before
    `until`. An omitted field is no condition. slows: whether a draft may become slower than the baseline, so
    that no verdict says that it surely pays.
    """

    thread: Text
    effect: Text
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
        """Whether a release has the defect."""
        at = release(version)
        return release(self.since or "0.0") <= at and (self.until is None or at < release(self.until))


class Seats(Frozen):
    """Default number of concurrent requests of an engine: `usual`, and `large` from a version and a memory
    size on.

    but: word in the names of devices that never get `large`.
    """

    usual: Annotated[int, Meta(ge=1)]
    large: Annotated[int, Meta(ge=1)]
    from_bytes: float
    since: str
    but: str
    source: str

    def of(self, version: str, gpu: GPUSpec) -> int:
        """The number on one device. version: empty for the newest."""
        large = gpu.memory is not None and gpu.memory_bytes >= self.from_bytes and self.but not in gpu.name
        if large and release(version or self.since) >= release(self.since):
            return self.large
        return self.usual


class PrefixBlocks(Frozen):
    """Blocks of an engine's prefix cache. block: tokens of one.

    drops: whether the last block of each hit is computed again for a draft that starts from the target's
    hidden states (`Draft.starts_from_features`). keeps: the option that prevents this. raised: whether a
    model with recurrent layers gets larger blocks, such that the page of an attention layer holds one
    recurrent state. latent: `block` of such a model, at least, if its attention layers are MLA.
    """

    block: Annotated[int, Meta(ge=1)]
    source: Text
    drops: bool = False
    keeps: str = ""
    raised: bool = False
    latent: Annotated[int, Meta(ge=1)] = 1


class ServingEngine(Frozen):
    """One engine. sparse: what is known of a draft with a view of the cache that the engine does not have.

    prefix: blocks of its prefix cache. makers: of the devices that it supports. defects: known problems.
    seats: None if its default is unknown.
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
    """The file. engines: word of ``--engine`` -> the served drafts; without research stacks."""

    engines: dict[str, ServingEngine]


@cache
def serving_engines() -> dict[str, ServingEngine]:
    """Word of ``--engine`` -> the served drafts; without research stacks."""
    return files.load_bundled(ServingFile, "", "serving").engines
