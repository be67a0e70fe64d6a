"""The library of published acceptance, by target, draft and task. The library is used if the user gives no
acceptance.

``results/published/acceptance.csv`` summarises published results. The file has one row for each target, head,
task and thinking mode, with the mean over data sets. The prompts behind these results had a few hundred to a
few thousand tokens. If a question names no head, the first head in the file for its target and kind of draft
is used.
"""

from collections.abc import Sequence
from functools import cache

from perfmodel.errors import InputError
from perfmodel.immutable import Immutable
from perfmodel.reading import data_folder, read_rows
from perfmodel.specs.acceptance.library_row import LibraryRow, undated
from perfmodel.specs.acceptance.typical import ENOUGH_RATIOS, TypicalAcceptance, mean
from perfmodel.specs.models.loading import load_model
from perfmodel.specs.models.published_heads import published_heads

DEFAULT_TASK = "chat"
OTHER_TASK = "mixed"
USUAL = (DEFAULT_TASK, OTHER_TASK)
"""Tasks that are looked up if a question names none, in this order."""
LEAST_KNOWN = 3
"""If acceptance was published only for shorter drafts, it is extrapolated to this draft length."""
SHORT_TOKENS = 4096.0
"""The longest context, in tokens, at which the results of the library are assumed to hold."""


class LibraryEntry(Immutable):
    """The rows of one head that are used for a question. These are the rows of the question's task. If there
    are none, the rows of mixed text are used. If there are none of these either, all rows of the head are
    used.

    - longer: a row with longer drafts, which is used beyond the longest draft length of `rows`. If it also
      has that length, its accepted tokens (tokens per iteration minus 1) are scaled to agree with `rows`
      there.
    """

    rows: tuple[LibraryRow, ...]
    spread: float
    longer: LibraryRow | None = None

    @property
    def head(self) -> str:
        """Hugging Face id of the head. The result is empty if the head is part of the target or has no
        name.
        """
        return self.rows[0].head

    @property
    def tasks(self) -> tuple[str, ...]:
        """The kinds of text of the rows, each once."""
        return tuple(dict.fromkeys(row.task for row in self.rows))

    @property
    def printed(self) -> dict[int, float]:
        """Mean tokens per iteration of the rows at each draft length that all rows have. If there is no such
        length, the lengths of the row with the most lengths are used.
        """
        each = [row.tokens for row in self.rows]
        longest = max(each, key=lambda row: len(row))
        common = set.intersection(*map(set, each)) or set(longest)
        return {length: mean([row[length] for row in each if length in row]) for length in sorted(common)}

    @property
    def tokens(self) -> dict[int, float]:
        """Tokens per iteration by draft length, including longer drafts from the row `longer`."""
        printed = self.printed
        if self.longer is None:
            return printed
        known = max(printed)
        other = self.longer.tokens
        scale = (printed[known] - 1.0) / (other[known] - 1.0) if known in other else 1.0
        return printed | {k: 1.0 + scale * (tokens - 1.0) for k, tokens in other.items() if k > known}

    @property
    def survival(self) -> tuple[float, ...]:
        """Mean probability over the rows that at least 1, 2, ... drafted tokens are accepted. The result is
        empty if a row does not have it.
        """
        return tuple(map(mean, zip(*(row.survival for row in self.rows), strict=False)))

    @property
    def source(self) -> str:
        """The head, the text and the places of publication, in words for an answer."""
        texts = dict.fromkeys(row.text for row in self.rows)
        places = dict.fromkeys(place for row in self.rows for place in row.source.split("; "))
        head = f"{self.head}, " if self.head else ""
        beyond = ""
        if self.longer is not None:
            text = f"{self.longer.target}, {self.longer.task} text: {self.longer.source}"
            beyond = f"; beyond {max(self.printed)} drafted as {text}"
        return f"{head}{' and '.join(texts)} text at short contexts: {'; '.join(places)}{beyond}"


