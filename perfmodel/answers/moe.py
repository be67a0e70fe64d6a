"""What mixtures of experts do to speculation: verification touches more experts until all of them are read anyway.

At small batches each verified token drags in experts of its own (target efficiency T_T(1)/T_T(gamma + 1) falls); once
the baseline touches all experts, extra tokens are free until the experts turn compute-bound: speedup rises with the
batch, peaks, and falls. Huang et al. 2025 (MoESD), arXiv 2505.19645. Tokens of one sequence may route alike:
`routing_independence` r counts the gamma + 1 tokens of a sequence as 1 + r gamma independent ones.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers import arguments as arg
from perfmodel.answers.answer import Answer
from perfmodel.answers.arguments import asks, count, counts, number, value
from perfmodel.answers.query import Options, assumed, resolve
from perfmodel.answers.text import devices, times
from perfmodel.costs import Experts
from perfmodel.errors import InputError, refuse
from perfmodel.operations import Array, Floats
from perfmodel.speculation.capacity import memory_of
from perfmodel.speculation.chain import check_draft_length, speedups
from perfmodel.speculation.scenario import Scenario

BISECTIONS = 60
MAX_BATCH = 2**20
MAX_ROWS = 1024


@dataclass(frozen=True)
class MoEQuery(Options):
    """A question over batch sizes at one context and draft length."""

    model: arg.Model
    hardware: arg.Hardware
    context: arg.Context
    gamma: arg.Gamma
    batch: Annotated[arg.Numbers, arg.Argument("Batch sizes to look at.", arg.COUNTS, "--batch-size -b", counts)] = (
        "1..512x2"
    )
    tp: arg.TP = 1
    draft_kv: arg.DraftKV = None
    alpha: arg.Alpha = None
    routing_independence: Annotated[
        arg.Number | None,
        arg.Argument("1: tokens of a sequence route independently; 0: all alike.", "SHARE", read=number),
    ] = None
    fewer_experts: Annotated[
        arg.Number | None,
        arg.Argument(
            "Instead: by how much fewer distinct experts a verification was seen to touch.", "SHARE", read=number
        ),
    ] = None
    fewer_experts_at: Annotated[arg.Number, arg.Argument("The batch size at which that was seen.", "N", read=count)] = 1

    def check(self) -> None:
        """See `Question.check`."""
        super().check()
        assert isinstance(self.batch, tuple)
        if not isinstance(self.gamma, int) or self.gamma < 1:
            given = "auto" if self.gamma is None else self.gamma
            raise refuse("--gamma", None, "a whole number from 1 here", given)
        if not all(1 <= batch <= MAX_BATCH for batch in self.batch):
            raise refuse("--batch", None, "whole numbers from 1 to 2^20", max(self.batch))
        if len(self.batch) > MAX_ROWS:
            raise refuse("--batch", None, f"at most {MAX_ROWS} values here", len(self.batch))
        if self.fewer_experts is not None and self.routing_independence is not None:
            raise InputError("--fewer-experts: stands for --routing-independence; give one of them")


@dataclass(frozen=True, slots=True)
class MoERow:
    """One batch size: expected distinct experts that a step and a verification read in one layer, and the speedup."""

    batch: int
    experts_decoding: float
    experts_verifying: float
    target_efficiency: float
    speedup: float
    fits: bool


@dataclass(frozen=True, slots=True)
class MoEPeak:
    """The batch where speculation pays most; iteration_to_target is an iteration's time over a baseline step's."""

    batch: int
    speedup: float
    iteration_to_target: float
    target_efficiency: float
    fits: bool
    max_batch: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class ExpertSpeculation(Answer):
    """What verification reads of a mixture of experts, by batch size, and where speculation peaks."""

    model: str
    hardware: str
    tp: int
    draft: str
    context: float
    gamma: int
    experts: int
    experts_per_token: int
    routing_independence: float
    rows: tuple[MoERow, ...]
    peak: MoEPeak
    calibration: str

    def headline(self) -> str:
        """See `Answer.headline`."""
        where = f"{self.model} on {devices(self.hardware, self.tp)}, gamma {self.gamma}"
        return f"most at batch {self.peak.batch}: {times(self.peak.speedup)}; {where}"


@asks(MoEQuery)
def moe(question: MoEQuery) -> ExpertSpeculation:
    """Experts that a verification touches, target efficiency, and the batch where speculation peaks.

    Target efficiency is T_T(1)/T_T(gamma + 1). At small batches each drafted token drags in experts of its own; once
    all are read anyway, drafting is cheap again. Raises InputError.
    """
    assert isinstance(question.batch, tuple)
    batches = sorted({int(batch) for batch in question.batch})
    query = question.query(batch=batches[0])
    gamma, context, fraction = int(query.gamma or 0), float(query.context), float(query.memory_fraction)
    scenario = resolve(query)
    independence = _independence(question, scenario, gamma)
    scenario = with_independence(scenario, independence)
    experts, at = experts_of(scenario), np.array(batches)
    efficiency = np.asarray(target_efficiency(scenario, at.astype(float), context, gamma))
    fast = speedups(scenario, at.astype(float), np.asarray(context), np.array([gamma]))[..., 0]
    best = peak(scenario, context, gamma, np.arange(1, batches[-1] + 1))
    room = memory_of(scenario, at, context, gamma, fraction)
    at_peak = memory_of(scenario, best.batch, context, gamma, fraction).single()
    return ExpertSpeculation(
        model=scenario.target.name,
        hardware=scenario.machine.gpu.name,
        tp=int(query.tp),
        draft=scenario.draft.name,
        context=value(query.context),
        gamma=gamma,
        experts=experts.num_experts,
        experts_per_token=experts.experts_per_token,
        routing_independence=independence,
        rows=tuple(
            MoERow(
                batch=batch,
                experts_decoding=float(touched(experts, float(batch), 0)),
                experts_verifying=float(touched(experts, float(batch), gamma, independence)),
                target_efficiency=float(efficiency[i]),
                speedup=float(fast[i]),
                fits=bool(room.fits[i]),
            )
            for i, batch in enumerate(batches)
        ),
        peak=MoEPeak(
            batch=best.batch,
            speedup=best.speedup,
            iteration_to_target=best.iteration_to_target,
            target_efficiency=best.efficiency,
            fits=at_peak.fits,
            max_batch=at_peak.max_batch,
            warnings=(*assumed(query, scenario), *at_peak.shortage(best.batch)),
        ),
        calibration=scenario.machine.calibration.name,
    )


def _independence(question: MoEQuery, scenario: Scenario, gamma: int) -> float:
    """As asked, else as the calibration has it."""
    if question.fewer_experts is not None:
        experts = experts_of(scenario)
        return independence_of(experts, value(question.fewer_experts_at), gamma, float(question.fewer_experts))
    asked = question.routing_independence
    return scenario.independence if asked is None else float(asked)


def experts_of(scenario: Scenario) -> Experts:
    """The target's routed experts. Raises InputError for a dense model."""
    if scenario.target_shard.experts is None:
        raise InputError(f"--model: {scenario.target.name} has no routed experts")
    return scenario.target_shard.experts


