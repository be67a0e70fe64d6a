"""Published acceptance by target, draft and task. It is the default where the user gives no figures.

``results/published/acceptance.csv`` summarises published results: one row for each target, head, task and
thinking mode, the mean over its data sets. Prompts had a few hundred to a few thousand tokens. If no head is
named, the first head of a target and a kind is used. All of it is plain data.
"""

import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from perfmodel.errors import InputError
from perfmodel.immutable import Immutable
from perfmodel.reading import data_folder, read_rows
from perfmodel.specs.boundary.files import spelling
from perfmodel.specs.models.model import IN_FORMAT, hub_id, load_model
from perfmodel.specs.models.published_heads import published_heads

DEFAULT_TASK = "chat"
USUAL = (DEFAULT_TASK, "mixed")
"""Tasks of a question that names none, the first one first."""
LEAST_KNOWN = 3
"""Draft length up to which an acceptance of shorter drafts is extrapolated."""
SHORT = "at short contexts"
"""The mark of a source with short prompts."""
SHORT_TOKENS = 4096
"""The context up to which its figures are taken to hold."""
_ENOUGH = 8
"""Number of ratios from which a kind of draft has its own median."""
_TUNED = re.compile(
    r"-(instruct|thinking|it|chat|hf|base|rl|bf16|fp8|nvfp4|mxfp4|awq|exp|static|pertensor)(?=-|$)"
)


@dataclass(frozen=True, slots=True)
class LibraryRow:
    """Published results of one head on one task.

    drafted: draft lengths. tokens_per_iteration: at each length, including the bonus token. positions:
    survival at 1, 2, ... if published, else empty. All three are numbers with slashes. spread: standard
    deviation over data sets of the logarithm of tokens per iteration; None for a single one. figures: number
    of summarised results.
    """

    target: str
    draft: str
    head: str
    task: str
    thinking: str
    temperature: str
    engine: str
    drafted: str
    tokens_per_iteration: str
    positions: str
    spread: float | None
    figures: int
    source: str

    @property
    def tokens(self) -> dict[int, float]:
        """Draft length -> tokens per iteration."""
        return dict(zip(map(int, self.drafted.split("/")), _numbers(self.tokens_per_iteration), strict=True))

    @property
    def survival(self) -> tuple[float, ...]:
        """Survival by position, from 1."""
        return _numbers(self.positions)


@cache
def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float, filter(None, text.split("/"))))


@cache
def library() -> tuple[LibraryRow, ...]:
    """The rows of the bundled file. The preferred head of a target and a kind comes first."""
    return read_rows(data_folder("results") / "published" / "acceptance.csv", LibraryRow)


def short_name(name: str) -> str:
    """The library's key of a model: its Hugging Face id in lower case, without owner, maker and tuning
    suffix.

    ``meta-llama/Llama-3.3-70B-Instruct`` becomes ``llama-3.3-70b``. Raises InputError for an unknown name.
    """
    own = IN_FORMAT.fullmatch(spelling(name))
    known = hub_id(name) or (own and hub_id(own[1])) or load_model(name).name
    tail = os.path.basename(known.rstrip("/")).lower()
    matched = IN_FORMAT.fullmatch(tail)
    return _TUNED.sub("", re.sub(r"^(meta|nvidia)-", "", matched[1] if matched else tail))