class AcceptanceLibrary:
    """A collection of published results. If there are several heads for one target and kind of draft, the
    preferred head comes first.

    - enough_ratios: see `TypicalAcceptance`.
    """

    def __init__(self, rows: Sequence[LibraryRow], enough_ratios: int = ENOUGH_RATIOS) -> None:
        self.rows = tuple(rows)
        self.typical = TypicalAcceptance(self.rows, enough_ratios)

    def drafts_of(self, target: str) -> tuple[str, ...]:
        """The drafts that have results on a target.

        - target: a name that `short_name` returns.
        """
        names = (target, undated(target))
        return tuple(dict.fromkeys(row.draft for row in self.rows if row.target in names))

    def find(
        self, target: str, draft: str, task: str | None = None, head: str | None = None
    ) -> LibraryEntry | None:
        """The results of a draft on a target. The result is None if there are none.

        - target, draft: names that `short_name` returns. The draft may also be a kind of draft.
        - task: kind of text. None means the tasks in `USUAL`. The spread of the result is the one between the
          data sets of `task`. If the task is None or has no results, it is the spread between tasks.
        - head: repository of the head that the user named. If this head has results, they are used.
        """
        known = self._of_draft(target, draft, head)
        if not known:
            return None
        wanted = (task, OTHER_TASK) if task else _usual_tasks(known)
        of_tasks = [[row for row in known if row.task == each] for each in wanted]
        chosen = next(filter(None, of_tasks), known)
        rows = tuple(row for row in chosen if row.head == chosen[0].head)
        entry = self._with_longer(LibraryEntry(rows, 0.0))
        if task is None or rows[0].task != task:
            of_head = [row for row in known if row.head == entry.head]
            return entry.replace(spread=self.typical.between_tasks(of_head, max(entry.printed)))
        spreads = [row.spread for row in rows if row.spread is not None]
        return entry.replace(spread=mean(spreads) if spreads else self.typical.spread_of_data_sets)

    def _of_draft(self, target: str, draft: str, head: str | None) -> list[LibraryRow]:
        """The rows of a draft on a target, or on the target without its release month. If the head has some
        of these rows, only these are returned.
        """
        of_kind = [row for row in self.rows if row.draft == draft]
        if all(row.target != target for row in of_kind):
            target = undated(target)
        known = [row for row in of_kind if row.target == target]
        repository = (head or "").strip().lower()
        of_head = [row for row in known if repository and row.head.lower() == repository]
        return of_head or known

    def _with_longer(self, entry: LibraryEntry) -> LibraryEntry:
        """Adds a row with longer drafts if the drafts of the entry are short.

        The added row has the same kind of draft. Its target is the same, or has the same architecture. The
        most similar row is chosen.
        """
        known = max(entry.printed)
        short = entry.rows[0]
        if known >= LEAST_KNOWN:
            return entry
        near = []
        for row in self.rows:
            is_long = row.draft == short.draft and max(row.tokens) >= LEAST_KNOWN
            if is_long and _alike(row.target, short.target):
                near.append(row)

        def apart(row: LibraryRow) -> tuple[bool, ...]:
            return known not in row.tokens, row.task != short.task, row.target != short.target

        return entry.replace(longer=min(near, key=apart, default=None))


@cache
def acceptance_library() -> AcceptanceLibrary:
    """The library of the bundled file."""
    path = data_folder("results") / "published" / "acceptance.csv"
    return AcceptanceLibrary(read_rows(path, LibraryRow))


def _usual_tasks(known: Sequence[LibraryRow]) -> tuple[str, str]:
    """The tasks that are looked up if a question names none: first chat, then mixed text.

    If chat was measured only at the shortest draft lengths, mixed text with longer drafts comes first,
    because longer drafts for chat would be scaled from one position.
    """
    longest = dict.fromkeys(USUAL, 0)
    for row in known:
        if row.task in longest:
            longest[row.task] = max(longest[row.task], *row.tokens)
    if longest[DEFAULT_TASK] < LEAST_KNOWN <= longest[OTHER_TASK]:
        return OTHER_TASK, DEFAULT_TASK
    return USUAL


def _alike(target: str, other: str) -> bool:
    """Whether two targets are the same model, or have the same known architecture."""
    return target == other or _architecture(target) == _architecture(other) != ""


@cache
def _architecture(target: str) -> str:
    """The architecture of a library target. The result is empty if it is unknown."""
    try:
        return load_model(target).model_type
    except InputError:
        return ""


def head_kind(repository: str) -> str | None:
    """The kind of draft of a published head with this Hugging Face id. The result is None for any other
    name.
    """
    return _head_kinds().get(repository.strip().lower()) if "/" in repository else None


@cache
def _head_kinds() -> dict[str, str]:
    """The kind of draft of each published head, by its Hugging Face id in lower case."""
    published = {row.head.lower(): row.kind for row in published_heads()}
    measured = {row.head.lower(): row.draft for row in acceptance_library().rows if "/" in row.head}
    return measured | published
