"""How an engine drafts, as its file states it: kinds of draft, draft lengths by batch size, and defects."""

from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary.frozen import Frozen, Text
from perfmodel.specs.engines.engines import release


class ServedDraft(Frozen):
    """A kind of draft in one engine: its name there, and the releases that have it.

    - windows: KV methods of the draft in addition to the whole cache, from `windows_since` on.
    - trees_since: the first release that verifies trees of it, except for the architectures `trees_without`.
    - without: architectures (``model_type``) for which the engine has no such draft.
    - vocabulary_difference: by how many entries the vocabulary of a draft model may differ from the target's;
      None if any difference is allowed.
    """

    method: str
    since: str
    until: str | None = None
    windows: tuple[str, ...] = ()
    windows_since: str | None = None
    trees_since: str | None = None
    trees_without: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    vocabulary_difference: Annotated[int, Meta(ge=0)] | None = None


class DynamicMode(Frozen):
    """A draft length by batch size.

    - price: share of the single-stream speed that this mode costs.
    """

    price: Annotated[float, Meta(ge=0, lt=1)]
    since: str
    source: str


class Defect(Frozen):
    """A known problem with drafts in one engine.

    - thread: where it was reported.
    - effect: what it does, in words.

    The fields state which drafts, devices (by the first word of their architecture), attention backend,
    targets and contexts it affects. It affects versions from `since` to before `until`. With `assumed`, it
    affects only questions that name no attention backend. With `uneven`, it affects only verifications whose
    number of tokens per sequence is not a power of two. An omitted field sets no condition.

    - slows: whether a draft may become slower than the baseline; no verdict then says that the draft
      certainly pays.
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
    assumed: bool = False
    uneven: bool = False

    def of_version(self, version: str) -> bool:
        """Whether a release has the defect."""
        number = release(version)
        is_fixed = self.until is not None and number >= release(self.until)
        return release(self.since or "0.0") <= number and not is_fixed
