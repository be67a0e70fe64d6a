"""The facts about drafts in an engine's file: kinds of draft, draft lengths by batch size, and defects."""

from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary.frozen import Frozen, Text
from perfmodel.specs.engines.engines import release


class ServedDraft(Frozen):
    """A kind of draft in one engine, with its name there and the releases that have it.

    - windows: KV methods that the draft may use instead of the whole cache, in releases from `windows_since`
      on.
    - trees_since: the first release that verifies trees of this draft. `trees_without` lists the
      architectures for which it does not.
    - without: architectures (``model_type``) for which the engine has no such draft.
    - vocabulary_difference: largest allowed difference between the vocabulary sizes of draft model and
      target, in entries. It is None if any difference is allowed.
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
    """A mode in which the draft length depends on the batch size.

    - price: share of the single-stream speed that is lost with this mode.
    """

    price: Annotated[float, Meta(ge=0, lt=1)]
    since: str
    source: str


class Defect(Frozen):
    """A known defect of drafts in one engine.

    - thread: the thread in which the defect was reported.
    - effect: the effect of the defect, in words.

    The other fields state the affected drafts, devices (by the first word of their architecture), attention
    backend, targets and contexts. Versions from `since` on and before `until` are affected. If `assumed` is
    true, the defect affects only questions that name no attention backend. If `uneven` is true, it affects
    only verifications of a number of tokens per sequence that is not a power of two. A field that is left out
    sets no condition.

    - slows: whether the defect may make a draft slower than the baseline. If so, no verdict says that the
      draft certainly pays off.
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
