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
from perfmodel.answers.advice.over_kinds import OverKind
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
from perfmodel.answers.text import context_text, interval_text, ratio_text

if TYPE_CHECKING:
    from pandas import DataFrame

UNITS = {"throughput": "tokens/s per device", "latency": "s per token", "cost": "$ per million tokens"}


@dataclass(frozen=True, slots=True)
class Objective:
    """The quantity that `advise` maximises or minimises, and its unit."""

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
"""Verdict of `whatif` about the chosen draft at its batch -> verdict of `advise`. Any other verdict becomes
"too close to call".
"""


@dataclass(frozen=True, repr=False)
class Advice(Answer):
    """The answer of `advise`: the best configuration that the engine runs, the reason, and alternatives.

    A field is None or empty if it does not apply. *Batch* is the number of sequences in one server.

    - option: the configuration with the best draft, if its gain is too close to call and not worth the risk.
      `chosen` and `layouts` then have no draft.
    - runner_up: the second best configuration. baseline: the best configuration without a draft.
    - layouts: the best configuration of each layout. The best layout comes first.
    - by_hardware: the choice on each kind of device, the best first. The field is empty if the question names
      only one kind.
    - over_kinds: the choice compared with each other kind of device.
    - on_off: the batch sizes of one server at which the best draft is faster than the baseline.
    - not_run: a better configuration that the engine cannot run.
    - unbounded: the best configuration, if it gives each sequence less than ten tokens per second and the
      question states no bound on TPOT. All other fields are then about configurations with at least ten
      tokens per second per sequence.
    - serve: the command lines for one server of the choice.
    - serve_option: the command lines for one other server. This server is usually that of `option`. If the
      gain of `chosen` is too close to call, or if the engine does not run its draft, the server is the
      baseline. If no acceptance is known, the server has the draft to measure.
    - alternatives: servers that a reader may prefer to the choice. If nothing is feasible, changes of the
      question that help.
    - unmeasured, likely: the break-even acceptance of each draft, and its gain with an acceptance that is
      typical of its kind. Both are empty if at least one draft has a known acceptance.
    - remedies: changes, such as an engine flag, with which the best draft would pay off at its batch or fit
      in memory.
    - better_changes: an engine flag or a smaller number format that gives much better servers.
    - shorter: a shorter draft with nearly the speedup of `option` (or of `chosen`, without an option).
    - run_first: a sentence that says which server to start first, and why. The sentence is only given if
      there are several command lines and either no acceptance is known or nothing fits.
    - first_line: the command line of this server; None if it is that of `chosen`.
    - attention_backend: the attention kernels of the choice; None if the engine has no choice of kernels.
    - traffic_command: under a load, the ``perfmodel traffic`` command that predicts one server of `chosen`
      with the same numbers.
    - pools: a comparison of separate servers for prefill and decoding with servers that do both. The
      comparison is only made for a load on more devices than one node has. All other fields are about servers
      that do both.
    - nearest: if the given devices cannot serve the load, the servers that serve the largest part of it.
    - trees: the best tree of drafted tokens for each draft with a `tree_rate`, the best first. `chosen` is
      never a tree. If only a tree meets the bounds, the verdict is `infeasible`.
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
    over_kinds: tuple[OverKind, ...] = ()
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
    first_line: str | None = None
    traffic_command: str | None = None
    calibration: Calibrated | None = None
    attention_backend: str | None = None
    warnings: tuple[str, ...] = ()
    pools: PoolAdvice | None = None
    nearest: Nearest | None = None
    trees: tuple[TreeDraft, ...] = ()
    trees_skipped: tuple[TreeSkip, ...] = ()

    def gain(self, pick: Pick) -> float | None:
        """How many times better a configuration is than the best baseline according to the objective. The
        result is None if no baseline meets the bounds.
        """
        if (b := self.baseline) is None:
            return None
        if self.objective.name == "throughput":
            return pick.objective / b.objective
        return b.objective / pick.objective

    def to_frame(self) -> "DataFrame":
        """A DataFrame with one row for each layout, in the order of `layouts`."""
        return Rows(self.layouts).to_frame()

    @property
    def failed(self) -> bool:
        """Whether the answer recommends nothing, because no configuration and no tree meets the bounds, or
        because no acceptance is known.
        """
        if self.pools is not None and self.pools.serves:
            return False
        if self.verdict == "infeasible":
            return not self.trees
        return self.verdict == "unknown_acceptance"

    @property
    def close_with_draft(self) -> bool:
        """Whether `chosen` has a draft whose gain is too close to call. `serve_option` then has the command
        lines without a draft.
        """
        drafts = self.chosen is not None and bool(self.chosen.gamma)
        return drafts and self.verdict == "too_close_to_call" and self.baseline is not None

    @property
    def turned_by(self) -> BetterChange | None:
        """The first better change whose servers have a draft, if the choice has none and the change is better
        than the draft of `option`. Such a change turns the verdict.
        """
        if self.chosen is None or self.chosen.gamma:
            return None
        enough = 1.0 if self.option is None else self.gain(self.option) or 1.0
        turning = (each for each in self.better_changes if each.draft is not None and each.gain > enough)
        return next(turning, None)

    @property
    def turned_text(self) -> str:
        """A clause with the change that turns the verdict, and its gain; empty without such a change."""
        if (change := self.turned_by) is None:
            return ""
        gain = f"{change.gain:.2f} times as good{interval_text(change.gain_interval)}"
        return f"; with {change.flags} {gain}: {change.draft}, gamma {change.gamma}, batch {change.batch}"

    @property
    def undecided_text(self) -> str:
        """The reason, after the change that decides the question if there is one."""
        turned = self.turned_text
        return f"{turned.removeprefix('; ')}; {self.reason}" if turned else self.reason

    @property
    def sentence(self) -> str:
        """The verdict in words. If another attention backend would be much better, the text names the default
        backend, for which the verdict is.
        """
        words = SENTENCES[self.verdict]
        if any(change.flags.startswith("--attention-backend") for change in self.better_changes):
            named = "" if self.attention_backend is None else f" ({self.attention_backend})"
            words += f" with the default attention backend{named}"
        return words

    @property
    def unmeasured_context(self) -> str:
        """A clause that says that the acceptance was not measured at the context of the question. The clause
        is about the draft of `option`, or of `chosen` without an option. The result is empty if the
        acceptance was measured at this context.
        """
        pick = self.option or self.chosen
        longest = None if pick is None else pick.measured_context_tokens
        if longest is None or self.query.context <= longest:
            return ""
        return f"; the acceptance was not measured at {context_text(self.query.context)} tokens"

    def headline(self) -> str:
        if self.pools is not None:
            return self.pools.sentence
        if self.chosen is None and self.trees:
            return f"Only a tree is feasible: {self.reason}"
        if (p := self.chosen) is None or self.verdict == "unknown_acceptance":
            return f"{self.sentence}: {self.undecided_text}"
        where = f"batch {p.batch} per server, {p.layout} on {p.gpus} device{'s' * (p.gpus > 1)}"
        rate = f"{p.throughput_tokens_per_s_per_device:.0f} tokens/s per device"
        speed = f"{rate}{self._gain_text(p)}{self.turned_text}{self.unmeasured_context}"
        return f"{self.sentence}: {_draft_text(p)}, {where}: {speed}"

    def _gain_text(self, chosen: Pick) -> str:
        """The gain of `option` over the choice, or without an option the gain of the choice over the best
        baseline. The text is empty if there is neither.
        """
        if (o := self.option) is not None:
            times = chosen.tpot_s / o.tpot_s if self.query.has_load else self.gain(o) or 1.0
            return f"; with {o.draft}, gamma {o.gamma}, batch {o.batch}: {ratio_text(times)}"
        gain = self.gain(chosen)
        if not chosen.gamma or self.baseline is None or gain is None:
            return ""
        if self.query.has_load:
            shorter = ratio_text(self.baseline.tpot_s / chosen.tpot_s)
            return f", {shorter} in TPOT over the best baseline, on {self.baseline.gpus}"
        return f", {ratio_text(gain)} the best baseline"


def _draft_text(pick: Pick) -> str:
    """The draft with its KV method and draft length in words. The method `full` is left out."""
    if pick.draft is None:
        return "baseline"
    method = (pick.draft_kv or "full").partition(",")[0]
    name = pick.draft if method == "full" else f"{pick.draft} with {method}"
    return f"{name}, gamma {pick.gamma}"
