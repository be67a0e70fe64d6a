"""Looks up the measured acceptance of a draft, first in the user's file or the bundled measurements by
context, and then in the library of published results.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise

from perfmodel.drafts.base import Draft
from perfmodel.errors import InputError
from perfmodel.reading import exists
from perfmodel.specs.acceptance.acceptance_library import (
    LEAST_KNOWN,
    SHORT_TOKENS,
    LibraryEntry,
    acceptance_library,
    head_kind,
)
from perfmodel.specs.acceptance.acceptance_rows import (
    CONTEXT_DRIFT,
    HEAD_DRIFT,
    AcceptanceRow,
    UnknownAcceptance,
    context_spread,
    find_acceptance,
    published_rows,
)
from perfmodel.specs.acceptance.library_row import short_name
from perfmodel.specs.acceptance.typical import median
from perfmodel.specs.models.model import ModelSpec
from perfmodel.specs.models.published_heads import published_heads
from perfmodel.specs.models.variants import name_of
from perfmodel.speculation import Acceptance

MOST_DOUBLINGS = 2.0
"""The acceptance at the longest measured context is also used at longer contexts, up to this many doublings.
The interval is then wider.

The runs from which `CONTEXT_DRIFT` was computed span 2.5 doublings (1.4K to 7.8K tokens), so the width of the
interval rests on measurements up to here.
"""

NOT_HEADS = ("model", "mtp", "ngram")
"""Kinds of drafts with published acceptance that are not separately trained heads: whole models, layers that
were trained with the target, and n-grams.
"""


def measured_acceptance(
    model: str,
    target: ModelSpec,
    draft: Draft,
    context: float,
    rows: Iterable[AcceptanceRow] | None = None,
    task: str | None = None,
    flag: str = "--alpha",
    head: str | None = None,
) -> Acceptance:
    """The measured acceptance of this target and draft at a context.

    - model: the name of the target in the question.
    - rows: the user's measurements, which replace the bundled ones.
    - head: the name of the draft in the question, which may be the Hugging Face id of a head.

    Raises UnknownAcceptance if the acceptance was not measured. The error lists the results that are
    published for this target and for this kind of draft.
    """
    key = name_of(model, target), draft.name, draft.kv.name, draft.kv.budget
    named = _as_named(model, key[0])
    try:
        return Acceptance.from_row(find_acceptance(*key, context, rows, flag, named, MOST_DOUBLINGS))
    except UnknownAcceptance as error:
        if rows is not None:
            raise
        if (published := published_acceptance(model, draft, context, task, head)) is not None:
            return published
        subject = short_name(model), target.aliases, library_word(draft), draft.name
        known = "; ".join(_published_instead(*subject))
        raise UnknownAcceptance(error.flag, error.why, error.remedy, known) from None


def _as_named(model: str, target: str) -> str:
    """An alias and the model whose shape it has, in words. The text is empty if `model` is not an alias."""
    if exists(model):
        return ""
    with suppress(InputError):
        if (alias := short_name(model)) != short_name(target):
            return f"{alias} (of the shape of {target})"
    return ""


@cache
def _published_instead(model: str, aliases: tuple[str, ...], word: str, draft: str) -> tuple[str, ...]:
    """The published results of other drafts for a target, and of a draft for other targets.

    - model, word: the names of the target and the draft in the library.
    - aliases: all names of the target.
    - draft: the name of the draft in the question.
    """
    published = acceptance_library()
    known = list[str]()
    drafts = published.drafts_of(model)
    if drafts:
        known.append(f"published for it: {', '.join(drafts)}")
    others = [name for name in _short_names(aliases) if word in published.drafts_of(name)]
    if others:
        known.append(f"published for models of its shape: {', '.join(others)}")
    rates = published.typical.first_rates(word)
    if rates:
        span = f"{rates[0]:.2f} to {rates[-1]:.2f} (median {median(rates):.2f})"
        known.append(f"other {draft} drafts have their first token accepted at {span}")
    return tuple(known)


@cache
def _short_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of models in the library of published results, without duplicates."""
    return tuple(dict.fromkeys(map(short_name, names)))


