"""The answer of `whatif`. The fields of the answer are those that ``perfmodel whatif --json`` writes
(docs/cli.md).
"""

from dataclasses import dataclass, field
from typing import Any

from perfmodel.answers.advice.best import Best
from perfmodel.answers.answer import Answer
from perfmodel.answers.point.calibrated import Calibrated
from perfmodel.answers.point.verdict import SENTENCES, Verdict
from perfmodel.answers.question import Query
from perfmodel.answers.question.typical import TypicalGain
from perfmodel.answers.text import context_text, devices, interval_text, model_and_shape, ratio_text
from perfmodel.costs.pass_time import PassTime
from perfmodel.speculation import NONE_NEEDED, ContextLengths, KVCapacity, Memory

BASELINE = "Baseline (no speculation), as asked"


@dataclass(frozen=True, slots=True)
class CostRatios:
    """Two times, divided by the time T_T of a baseline step.

    - draft_to_target: this ratio for one draft pass with its selection of cached tokens, (T_D + T_select) /
      T_T.
    - verify_to_target: this ratio for the verification, T_V / T_T.
    """

    draft_to_target: float
    verify_to_target: float


@dataclass(frozen=True, slots=True)
class Accepted:
    """The acceptance in use.

    - alpha: its value if it is the same at all positions, otherwise None.
    - tokens_per_iteration: None if the acceptance is unknown.
    - tokens_per_iteration_interval: the 90 % interval if an alpha is used at a draft length at which it was
      not measured. The width of the interval comes from the errors of such predictions for published results.
      None means that the tokens per iteration are certain.
    """

    alpha: float | None
    tokens_per_iteration: float | None
    source: str
    tokens_per_iteration_interval: tuple[float, float] | None = None


NONE_ACCEPTED = Accepted(0.0, 1.0, NONE_NEEDED)
"""The acceptance in an answer about the baseline alone."""


