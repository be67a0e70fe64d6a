"""Published measurements of baseline steps and of speculation. The measurements come from one table and are
converted to seconds.

tests/specs/test_published.py checks the bundled table. In each row, the times must add up to the published
speed, and the speedup must be the ratio of the published times.
"""

from dataclasses import dataclass, fields
from functools import cache
from typing import TypeVar

from perfmodel.errors import unknown_name
from perfmodel.reading import data_folder, read_rows

MS = 1e-3
"""Seconds per millisecond."""
SETS = ("magicdec", "gamma_optimal", "gptfast_decode", "speculation_other")
"""Sets of the table ``results/published/points.csv``, one for each study."""
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFields:
    """The fields that a published row and a point share. A field is None if the source does not state its
    value.
    """

    source: str
    hardware: str
    stack: str
    target: str
    weights: str
    draft: str | None
    draft_kv: str | None
    task: str
    batch: int
    gamma: int | None
    tokens_per_iteration: float | None
    speedup: float | None
    alpha: float | None
    notes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPoint(RunFields):
    """One published measurement, with times in seconds. A field is None if the source does not state it.

    - draft_s, target_s: time of one draft step, and of one baseline step of the target.
    - context: number of cached tokens per sequence.
    - asked_context: context in the measurement plan, if it differs from `context`. Sequences grow while they
      decode, and they grow more with a longer draft.
    - tree: number of nodes and number of levels if the draft is a tree, both with the root. `gamma` is then
      None, and `draft_s` is the mean over the draft's passes.
    - widths: number of nodes at each level of the tree, if it is known.
    - attention_backend: name of the attention backend. None means that the stack chose it.
    """

    set_name: str
    row_id: str
    tp: int
    context: int
    tree: tuple[int, int] | None = None
    widths: tuple[int, ...] | None = None
    target_s: float | None = None
    draft_s: float | None = None
    verify_s: float | None = None
    overhead_s: float | None = None
    ar_tpot_s: float | None = None
    sd_tpot_s: float | None = None
    asked_context: int | None = None
    kv_dtype: str = "bf16"
    attention_backend: str | None = None

    @property
    def drafts(self) -> float | None:
        """Number of draft steps per iteration, each of which takes `draft_s`. For a tree, it is the number of
        levels minus 1.
        """
        return self.tree[1] - 1 if self.tree else self.gamma

    @property
    def query(self) -> float:
        """Number of tokens per sequence that a verification processes."""
        if self.tree:
            return self.tree[0]
        return (self.gamma or 0) + 1.0

    @property
    def drafted(self) -> str:
        """The draft as text for a table: gamma, or the number of nodes at each level of a tree."""
        if self.widths:
            return "-".join(map(str, self.widths))
        return f"{self.gamma}"

    @property
    def read(self) -> str:
        """The KV method of the draft."""
        return self.draft_kv or ""

    @property
    def iteration_s(self) -> float | None:
        """Time in seconds of a whole speculative iteration, end to end. The result is None if it is
        unknown.
        """
        if not self.tokens_per_iteration or not self.sd_tpot_s:
            return None
        return self.tokens_per_iteration * self.sd_tpot_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow(RunFields):
    """One row of the table as published. Times are in milliseconds, and a blank cell is None.

    - target_ms: time of one baseline step.
    - drafts_ms: time of all draft steps of an iteration.
    - sd_tpot_ms: time per token with speculation.
    - tree_nodes, tree_levels: number of nodes and levels of a tree, both with the root.
    - context_tokens: number of cached tokens per sequence in the middle of the generation.
    - gamma: draft length. In the set ``gamma_optimal``, it is the best measured length.
    - tokens_per_s: throughput, which gpt-fast publishes instead of the time of a step.
    """

    id: str
    set: str
    tensor_parallel: int
    context_tokens: int
    tree_nodes: int | None
    tree_levels: int | None
    target_ms: float | None
    drafts_ms: float | None
    verify_ms: float | None
    sd_tpot_ms: float | None
    tokens_per_s: float | None

    @property
    def overhead_ms(self) -> float | None:
        """Time of an iteration outside its draft steps and its verification, in milliseconds. The result is
        None if it is unknown.
        """
        if self.tokens_per_iteration is None or self.sd_tpot_ms is None or self.verify_ms is None:
            return None
        return self.tokens_per_iteration * self.sd_tpot_ms - (self.drafts_ms or 0.0) - self.verify_ms

    def point(self) -> MeasuredPoint:
        """Converts the row to seconds. If only the speedup is published, the time per token follows from
        it.
        """
        tree = (self.tree_nodes, self.tree_levels) if self.tree_nodes and self.tree_levels else None
        drafts = tree[1] - 1 if tree else self.gamma
        speculating_ms = self.sd_tpot_ms
        if speculating_ms is None and self.target_ms and self.speedup:
            speculating_ms = self.target_ms / self.speedup
        target_s = _seconds(self.target_ms)
        return MeasuredPoint(
            **{name: getattr(self, name) for name in _ALIKE},
            set_name=self.set,
            row_id=self.id,
            tp=self.tensor_parallel,
            context=self.context_tokens,
            tree=tree,
            target_s=target_s,
            draft_s=_seconds(self.drafts_ms / drafts if self.drafts_ms and drafts else None),
            verify_s=_seconds(self.verify_ms),
            overhead_s=_seconds(self.overhead_ms),
            ar_tpot_s=target_s,
            sd_tpot_s=_seconds(speculating_ms),
        )


_ALIKE = [f.name for f in fields(RunFields)]


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds * MS


@cache
def read_published(name: str, row_type: type[Row], **having: str) -> tuple[Row, ...]:
    """The rows of the bundled table ``results/published/<name>.csv``. For the arguments, see
    `reading.read_rows`.
    """
    return read_rows(data_folder("results") / "published" / f"{name}.csv", row_type, **having)


@cache
def published_points(*set_names: str) -> tuple[MeasuredPoint, ...]:
    """The published measurements of the named sets, or of all sets if none is named. Raises InputError for a
    set that is not in `SETS`.
    """
    for name in set_names:
        if name not in SETS:
            raise unknown_name("--set", "published set", name, SETS)
    return tuple(
        row.point() for row in read_published("points", PublishedRow) if not set_names or row.set in set_names
    )
