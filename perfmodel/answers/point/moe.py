"""What mixtures of experts do to speculation: verification touches more experts until all of them are read
anyway.

At small batches each verified token drags in experts of its own (target efficiency T_T(1)/T_T(gamma + 1)
falls); once the baseline touches all experts, extra tokens are free until the experts turn compute-bound:
speedup rises with the batch, peaks, and falls. Huang et al. 2025 (MoESD), arXiv 2505.19645. Tokens of one
sequence may route alike: `routing_independence` r counts the gamma + 1 tokens of a sequence as 1 + r gamma
independent ones.
"""

from dataclasses import dataclass, replace

import numpy as np

from perfmodel.answers.answer import Answer
from perfmodel.answers.point.break_even import turn
from perfmodel.answers.question import arguments as arg
from perfmodel.answers.question.arguments import COUNTS, argument, asks, question
from perfmodel.answers.question.doubts import doubts
from perfmodel.answers.question.query import Options, assumed, resolve
from perfmodel.answers.question.readers import MaybeReal, Whole, Wholes
from perfmodel.answers.text import devices, ratio_text
from perfmodel.costs import Experts
from perfmodel.errors import InputError, refuse
from perfmodel.operations import Floats
from perfmodel.speculation.capacity import memory_of
from perfmodel.speculation.chain import check_draft_length, speedups

MAX_BATCH = 2**20
MAX_ROWS = 1024


@question
class MoEQuery(Options):
    """A question over batch sizes at one context and draft length."""

    context: arg.Context
    gamma: arg.GivenGamma
    batch: Wholes = argument(
        "Batch sizes to look at.", COUNTS, "--batch-size -b", limits=(1, MAX_BATCH), default="1..512x2"
    )
    tp: arg.TP = argument(default=1)
    draft_kv: arg.DraftKV = None
    alpha: arg.Alpha = argument(default=None)
    routing_independence: MaybeReal = argument(
        "1: tokens of a sequence route independently; 0: all alike.", "SHARE", limits=arg.SHARE, default=None
    )
    fewer_experts: MaybeReal = argument(
        "Instead: by how much fewer distinct experts a verification was seen to touch.", "SHARE", default=None
    )
    fewer_experts_at: Whole = argument(
        "The batch size at which that was seen.", "N", limits=(1, MAX_BATCH), default=1
    )

    def check(self) -> None:
        super().check()
        if len(self.batch) > MAX_ROWS:
            raise refuse("--batch", None, f"at most {MAX_ROWS} values here", len(self.batch))
        if self.fewer_experts is not None and self.routing_independence is not None:
            raise InputError("--fewer-experts: stands for --routing-independence; give one of them")


@dataclass(frozen=True, slots=True)
class MoERow:
    """One batch size: expected distinct experts that a step and a verification read in one layer, and the
    speedup.
    """

    batch: int
    experts_decoding: float
    experts_verifying: float
    target_efficiency: float
    speedup: float
    fits: bool


@dataclass(frozen=True, slots=True)
class MoEPeak:
    """The batch with the largest speedup; iteration_to_target is an iteration's time over a
    baseline step's.
    """

    batch: int
    speedup: float
    iteration_to_target: float
    target_efficiency: float
    fits: bool
    max_batch: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class ExpertSpeculation(Answer):
    """Experts that a verification reads, by batch size, and the peak of the speedup."""

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
        where = f"{self.model} on {devices(self.hardware, self.tp)}, gamma {self.gamma}"
        return f"most at batch {self.peak.batch}: {ratio_text(self.peak.speedup)}; {where}"


@asks(MoEQuery)
def moe(question: MoEQuery) -> ExpertSpeculation:
    """Experts that a verification touches, target efficiency, and the batch where speculation peaks.

    Target efficiency is T_T(1)/T_T(gamma + 1). At small batches each drafted token drags in experts of its
    own; once all are read anyway, drafting is cheap again. Raises InputError.
    """
    batches = sorted(set(question.batch))
    query = question.query(batch=batches[0])
    gamma, context, fraction = question.gamma, float(query.context), query.memory_fraction
    scenario = resolve(query)
    experts = scenario.target_shard.experts
    if experts is None:
        raise InputError(f"--model: {scenario.target.name} has no routed experts")
    check_draft_length(scenario.draft, gamma)
    independence = _independence(question, experts, gamma, scenario.independence)
    scenario = replace(scenario, routing_independence=independence)
    every = np.arange(1.0, batches[-1] + 1)
    fast = speedups(scenario, every, np.asarray(context), np.array([gamma]))[..., 0]
    baseline_s = scenario.target_pass_s(every, context)
    efficiency = np.broadcast_to(
        baseline_s / scenario.target_pass_s(every, context, gamma + 1.0), every.shape
    )
    most = int(np.argmax(fast))
    room = memory_of(scenario, np.array(batches), context, gamma, fraction)
    at_peak = memory_of(scenario, most + 1, context, gamma, fraction).single()
    return ExpertSpeculation(
        model=scenario.target.name,
        hardware=scenario.machine.gpu.name,
        tp=query.tp,
        draft=scenario.draft.name,
        context=query.context,
        gamma=gamma,
        experts=experts.num_experts,
        experts_per_token=experts.experts_per_token,
        routing_independence=independence,
        rows=tuple(
            MoERow(
                batch=batch,
                experts_decoding=float(touched(experts, float(batch), 0)),
                experts_verifying=float(touched(experts, float(batch), gamma, independence)),
                target_efficiency=float(efficiency[batch - 1]),
                speedup=float(fast[batch - 1]),
                fits=bool(room.fits[i]),
            )
            for i, batch in enumerate(batches)
        ),
        peak=MoEPeak(
            batch=most + 1,
            speedup=float(fast[most]),
            iteration_to_target=float(scenario.acceptance.tokens_per_iteration(gamma) / fast[most]),
            target_efficiency=float(efficiency[most]),
            fits=at_peak.fits,
            max_batch=at_peak.max_batch,
            warnings=(
                *assumed(query, scenario),
                *doubts(query, scenario, most + 1.0, context, gamma, at_peak),
            ),
        ),
        calibration=scenario.machine.calibration.name,
    )


def _independence(question: MoEQuery, experts: Experts, gamma: int, calibrated: float) -> float:
    """As given, else as calibrated."""
    if question.fewer_experts is not None:
        return independence_of(experts, question.fewer_experts_at, gamma, question.fewer_experts)
    asked = question.routing_independence
    return calibrated if asked is None else float(asked)


def touched(experts: Experts, batch: Floats, gamma: Floats, independence: float = 1.0) -> Floats:
    """Expected distinct experts that a verification of gamma + 1 tokens per sequence reads in one layer."""
    return experts.touched(batch * (1.0 + independence * np.asarray(gamma)))


def independence_of(experts: Experts, batch: float, gamma: float, reduction: float) -> float:
    """The r at which verification touches `reduction` (a share) fewer experts than independent routing would.

    Raises InputError for a reduction that not even tokens routed all alike would reach.
    """
    free = float(touched(experts, batch, gamma))
    limit = 1.0 - float(touched(experts, batch, gamma, 0.0)) / free
    if not 0 <= reduction <= limit:
        allowed = f"a share from 0 to {limit:.3f} (all tokens of a sequence alike)"
        raise refuse("--fewer-experts", None, allowed, reduction)
    return turn(lambda r: bool(touched(experts, batch, gamma, r) < free * (1.0 - reduction)), 0.0, 1.0)[1]