@dataclass(frozen=True, repr=False)
class Move(Answer):
    """The effect of one input if no other input changes.

    - low, high: its low and its high value in words.
    - speedup_low, speedup_high: the speedups with these values.
    - swing: the absolute difference of both speedups.
    - flips: whether only one of the two speedups is above 1.
    """

    input: str
    low: str
    high: str
    speedup_low: float
    speedup_high: float
    swing: float
    flips: bool


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change of the server, and the speedup with this change at the best draft length.

    - switch: the change as a flag.
    - changes: the changed argument of the question (name -> value).
    """

    switch: str
    gamma: int
    speedup: float
    speedup_interval: tuple[float, float] | None
    changes: dict[str, Any] = field(default_factory=dict)

    def helps(self, enough: float) -> bool:
        """Whether speculation certainly pays off with the change, or has a speedup above `enough`."""
        return self.surely_pays or self.speedup > enough

    @property
    def surely_pays(self) -> bool:
        """Whether the whole interval of the speedup is above 1."""
        return self.speedup_interval is not None and self.speedup_interval[0] > 1.0

    @property
    def text(self) -> str:
        """The change in words, such as ``with --attention-backend flashinfer 1.48x (0.90 to 2.30) at gamma
        3``.
        """
        interval = interval_text(self.speedup_interval)
        return f"with {self.switch} {self.speedup:.2f}x{interval} at gamma {self.gamma}"


@dataclass(frozen=True, slots=True)
class Admitted:
    """A comparison with the baseline if the whole batch does not fit in memory. The baseline may run more
    requests at once than the server with a draft.

    - running, baseline_running: numbers of requests that run at once with the draft and without a draft.
    - most: a second value of `running` if it is not known how the engine keeps recurrent states. This value
      is for an engine that keeps one state per request. If the rule is known, `most` equals `running`.
    - throughput_tokens_per_s, ar_throughput_tokens_per_s: throughput with the draft and without.
    - gain: the first throughput divided by the second.
    - verdict: the verdict about this gain.
    """

    running: int
    most: int
    baseline_running: int
    throughput_tokens_per_s: float
    ar_throughput_tokens_per_s: float
    tpot_s: float
    gain: float
    gain_interval: tuple[float, float] | None
    verdict: Verdict

    def waiting(self, batch: int) -> str:
        """The number of waiting requests in words, such as ``23 of 32 requests run at once, 9 wait``."""
        if self.most > self.running:
            return f"{self.running} to {self.most} of {batch} requests run at once: its rule is not known"
        return f"{self.running} of {batch} requests run at once, {batch - self.running} wait"


@dataclass(frozen=True, repr=False)
class WhatIf(Answer):
    """The answer of `whatif`.

    Times and throughput are for one server, bytes are per device, and lengths are in tokens. A field without
    a value is None.

    - query: the question with all names and defaults filled in.
    - shape: the bundled model whose shape the model has, or the name in the model's file.
    - target_step, draft_step, verify_step: one pass of each kind.
    - best: the batch and gamma with the most tokens per second for this model, device and context.
    - chance_above_one: the chance that the measured speedup is above 1, between 0 and 1, according to the
      interval of the speedup.
    - runs_in: the serving engine that runs the draft, or a remark that no engine does.
    - joules_per_token, ar_joules_per_token: energy of all devices per token, with speculation and for the
      baseline.
    - power_w: mean power of one device. The energies and the power are None if no power was measured.
    - typical: the speedup with the acceptance that is typical of this kind of draft. This field is only given
      if the acceptance is unknown. The answer then has the passes, the memory and `break_even_alpha`, at the
      draft length with the smallest break-even acceptance.
    - admitted: the comparison with the baseline for as many requests as fit, if the whole batch does not fit
      in memory.
    """

    query: Query
    shape: str
    verdict: Verdict
    reason: str
    target_step: PassTime[float]
    draft_step: PassTime[float]
    verify_step: PassTime[float]
    overhead_s: float
    cost_ratios: CostRatios
    acceptance: Accepted
    speedup: float | None
    speedup_interval: tuple[float, float] | None
    interval_coverage: float | None
    chance_above_one: float | None
    tpot_s: float | None
    ar_tpot_s: float
    ar_tpot_interval: tuple[float, float] | None
    iteration_s: float
    iteration_interval: tuple[float, float] | None
    throughput_tokens_per_s: float | None
    ar_throughput_tokens_per_s: float
    gamma_optimal: int | None
    speedup_at_gamma_optimal: float | None
    break_even_alpha: float | None
    inflection: ContextLengths
    draft_setup_s: float
    break_even_new_tokens: int | None
    memory: Memory[float]
    kv_cache: KVCapacity
    calibration: Calibrated
    runs_in: str | None
    warnings: tuple[str, ...]
    best: Best | None = None
    joules_per_token: float | None = None
    ar_joules_per_token: float | None = None
    power_w: float | None = None
    sensitivity: tuple[Move, ...] | None = None
    typical: TypicalGain | None = None
    remedies: tuple[Remedy, ...] = ()
    admitted: Admitted | None = None

    @property
    def states_draft(self) -> bool:
        """Whether the answer is about a draft. A question with gamma 0 and no acceptance is only about the
        baseline.
        """
        return self.acceptance != NONE_ACCEPTED

    @property
    def is_baseline_as_asked(self) -> bool:
        """Whether gamma is 0 because the question states it, and not because a search found it. The result is
        false for a configuration that does not fit in memory.
        """
        if self.query.gamma or not self.memory.fits:
            return False
        return bool(self.gamma_optimal) or not self.states_draft

    @property
    def sentence(self) -> str:
        """The verdict as a sentence, or `BASELINE`."""
        return BASELINE if self.is_baseline_as_asked else SENTENCES[self.verdict]

    def headline(self) -> str:
        q = self.query
        if self.speedup is None:
            return f"{self.sentence}: {self.reason}"
        sure = interval_text(self.speedup_interval)
        context = context_text(q.context)
        if self.admitted is not None:
            return f"{self.admitted.waiting(q.batch)}; if all ran, {ratio_text(self.speedup)}{sure}"
        model = model_and_shape(q.model, self.shape)
        where = f"{model} on {devices(q.hardware, float(q.tp * q.pp))}, batch {q.batch}, context {context}"
        return f"{self.sentence}: {ratio_text(self.speedup)}{sure} at gamma {q.gamma}; {where}"
