"""Finds out whether an engine runs a draft. Answers print the result. The choice of `advise` and the default
draft of a question depend on it.
"""

from contextlib import suppress

from perfmodel.drafts import kind_of, make_draft
from perfmodel.drafts.base import Draft
from perfmodel.errors import InputError
from perfmodel.immutable import Immutable
from perfmodel.kv import parse_kv
from perfmodel.specs import (
    BF16,
    VERSION_SEPARATOR,
    ModelSpec,
    Precision,
    acceptance_library,
    kv_format,
    release,
    serving_engines,
    short_name,
)
from perfmodel.specs.engines.served_drafts import ServedDraft
from perfmodel.specs.engines.serving import ServingEngine

ORDER = ("mtp", "eagle3", "dflash", "dflash2", "dspark")
"""Order of preference among published drafts: first drafts that are part of the target's checkpoint, then
separate heads, then other models.
"""
HEAD = "eagle3"
"""The kind of head that is assumed if no draft is published for the target and its checkpoint has none. All
engines run this kind, and most targets have such a head.
"""


class RunsIn(Immutable):
    """Whether the engine of the question runs a draft.

    - runs: whether the engine runs the draft.
    - text: the engines and versions that run it, such as ``vLLM >= 0.9``, or ``no engine yet (why)``.
    """

    runs: bool
    text: str


def draft_word(draft: Draft) -> str:
    """The kind of a draft as it is named in the data files of engines, such as ``eagle``, ``eagle3``, or
    ``model`` for a separate model.
    """
    return draft.name if draft.kind == "eagle" else draft.kind


def served_draft(engine: ServingEngine, draft: Draft) -> ServedDraft | None:
    """The entry for this kind of draft in the data file of the engine. The result is None if the engine does
    not run this kind, or not for this model architecture.
    """
    served = engine.drafts.get(draft_word(draft))
    architecture = draft.model.model_type
    if served is None or architecture in served.without:
        return None
    if draft.reads_inner_layers and architecture in engine.withhold_features:
        return None
    return served


def runs_in(
    engine: str | None,
    draft: Draft,
    named_engine: str | None,
    attention_groups: int = 1,
    vendor: str | None = None,
) -> RunsIn | None:
    """Whether the engine runs the draft, and which engines run it. The result is None for research code.

    - named_engine: the value of ``--engine``. If this value names a version that is older than the engine's
      support for the draft, the draft does not run.
    - attention_groups: number of data-parallel attention groups of a server. With more than one, the text
      states the first version that has a flag for such groups.
    - vendor: vendor of the device. The text only names engines for this vendor. None means all engines.
    """
    engines = serving_engines()
    if engine is None or engine not in engines:
        return None
    own = engines[engine]
    if since := _first_version(served_draft(own, draft), draft):
        version = (named_engine or "").partition(VERSION_SEPARATOR)[2]
        if version and release(version) < release(since):
            return RunsIn(False, f"{own.title} >= {since}, not in {version}")
        if attention_groups > 1 and not version and own.attention_groups:
            since = max(since, own.attention_groups, key=release)
        return RunsIn(True, f"{own.title} >= {since}")
    there = [e for e in engines.values() if vendor is None or vendor in e.makers]
    others = {e.title: _first_version(served_draft(e, draft), draft) for e in there}
    elsewhere = " or ".join(f"{title} >= {since}" for title, since in others.items() if since)
    if elsewhere:
        return RunsIn(False, f"not in {own.title}; in {elsewhere}")
    if (dropped := served_draft(own, draft)) is not None and dropped.until is not None:
        return RunsIn(False, f"{own.title} {dropped.since} to {dropped.until} only")
    why = f"{own.title}: no such draft" if draft.kv.reads_all else own.sparse
    return RunsIn(False, f"no engine yet ({why})")


def runs_trees(engine: str | None, draft: Draft, named_engine: str | None) -> RunsIn | None:
    """Like `runs_in`, but for trees of drafted tokens instead of chains."""
    engines = serving_engines()
    if engine is None or engine not in engines:
        return None
    stack = engines[engine]
    served = served_draft(stack, draft)
    since = served.trees_since if served is not None else None
    if served is None or since is None or not draft.kv.reads_all:
        return RunsIn(False, f"{stack.title} verifies chains only")
    if draft.model.model_type in served.trees_without:
        return RunsIn(False, f"{stack.title} verifies only chains, no trees, for {draft.model.model_type}")
    version = (named_engine or "").partition(VERSION_SEPARATOR)[2]
    if version and release(version) < release(since):
        return RunsIn(False, f"{stack.title} >= {since}, not in {version}")
    return RunsIn(True, f"{stack.title} >= {since}")


def _first_version(served: ServedDraft | None, draft: Draft) -> str | None:
    """The first version that serves the draft; None if there is none."""
    if served is None or served.until is not None:
        return None
    if draft.kv.reads_all:
        return served.since
    return served.windows_since if draft.kv.name in served.windows else None


def usual_draft(model: str, target: ModelSpec, engine: str | None, named_engine: str | None) -> str:
    """The default of ``--draft``: the first of three drafts that the engine runs.

    The three are a draft that is published for the target, the target's own MTP layer, and an EAGLE-3 head.
    If the engine runs none of them, the default is ``self``. For research code, the default is also ``self``.

    - model: the name of the target in the question.
    - named_engine: the value of ``--engine``.
    """
    published = sorted(
        acceptance_library().drafts_of(short_name(model)), key=lambda name: (*ORDER, name).index(name)
    )
    own = ("mtp",) if kind_of("mtp").suits(target) else ()
    for name in (*published, *own, HEAD):
        with suppress(InputError):  # a head of another model's shape
            draft = make_draft(name, target, Precision(BF16, kv_format("bf16")), 1, parse_kv("full"))
            if (runs := runs_in(engine, draft, named_engine)) is not None and runs.runs:
                return name
    return "self"