def published_acceptance(
    model: str, draft: Draft, context: float, task: str | None = None, head: str | None = None
) -> Acceptance | None:
    """The published acceptance of a draft that reads the whole cache; None if no result is known. At contexts
    longer than those of the source, the interval of the acceptance is wider.

    - head: the name of the draft in the question. If no results are published for this head, the function
      uses those of another head of the same kind, and the text of the source names this head.
    """
    if not draft.kv.reads_all or draft.kind == "self":
        return None
    entry = acceptance_library().find(short_name(model), library_word(draft), task, head)
    if entry is None:
        return None
    lengths = entry.tokens
    decay = acceptance_library().typical.decay(library_word(draft))
    source = entry.source + _remarks(entry, lengths, decay, task, head)
    doublings = max(math.log2(context / SHORT_TOKENS), 0.0)
    drift = CONTEXT_DRIFT if draft.kind in NOT_HEADS else HEAD_DRIFT
    spread = math.hypot(entry.spread, context_spread(doublings, drift))
    acceptance = Acceptance.from_lengths(
        tuple(lengths), tuple(lengths.values()), source, entry.survival, spread, decay
    )
    return acceptance.replace(
        measured_at=tuple(map(float, entry.printed)),
        measured_context=SHORT_TOKENS,
        head=entry.head or None,
        tasks=entry.tasks,
    )


def _remarks(
    entry: LibraryEntry, lengths: dict[int, float], decay: float, task: str | None, head: str | None
) -> str:
    """What an answer says after the source of a published acceptance: how the question may select other
    text, how the published values were changed, and whether they are of another head.

    - lengths: tokens per iteration by draft length, in rising order (`LibraryEntry.tokens`).
    - decay: the acceptance of each position beyond the longest length, divided by that of the one before.
    - task, head: those of the question.
    """
    said = "" if task is not None else " (--task selects other text)"
    if _noisy(tuple(lengths), tuple(lengths.values())):
        said += ", smoothed so that later positions gain less"
    longest = max(lengths)
    if longest < LEAST_KNOWN:
        said += f"; each position beyond {longest} at {decay:.2f} of the one before, as is usual"
    if head is not None and head_kind(head) is not None and entry.head.lower() != head.lower():
        said += f"; none is published for {head}"
    return said


def acceptance_by_context(
    model: str,
    target: ModelSpec,
    draft: Draft,
    rows: Sequence[AcceptanceRow] | None = None,
    task: str | None = None,
    head: str | None = None,
) -> Callable[[float], Acceptance]:
    """A function that returns `measured_acceptance` at a context. For a context below the shortest measured
    context, the function returns the acceptance at the shortest measured context.
    """
    key = name_of(model, target), draft.name, draft.kv.name, draft.kv.budget
    measured = [
        row.context_tokens for row in (published_rows() if rows is None else rows) if row.subject == key
    ]
    shortest = min(measured, default=0.0)
    return lambda context: measured_acceptance(
        model, target, draft, max(context, shortest), rows, task, "--context", head
    )


def published_head(model: str, draft: Draft, acceptance: Acceptance) -> str | None:
    """The Hugging Face id of the head for which an acceptance was published for exactly this target. The
    result is None for an acceptance from another source, or of another release of the target.
    """
    subject = (short_name(model), library_word(draft))
    heads = [row.head for row in acceptance_library().rows if (row.target, row.draft) == subject]
    return acceptance.head if acceptance.head in heads else None


def known_head(model: str, draft: Draft) -> str | None:
    """The Hugging Face id of the head of this kind that was published for exactly this target: the one whose
    acceptance is looked up, or else the one of known shape. The result is None without such a head.
    """
    target, word = short_name(model), library_word(draft)
    heads = [row.head for row in acceptance_library().rows if (row.target, row.draft) == (target, word)]
    entry = acceptance_library().find(target, word) if any(heads) else None
    if entry is not None and entry.head in heads and "/" in entry.head:
        return entry.head
    listed = (row.head for row in published_heads() if (row.target, row.kind) == (target, word))
    return next((head for head in listed if "/" in head), None)


def library_word(draft: Draft) -> str:
    """The name of a draft in the library of published results: the short name of a draft model, ``eagle`` or
    ``eagle3``, or the kind of draft. A model from a user's file keeps its own name.
    """
    if draft.kind != "model":
        return draft.name
    with suppress(InputError):
        return short_name(draft.model.name)
    return draft.model.name


def _noisy(drafted: Sequence[int], tokens: Sequence[float]) -> bool:
    """Whether a position gains more with a longer draft than with a shorter one, which is only possible
    through noise.
    """
    steps = zip((0, *drafted), (1.0, *tokens), drafted, tokens, strict=False)
    gains = [(after - before) / (long - short) for short, before, long, after in steps]
    return any(later > earlier for earlier, later in pairwise(gains))
