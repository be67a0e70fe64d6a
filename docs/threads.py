"""The table of public threads that were predicted before their numbers were read."""

from collections.abc import Sequence
from dataclasses import dataclass

from perfmodel.specs.published import read_published
from perfmodel.validate.accuracy.markdown import table

GITHUB = "https://github.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """One configuration of a thread.

    predicted, predicted_low, predicted_high: speedup and its 90 % interval, where it was noted.
    measured: the thread's speedup. verdict: right, partly or wrong, on the whole answer. why: of a miss.
    """

    thread: str
    date: str
    engine: str
    hardware: str
    model: str
    draft: str
    gamma: int
    batch: int
    context_tokens: int
    predicted: float
    predicted_low: float | None
    predicted_high: float | None
    measured: float
    verdict: str
    why: str | None

    @property
    def same_side(self) -> bool:
        """Whether prediction and measurement are on the same side of 1."""
        return (self.predicted > 1.0) == (self.measured > 1.0)

    @property
    def contained(self) -> bool | None:
        """Whether the interval contains the measurement; None without an interval."""
        if self.predicted_low is None or self.predicted_high is None:
            return None
        return self.predicted_low <= self.measured <= self.predicted_high


def threads() -> str:
    """Every configuration with its prediction and its measurement, then the counts."""
    rows = read_published("threads", Thread)
    heads = ["thread", "engine, device", "model, draft", "predicted", "measured", "answer", "why"]
    lines = table(heads, [_cells(row) for row in rows], text_columns=(0, 1, 2, 5, 6))
    return "\n".join([*lines, "", _counts(rows)]) + "\n"


def _cells(row: Thread) -> list[str]:
    repository, _, number = row.thread.partition("#")
    link = f"[{row.thread}]({GITHUB}/{repository}/issues/{number}), {row.date}"
    predicted = f"{row.predicted:.2f}x"
    if row.predicted_low is not None:
        predicted += f" ({row.predicted_low:.2f} to {row.predicted_high:.2f})"
    draft = f"{row.model}; {row.draft}, {row.gamma} drafted, batch {row.batch}"
    place = f"{row.engine}, {row.hardware}"
    return [link, place, draft, predicted, f"{row.measured:.2f}x", row.verdict, row.why or ""]


def _counts(rows: Sequence[Thread]) -> str:
    intervals = [row.contained for row in rows if row.contained is not None]
    sides = sum(row.same_side for row in rows)
    return (
        f"For {sides} of these {len(rows)} configurations, the predicted and the measured speedup are on the "
        f"same side of 1.0x. Of the {len(intervals)} predictions with a 90 % interval, {sum(intervals)} have "
        "an interval that contains the measured speedup."
    )


MADE = {"threads": threads}
"""Name of a part of a page -> its writer, as in `lists.MADE`."""