class LibraryEntry(Immutable):
    """The rows of one head that answer a question: those of the task, else those of mixed text, else all.

    longer: a row that replaces these rows at longer drafts. Its tokens beyond the first are scaled to agree
    at the longest length of these rows, if it has that length.
    """

    rows: tuple[LibraryRow, ...]
    spread: float
    longer: LibraryRow | None = None

    @property
    def head(self) -> str:
        """Hugging Face id of the head; empty if it comes with the target or has no name."""
        return self.rows[0].head

    @property
    def printed(self) -> dict[int, float]:
        """Mean of the rows at each draft length that all rows have. If there is no such length, the row with
        the most lengths.
        """
        each = [row.tokens for row in self.rows]
        longest = max(each, key=lambda row: len(row))
        common = set.intersection(*map(set, each)) or set(longest)
        return {length: _mean([row[length] for row in each if length in row]) for length in sorted(common)}

    @property
    def tokens(self) -> dict[int, float]:
        """Tokens per iteration by draft length, including longer drafts from the row `longer`."""
        own = self.printed
        if self.longer is None:
            return own
        known = max(own)
        other = self.longer.tokens
        scale = (own[known] - 1.0) / (other[known] - 1.0) if known in other else 1.0
        return own | {k: 1.0 + scale * (tokens - 1.0) for k, tokens in other.items() if k > known}

    @property
    def survival(self) -> tuple[float, ...]:
        """Survival by position if every row has it, else empty."""
        return tuple(map(_mean, zip(*(row.survival for row in self.rows), strict=False)))

    @property
    def source(self) -> str:
        """The head, text and place of the figures, as part of a sentence."""
        what = dict.fromkeys(
            row.task + (f", thinking {row.thinking}" if row.thinking else "") for row in self.rows
        )
        head = f"{self.head}, " if self.head else ""
        places = dict.fromkeys(place for row in self.rows for place in row.source.split("; "))
        other = self.longer
        if other:
            beyond = (
                f"; beyond {max(self.printed)} drafted as {other.target}, {other.task} text: {other.source}"
            )
        else:
            beyond = ""
        return f"{head}{' and '.join(what)} text {SHORT}: {'; '.join(places)}{beyond}"


def published_drafts(target: str) -> tuple[str, ...]:
    """The drafts with published results for a target, which is named by `short_name`."""
    names = (target, _undated(target))
    return tuple(dict.fromkeys(row.draft for row in library() if row.target in names))


def _undated(target: str) -> str:
    """The name without a release month, as in DeepSeek-R1-0528; the library has the plain name."""
    return re.sub(r"-\d{4}$", "", target)


def find_published(
    target: str, draft: str, task: str | None = None, head: str | None = None
) -> LibraryEntry | None:
    """Published results of a draft on a target; None without any.

    head: repository of the head that the user named. Its own results count, if it has some.

    Both are named by `short_name`, or the draft by its kind. task: None is `DEFAULT_TASK`, and the spread
    between tasks then counts in full; otherwise the spread between data sets counts.
    """
    if target not in [row.target for row in library() if row.draft == draft]:
        target = _undated(target)
    known = [row for row in library() if (row.target, row.draft) == (target, draft)]
    known = [row for row in known if row.head.lower() == (head or "").strip().lower() != ""] or known
    if not known:
        return None
    wanted = (task, "mixed") if task else _usual_tasks(known)
    of_tasks = [[row for row in known if row.task == each] for each in wanted]
    chosen = next(filter(None, of_tasks), known)
    rows = tuple(row for row in chosen if row.head == chosen[0].head)
    if task is None or rows[0].task != task:
        entry = LibraryEntry(rows, 0.0)
        spread = _between_tasks((row for row in known if row.head == rows[0].head), max(entry.printed))
        return _longer(entry.replace(spread=spread))
    spreads = [row.spread for row in rows if row.spread is not None]
    return _longer(LibraryEntry(rows, _mean(spreads) if spreads else _typical()[0]))


def _usual_tasks(known: Sequence[LibraryRow]) -> tuple[str, str]:
    """The tasks of a question that names none, the first one first: chat, then mixed text.

    Chat that was drafted at the shortest lengths alone comes after mixed text with longer drafts, because its
    longer drafts would be scaled from one position.
    """
    longest = {task: max((max(row.tokens) for row in known if row.task == task), default=0) for task in USUAL}
    if longest[DEFAULT_TASK] < LEAST_KNOWN <= longest["mixed"]:
        return "mixed", DEFAULT_TASK
    return USUAL


