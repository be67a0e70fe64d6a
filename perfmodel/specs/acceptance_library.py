"""Published acceptance by target, draft and task: the library that answers where the user brought no figures.

``results/published/acceptance.csv`` condenses what was printed: one row for a target, a head, a task and thinking on or
off, the mean over its data sets. It was printed for prompts of a few hundred to a few thousand tokens. The first head
of a target and a kind is the one that is taken unless a head is named. Plain data only, as `acceptance_rows`.
"""

import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import fmean, median, stdev

from perfmodel.reading import read_csv
from perfmodel.specs import PACKAGE
from perfmodel.specs.model import hub_id, load_model

DEFAULT_TASK = "chat"
SHORT, SHORT_TOKENS = "at short contexts", 4096
"""How a source says that its prompts were short, and to where that is taken to hold."""
COLUMNS = (
    "target", "draft", "head", "task", "thinking", "temperature", "engine", "drafted", "tokens_per_iteration",
    "positions", "spread", "figures", "source",
)  # fmt: skip
_TUNED = re.compile(r"-(instruct|thinking|it|chat|hf|base|rl|bf16|fp8|nvfp4|mxfp4|awq|exp)(?=-|$)")


@dataclass(frozen=True, slots=True)
class LibraryRow:
    """What was printed of one head on one task.

    drafted: draft lengths; tokens_per_iteration: at each of them, bonus token included. positions: survival at 1, 2,
    ... where it was printed, else empty. spread: standard deviation over data sets of the logarithm of tokens per
    iteration; None where there was one. figures: how many were condensed.
    """

    target: str
    draft: str
    head: str
    task: str
    thinking: str
    temperature: str
    engine: str
    drafted: tuple[int, ...]
    tokens_per_iteration: tuple[float, ...]
    positions: tuple[float, ...]
    spread: float | None
    figures: int
    source: str


@cache
def library() -> tuple[LibraryRow, ...]:
    """The rows of the bundled file; of the heads of a target and a kind the preferred one first."""

    def numbers(text: str) -> tuple[float, ...]:
        return tuple(float(part) for part in text.split("/") if part)

    return tuple(
        LibraryRow(
            target=row["target"],
            draft=row["draft"],
            head=row["head"],
            task=row["task"],
            thinking=row["thinking"],
            temperature=row["temperature"],
            engine=row["engine"],
            drafted=tuple(map(int, numbers(row["drafted"]))),
            tokens_per_iteration=numbers(row["tokens_per_iteration"]),
            positions=numbers(row["positions"]),
            spread=float(row["spread"]) if row["spread"] else None,
            figures=int(row["figures"]),
            source=row["source"],
        )
        for _, row in read_csv(PACKAGE / "results" / "published" / "acceptance.csv", COLUMNS)
    )


def tasks() -> tuple[str, ...]:
    """Every task of the library, the most frequent first."""
    every = [row.task for row in library()]
    return tuple(sorted(set(every), key=lambda task: (-every.count(task), task)))


def short_name(name: str) -> str:
    """The library's key of a model: its Hugging Face id without owner, maker and what it was tuned for, in lower case.

    ``meta-llama/Llama-3.3-70B-Instruct`` is ``llama-3.3-70b``. Raises InputError for an unknown name.
    """
    spelled = hub_id(name) or load_model(name).name
    tail = os.path.basename(spelled.rstrip("/")).lower()
    return _TUNED.sub("", re.sub(r"^(meta|nvidia)-", "", tail))


