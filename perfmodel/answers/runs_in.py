"""Which engine runs a draft: what an answer says of it, and what `advise` may choose."""

from dataclasses import dataclass

from perfmodel.drafts.base import Draft
from perfmodel.specs.engines import DRIFT, release
from perfmodel.specs.serving import ServedDraft, serving_engines


@dataclass(frozen=True, slots=True)
class RunsIn:
    """Whether the engine of the question runs a draft. text: ``vLLM >= 0.9``, or ``no engine yet (why)``."""

    runs: bool
    text: str


def draft_word(draft: Draft) -> str:
    """The kind as engines know it: EAGLE-3 apart from EAGLE, a model of its own by ``model``."""
    return draft.name if draft.kind == "eagle" else draft.kind


def runs_in(engine: str | None, draft: Draft, asked: str | None, tree: bool = False) -> RunsIn | None:
    """None for what is no serving engine: a research stack, a calibration of none.

    asked: the question's ``--engine``; a draft that is newer than the version it names does not run there.
    """
    engines = serving_engines()
    if engine is None or engine not in engines:
        return None
    own = engines[engine]
    if since := _since(own.drafts.get(draft_word(draft)), draft, tree, own.newest):
        version = (asked or "").partition(DRIFT)[2]
        if version and release(version) < release(since):
            return RunsIn(False, f"{own.title} >= {since}, not in {version}")
        return RunsIn(True, f"{own.title} >= {since}")
    others = {e.title: _since(e.drafts.get(draft_word(draft)), draft, tree, e.newest) for e in engines.values()}
    elsewhere = " or ".join(f"{title} >= {since}" for title, since in others.items() if since)
    if elsewhere:
        return RunsIn(False, f"not in {own.title}; in {elsewhere}")
    dropped = own.drafts.get(draft_word(draft))
    if dropped is not None and dropped.until is not None:
        return RunsIn(False, f"{own.title} {dropped.since} to {dropped.until} only")
    return RunsIn(False, f"no engine yet ({own.sparse if draft.kv.name != 'full' else f'{own.title}: no such draft'})")


def _since(served: ServedDraft | None, draft: Draft, tree: bool, newest: str) -> str | None:
    """The version from which on it is served; None where it is not."""
    if served is None or served.until is not None or (tree and not served.trees):
        return None
    if draft.kv.name == "full":
        return served.since
    return served.windows_since if draft.kv.name in served.windows else None
