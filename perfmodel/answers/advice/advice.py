"""The answer of `advise`."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative, BetterChange
from perfmodel.answers.advice.candidates import Skip
from perfmodel.answers.advice.engine_lines import Export
from perfmodel.answers.advice.margins import BreakEven, Robustness
from perfmodel.answers.advice.nearest import Nearest
from perfmodel.answers.advice.on_off import OnOff
from perfmodel.answers.advice.picks import Pick
from perfmodel.answers.advice.pools.option import PoolAdvice
from perfmodel.answers.advice.ranking import NO_FRONTS, Fronts
from perfmodel.answers.advice.shorter_draft import ShorterDraft
from perfmodel.answers.advice.tree_drafts import TreeDraft, TreeSkip
from perfmodel.answers.answer import Answer, Rows
from perfmodel.answers.point.calibrated import Calibrated
from perfmodel.answers.point.verdict import SENTENCES, Verdict
from perfmodel.answers.point.whatif_answer import Remedy
from perfmodel.answers.question.typical import TypicalGain
from perfmodel.answers.text import context_text, ratio_text
from perfmodel.specs.acceptance.acceptance_library import doublings_beyond

if TYPE_CHECKING:
    from pandas import DataFrame

UNITS = {"throughput": "tokens/s per device", "latency": "s per token", "cost": "$ per million tokens"}


@dataclass(frozen=True, slots=True)
class Objective:
    """The quantity to maximise or minimise, and its unit."""

    name: str
    unit: str

    @classmethod
    def of(cls, query: AdviseQuery) -> "Objective":
        """The objective of a question."""
        return cls(query.objective, UNITS[query.objective])


AdviseVerdict = Literal[
    "speculate",
    "likely_speculate",
    "too_close_to_call",
    "likely_do_not_speculate",
    "do_not_speculate",
    "unknown_acceptance",
    "infeasible",
]
ON: Mapping[Verdict, AdviseVerdict] = MappingProxyType(
    {"pays": "speculate", "likely_pays": "likely_speculate"}
)
"""Verdict of `whatif` about a chosen draft at its batch -> verdict of the choice; any other verdict is too
close to call.
"""


@dataclass(frozen=True, repr=False)
class Advice(Answer):
    """The best configuration that the engine runs, its alternatives and the reason. The fields are None if
    nothing fits.

    option: the best draft, where its gain is too close to call and not worth the risk; `chosen` and all
    layouts then have no draft. layouts: the best point of each layout, the best first. by_hardware: the
    choice on each kind of device, the best first; empty for one kind. on_off: the batches of one server at
    which the best draft is on, None if it never is. not_run: a better configuration that the engine does
    not run. unbounded: if the question states no bound on TPOT, the best configuration without one. It is
    given only if it has less than ten tokens per second and sequence; all others then have at least ten.
    serve: the engine's command line for one server of the choice. serve_option: the line of the option, or
    of the baseline if the chosen draft is too close to call; if no acceptance is known, the line of the
    draft to measure. alternatives: what a reader may prefer to the choice, or what helps if nothing is
    feasible, each with the line that starts it. unmeasured, likely: if no allowed draft has a known
    acceptance, the break-even alpha of each draft and its gain with a typical acceptance. remedies:
    switches with which the best draft would pay at its batch (if it does not), or which make room for a
    draft. better_changes: a switch and smaller formats with which servers are much better than the choice.
    shorter: a draft that is shorter than that of `option`, or of `chosen` without an option, and has nearly
    its speedup. run_first: which server to run first and why, if no acceptance is known and more than one has
    a line. pools: for a rate on more devices than a node has, the comparison of one pool with a prefill
    and a decode pool; all other fields are those of one pool. nearest: if the given devices cannot serve the
    load, the servers on them that serve the largest part of it. trees: the best tree of each draft with rates
    by rank, the best first; `chosen` is always a chain or the baseline; the verdict is `infeasible` if only a
    tree meets the bounds.
    """

    query: AdviseQuery
    verdict: AdviseVerdict
    reason: str
    objective: Objective
    chosen: Pick | None = None
    runner_up: Pick | None = None
    option: Pick | None = None
    baseline: Pick | None = None
    not_run: Pick | None = None
    unbounded: Pick | None = None
    layouts: tuple[Pick, ...] = ()
    by_hardware: tuple[Pick, ...] = ()
    on_off: OnOff | None = None
    serve: Export | None = None
    serve_option: Export | None = None
    alternatives: tuple[Alternative, ...] = ()
    robustness: Robustness | None = None
    pareto: Fronts = NO_FRONTS
    candidates: int = 0
    skipped: tuple[Skip, ...] = ()
    unmeasured: tuple[BreakEven, ...] = ()
    likely: tuple[TypicalGain, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    better_changes: tuple[BetterChange, ...] = ()
    shorter: ShorterDraft | None = None
    run_first: str | None = None
    calibration: Calibrated | None = None
    warnings: tuple[str, ...] = ()
    pools: PoolAdvice | None = None
    nearest: Nearest | None = None
    trees: tuple[TreeDraft, ...] = ()
    trees_skipped: tuple[TreeSkip, ...] = ()

    def gain(self, pick: Pick) -> float | None:
        """Ratio to the best baseline by the objective; None where no baseline is allowed."""
        if (b := self.baseline) is None:
            return None
        if self.objective.name == "throughput":
            return pick.objective / b.objective
        return b.objective / pick.objective

    def to_frame(self) -> "DataFrame":
        """A DataFrame with one row for each layout, the best first."""
        return Rows(self.layouts).to_frame()

    @property
    def failed(self) -> bool:
        """Whether nothing fits, not even a tree, or nothing is decided."""
        if self.pools is not None and self.pools.serves:
            return False
        if self.verdict == "infeasible":
            return not self.trees
        return self.verdict == "unknown_acceptance"

    @property
    def close_with_draft(self) -> bool:
        """Whether the choice has a draft that is too close to call; `serve_option` then has no draft."""
        drafts = self.chosen is not None and bool(self.chosen.gamma)
        return drafts and self.verdict == "too_close_to_call" and self.baseline is not None

    @property
    def sentence(self) -> str:
        """The verdict in words. They state if it holds only for the engine's default backend."""
        backend = any(change.flags.startswith("--attention-backend") for change in self.better_changes)
        return SENTENCES[self.verdict] + (" with the default attention backend" if backend else "")

    @property
    def unmeasured_context(self) -> str:
        """A sentence if the acceptance of the draft of `option`, or of `chosen` without an option, was not
        measured at the context.
        """
        pick = self.option or self.chosen
        if pick is None or not doublings_beyond(pick.acceptance_source or "", self.query.context):
            return ""
        return f"; the acceptance was not measured at {context_text(self.query.context)} tokens"

    def headline(self) -> str:
        if self.pools is not None:
            return self.pools.sentence
        if self.chosen is None and self.trees:
            return f"Only a tree is feasible: {self.reason}"
        if (p := self.chosen) is None or self.verdict == "unknown_acceptance":
            return f"{self.sentence}: {self.reason}"
        draft = "baseline"
        if p.draft is not None:
            view = "" if p.draft_kv in (None, "full") else f" with {p.draft_kv.partition(',')[0]}"
            draft = f"{p.draft}{view}, gamma {p.gamma}"
        gain = self.gain(p)
        over = "" if gain is None or not p.gamma else f", {ratio_text(gain)} the best baseline"
        if self.query.has_load and self.baseline is not None and p.gamma:
            b = self.baseline
            over = f", {ratio_text(b.tpot_s / p.tpot_s)} in TPOT over the best baseline, on {b.gpus}"
        if (o := self.option) is not None:
            times = p.tpot_s / o.tpot_s if self.query.has_load else self.gain(o) or 1.0
            over = f"; with {o.draft}, gamma {o.gamma}, batch {o.batch}: {ratio_text(times)}"
        where = f"batch {p.batch} per server, {p.layout} on {p.gpus} device{'s' * (p.gpus > 1)}"
        rate = f"{p.throughput_tokens_per_s_per_device:.0f} tokens/s per device"
        return f"{self.sentence}: {draft}, {where}: {rate}{over}{self.unmeasured_context}"