@dataclass(frozen=True, slots=True)
class LibraryEntry:
    """The rows that answer one question, all of one head: the asked task's, else mixed text's, else every task's."""

    rows: tuple[LibraryRow, ...]
    spread: float

    @property
    def head(self) -> str:
        """Hugging Face id of the head; empty where it comes with the target, or is not named."""
        return self.rows[0].head

    @property
    def drafted(self) -> tuple[int, ...]:
        """The draft lengths that every row has; those of the row with most where none is common."""
        common = set.intersection(*(set(row.drafted) for row in self.rows))
        return tuple(sorted(common)) or max((row.drafted for row in self.rows), key=len)

    @property
    def tokens_per_iteration(self) -> tuple[float, ...]:
        """At each of `drafted`: the mean over the rows that have it."""
        found = [dict(zip(row.drafted, row.tokens_per_iteration, strict=True)) for row in self.rows]
        return tuple(fmean(row[length] for row in found if length in row) for length in self.drafted)

    @property
    def positions(self) -> tuple[float, ...]:
        """Survival by position where it was printed of every row, else empty."""
        return tuple(map(fmean, zip(*(row.positions for row in self.rows), strict=False)))

    @property
    def source(self) -> str:
        """Which head, text and place the figures are of, as a sentence's part."""
        what = dict.fromkeys(row.task + (f", thinking {row.thinking}" if row.thinking else "") for row in self.rows)
        head = f"{self.head}, " if self.head else ""
        places = dict.fromkeys(place for row in self.rows for place in row.source.split("; "))
        return f"{head}{' and '.join(what)} text {SHORT}: {'; '.join(places)}"


def find_published(target: str, draft: str, task: str | None = None, head: str | None = None) -> LibraryEntry | None:
    """What was printed of a draft on a target, both by `short_name` or the draft's kind; None where nothing was.

    task: None is `DEFAULT_TASK`, and the spread between tasks then counts in full; else that between data sets.
    """
    targets = [row.target for row in library() if row.draft == draft]
    if target not in targets:  # a release of another month, as DeepSeek-R1-0528, is in the library by its name
        target = re.sub(r"-\d{4}$", "", target)
    known = [row for row in library() if (row.target, row.draft) == (target, draft) and head in (None, row.head)]
    if not known:
        return None
    for wanted in (task or DEFAULT_TASK, "mixed"):
        of_task = [row for row in known if row.task == wanted]
        if of_task:
            rows = tuple(row for row in of_task if row.head == of_task[0].head)
            break
    else:
        rows = tuple(row for row in known if row.head == known[0].head)
    if task is None or rows[0].task != task:
        return LibraryEntry(rows, _between_tasks([row for row in known if row.head == rows[0].head]))
    stated = [row.spread for row in rows if row.spread is not None]
    return LibraryEntry(rows, fmean(stated) if stated else _typical()[0])


def _between_tasks(rows: Iterable[LibraryRow]) -> float:
    """Standard deviation over the tasks of one head of ln tokens per iteration; what is typical counts as one task."""
    last = [math.log(tokens) for tokens in {row.task: row.tokens_per_iteration[-1] for row in rows}.values()]
    own = (len(last) - 1) * stdev(last) ** 2 if len(last) > 1 else 0.0
    return math.sqrt((own + _typical()[1] ** 2) / len(last))


@cache
def typical_decay() -> float:
    """Median over the library's heads of conditional acceptance at position 2 or 3 over that at the one before."""
    ratios = []
    for row in library():
        survival = (1.0, *row.positions[:3])
        if row.drafted[:3] == (1, 2, 3):
            survival = (1.0, *(after - before for before, after in pairwise((1.0, *row.tokens_per_iteration[:3]))))
        rates = [after / before for before, after in pairwise(survival)]
        ratios += [after / before for before, after in pairwise(rates)] if row.draft != "ngram" else []
    return median(ratios)


@cache
def _typical() -> tuple[float, float]:
    """Medians over the library of the spread between data sets of a task, and between the tasks of a head."""
    within = [row.spread for row in library() if row.spread]
    heads: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in library():
        heads.setdefault((row.target, row.draft, row.head), {})[row.task] = math.log(row.tokens_per_iteration[-1])
    return median(within), median(stdev(by_task.values()) for by_task in heads.values() if len(by_task) > 2)