def touched(experts: Experts, batch: Floats, gamma: Floats, independence: float = 1.0) -> Floats:
    """Expected distinct experts that a verification of gamma + 1 tokens per sequence reads in one layer."""
    _check_independence(independence)
    return experts.touched(batch * (1.0 + independence * np.asarray(gamma)))


def independence_of(experts: Experts, batch: float, gamma: float, reduction: float) -> float:
    """The r at which verification touches `reduction` (a share) fewer experts than independent routing would.

    Raises InputError for a batch outside 1 ... `MAX_BATCH`, or a reduction that not even tokens routed all alike would
    reach.
    """
    if not 1 <= batch <= MAX_BATCH:
        raise refuse("--fewer-experts-at", None, "a whole number from 1 to 2^20", batch)
    free = float(touched(experts, batch, gamma))
    limit = 1.0 - float(touched(experts, batch, gamma, 0.0)) / free
    if not 0 <= reduction <= limit:
        raise refuse(
            "--fewer-experts", None, f"a share from 0 to {limit:.3f} (all tokens of a sequence alike)", reduction
        )
    low, high, target = 0.0, 1.0, free * (1.0 - reduction)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if touched(experts, batch, gamma, middle) < target else (low, middle)
    return (low + high) / 2


def target_efficiency(scenario: Scenario, batch: Floats, context: Floats, gamma: Floats) -> Floats:
    """T_T(B, 1) / T_T(B, gamma + 1): the speedup left if drafting were free and nothing but the bonus token counted."""
    return scenario.target_pass_s(batch, context) / scenario.target_pass_s(batch, context, np.asarray(gamma) + 1.0)


@dataclass(frozen=True, slots=True)
class Peak:
    """Where speculation pays most over a range of batches: the batch, the speedup there, and what an iteration costs.

    iteration_to_target is iteration / T_T there; efficiency the target efficiency. `speedups` are over all `batches`.
    """

    batch: int
    speedup: float
    iteration_to_target: float
    efficiency: float
    batches: NDArray[np.int64]
    speedups: Array


def peak(scenario: Scenario, context: float, gamma: int, batches: NDArray[np.int64]) -> Peak:
    """The batch of largest speedup at one gamma and context, the smaller one on a tie.

    Raises InputError for a batch below 1 or a gamma that the draft cannot make.
    """
    if batches.ndim != 1 or batches.size == 0 or batches.min() < 1:
        raise refuse("--batch", None, "whole numbers from 1", list(batches))
    check_draft_length(scenario.draft, gamma)
    fast = speedups(scenario, batches.astype(float), np.asarray(context, float), np.array([gamma]))[..., 0]
    at = int(np.argmax(fast))
    gained = scenario.tokens_per_iteration(gamma)[..., gamma]
    return Peak(
        batch=int(batches[at]),
        speedup=float(fast[at]),
        iteration_to_target=float(gained) / float(fast[at]),
        efficiency=float(target_efficiency(scenario, float(batches[at]), context, gamma)),
        batches=batches,
        speedups=fast,
    )


def with_independence(scenario: Scenario, independence: float) -> Scenario:
    """The same question with tokens of one sequence routed more alike."""
    _check_independence(independence)
    return replace(scenario, routing_independence=independence)


def _check_independence(independence: float) -> None:
    if not 0 <= independence <= 1:
        raise refuse("--routing-independence", None, "a number from 0 (all alike) to 1", independence)