def _longer(entry: LibraryEntry) -> LibraryEntry:
    """Adds a row with longer drafts, if the entry's own are short.

    It is the nearest row of the same kind of draft on the same target, or on a target of its architecture.
    """
    known = max(entry.printed)
    short = entry.rows[0]
    if known >= LEAST_KNOWN:
        return entry
    near = []
    for row in library():
        is_long = row.draft == short.draft and max(row.tokens) >= LEAST_KNOWN
        if is_long and _alike(row.target, short.target):
            near.append(row)

    def apart(row: LibraryRow) -> tuple[bool, ...]:
        return known not in row.tokens, row.task != short.task, row.target != short.target

    return entry.replace(longer=min(near, key=apart, default=None))


def _alike(target: str, other: str) -> bool:
    """Whether two targets are the same, or of one known architecture."""
    return target == other or _architecture(target) == _architecture(other) != ""


@cache
def _architecture(target: str) -> str:
    """The architecture of a library target; empty if unknown."""
    try:
        return load_model(target).model_type
    except InputError:
        return ""


def _between_tasks(rows: Iterable[LibraryRow], length: int) -> float:
    """Standard deviation of ln tokens per iteration over the tasks of one head, at one draft length. The
    typical value has the weight of one task.
    """
    last = list({row.task: math.log(row.tokens[length]) for row in rows if length in row.tokens}.values())
    own = (len(last) - 1) * _deviation(last) ** 2 if len(last) > 1 else 0.0
    return math.sqrt((own + _typical()[1] ** 2) / len(last))


@cache
def typical_decay(draft: str = "") -> float:
    """Median over the library of a ratio: conditional acceptance at position 2 or 3 over that at the position
    before.

    The median is of one kind of draft, or of all heads if too few results of that kind exist.
    """
    ratios = []
    for row in (row for row in library() if row.draft == draft or not draft):
        survival = (1.0, *row.survival[:3])
        tokens = row.tokens
        if {1, 2, 3} <= set(tokens):
            survival = (
                1.0,
                *(after - before for before, after in pairwise((1.0, tokens[1], tokens[2], tokens[3]))),
            )
        rates = [after / before for before, after in pairwise(survival)]
        ratios += [after / before for before, after in pairwise(rates)] if row.draft != "ngram" else []
    if len(ratios) >= _ENOUGH or not draft:
        return median(ratios)
    return typical_decay()


def first_rates(draft: str) -> list[float]:
    """Acceptance of the first token in every published result of a kind of draft that states it, sorted."""
    return sorted(
        first
        for row in library()
        if row.draft == draft
        for first in (row.survival[:1] or (row.tokens.get(1, 1.0) - 1.0,))
        if first
    )


@cache
def _typical() -> tuple[float, float]:
    """Medians over the library: the spread between data sets of a task, and the spread between tasks of a
    head.
    """
    within = [row.spread for row in library() if row.spread]
    heads: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in library():
        heads.setdefault((row.target, row.draft, row.head), {})[row.task] = math.log(
            max(row.tokens.items())[1]
        )
    between = [_deviation([*by_task.values()]) for by_task in heads.values() if len(by_task) > 2]
    return median(within), median(between)


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of both. `statistics` and `np.median` load much else."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return (ordered[middle] + ordered[~middle]) / 2


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _deviation(values: Sequence[float]) -> float:
    """Standard deviation of a sample."""
    return float(np.std(values, ddof=1))


def head_kind(repository: str) -> str | None:
    """Kind of draft of a published head, by its Hugging Face id; None for any other name."""
    return _head_kinds().get(repository.strip().lower()) if "/" in repository else None


@cache
def _head_kinds() -> dict[str, str]:
    published = {row.head.lower(): row.kind for row in published_heads()}
    measured = {row.head.lower(): row.draft for row in library() if "/" in row.head}
    return measured | published
