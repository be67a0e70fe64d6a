"""Predicts a server under a load: latency, throughput and the number of replicas, with and without a draft
(docs/traffic.md).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perfmodel.answers.answer import Answer
from perfmodel.answers.declaration import asks
from perfmodel.answers.load.completed import completed
from perfmodel.answers.load.draft_limits import DraftLimits, draft_limits
from perfmodel.answers.load.fewer_seats import of_default, of_seats
from perfmodel.answers.load.load_verdict import TrafficVerdict, verdict_of
from perfmodel.answers.load.mixed_classes import ClassRow
from perfmodel.answers.load.offload import Offload, offload_of
from perfmodel.answers.load.pools import pools_of
from perfmodel.answers.load.pools_answer import Pools
from perfmodel.answers.load.pools_as_one import one_server, tier_of_prefill
from perfmodel.answers.load.prefix_verdict import PrefixVerdict, prefix_verdicts, prefix_warnings
from perfmodel.answers.load.rollout import AgedServer, RolloutRow, rollouts
from perfmodel.answers.load.rows_by_load import Priced, choices_of, replica_of
from perfmodel.answers.load.tpot_errors import log_errors
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import MadeBy, TrafficRow, flat
from perfmodel.answers.point.calibrated import Calibrated
from perfmodel.answers.question import Query, doubts
from perfmodel.answers.question.placement import cuts_heads
from perfmodel.answers.text import Note, devices
from perfmodel.errors import library
from perfmodel.queueing.acceptance_spread import possible_spread
from perfmodel.queueing.policies import Choice, Replica, in_words
from perfmodel.specs import Constant, engine_of
from perfmodel.specs.engines.stacks import untimed_prompts
from perfmodel.specs.models.variants import asked_name
from perfmodel.speculation import Acceptance, KVCapacity, kv_cache_of

if TYPE_CHECKING:
    from pandas import DataFrame

SHORTER = "TTFT and TPOT may be shorter at a higher load"
OVER_HOST = (
    "long prompts wait for messages through host memory; NCCL_SHM_USE_CUDA_MEMCPY=1 was several times as "
    "fast there (sgl-project/sglang#39605)"
)
"""The warning about prompts on devices that cannot access each other's memory."""


@dataclass(frozen=True, repr=False)
class Traffic(Answer):
    """The answer of `traffic`: one row for each load and draft length, and the conclusions from these rows.

    - rows: at each load, the baseline comes first.
    - verdict: the verdict of all loads together. The word is ``unknown_acceptance`` if no acceptance of the
      draft is known. The answer then only has the baseline.
    - verdicts: the recommendation at each load.
    - drafts: the limits of each draft length.
    - prefix: with a prefix cache, the hits that are lost because of the draft, at each load.
    - replay: the rows from replays, if the question asks for replays. These rows are also in `rows`.
    - shape: the bundled model whose shape the model has, or the name in the model's file.
    - tp, pp: the devices of a pipeline stage, and the number of stages.
    - kv_cache: the size of the KV cache of one server with the longest draft, as the server logs it when it
      starts.
    - pools: the answer about separate prefill and decode pools. With pools, the rows are about servers on the
      same devices that do both prefill and decoding, in the layout of the decode pool.
    - offload: the comparison for KV caches on another tier.
    """

    rows: tuple[TrafficRow, ...]
    verdict: str
    verdicts: tuple[TrafficVerdict, ...]
    drafts: tuple[DraftLimits, ...]
    prefix: tuple[PrefixVerdict, ...] | None
    replay: tuple[TrafficRow, ...] | None
    classes: tuple[ClassRow, ...] | None
    rollout: tuple[RolloutRow, ...] | None
    model: str
    shape: str
    hardware: str
    tp: int
    pp: int
    draft: str
    draft_kv: str
    acceptance_source: str
    acceptance_std: float
    acceptance_std_source: str
    calibration: Calibrated
    kv_cache: KVCapacity
    warnings: tuple[str, ...]
    pools: Pools | None = None
    offload: Offload | None = None

    def headline(self) -> str:
        if self.pools is not None:
            return self.pools.sentence
        return f"{self.verdicts[-1].reason}; {self.model} on {devices(self.hardware, self.tp * self.pp)}"

    def to_frame(self) -> "DataFrame":
        """A DataFrame with one row per load and draft length. Each statistic of a time has its own column,
        such as ``tpot_s_p99``.
        """
        return library("pandas").DataFrame([flat(row) for row in self.rows])


@asks(TrafficQuery)
def traffic(question: TrafficQuery) -> Traffic:
    """Should this server speculate at this request rate (or concurrency), with which draft length, and on how
    many replicas?

    Each row is about one server that gets the whole load. With separate prefill and decode pools, each row is
    about all devices together. A row states whether the server is saturated, and the number of replicas that
    the load needs. Raises InputError for wrong input.
    """
    if question.decode is None:
        return _of_servers(question)
    question = completed(question)[0].planned
    pools = pools_of(question)
    offload = tier_of_prefill(question, max(pools.ratio)) if question.kv_offload else None
    return replace(_of_servers(one_server(question)), pools=pools, offload=offload)


def _of_servers(question: TrafficQuery) -> Traffic:
    """The answer about servers that do both prefill and decoding."""
    draft = question.draft
    priced = Priced.of(question)
    question = priced.question
    scenario = priced.scenario
    known = priced.known
    replica = priced.replica
    choices = priced.choices
    log_off = log_errors(question, scenario, list({c.steps.gamma: c.steps for c in choices}.values()))
    by_load, classes = priced.rows(log_off)
    verdicts = tuple(verdict_of(question, priced.advisable(rows), known) for rows in by_load)
    rows = tuple(row for rows in by_load for row in rows)
    longest = scenario.target.max_position_embeddings
    rolled_out = None
    if question.rollout is not None:
        rolled_out = rollouts(question, _aged_servers(question, replica, choices), longest)
    replayed = None
    if question.replays:
        replayed = tuple(row for row in rows if row.made_by is MadeBy.REPLAY)
    prefix = None
    if known and question.reuse is not None:
        prefix = prefix_verdicts(question, replica, choices, by_load)
    longest_draft = _longest_advised(verdicts) or max(replica.passes)
    warnings = (
        *_warnings(priced, replace(priced.query, draft=draft), longest_draft),
        *of_seats(replica.passes[0], question.lengths, question.most_at_once),
        *of_default(question.limits, longest_draft > 0, question.most_at_once),
        *_may_be_shorter(question, choices),
    )
    limits = [draft_limits(replica, choice) for choice in choices[1:]]
    cache = kv_cache_of(scenario, longest_draft, question.memory_fraction)
    offload = None
    if question.kv_offload:
        offload = offload_of(question, scenario, longest_draft)
    return Traffic(
        rows=rows,
        verdict=_word(verdicts, known),
        verdicts=verdicts,
        drafts=tuple(limits),
        prefix=prefix,
        replay=replayed,
        classes=tuple(classes) if question.mix is not None else None,
        rollout=rolled_out,
        model=asked_name(question.model, scenario.target),
        shape=scenario.target.name,
        hardware=scenario.machine.gpu.label,
        tp=question.tp,
        pp=question.pp,
        draft=scenario.draft.name,
        draft_kv=scenario.draft.kv.label(),
        acceptance_source=scenario.acceptance_source if known else "unknown",
        acceptance_std=question.spread,
        acceptance_std_source=priced.spread_source,
        calibration=Calibrated.of(scenario),
        kv_cache=cache,
        warnings=warnings,
        offload=offload,
    )


def _word(verdicts: Sequence[TrafficVerdict], known: bool) -> str:
    """The verdict of all loads together.

    - known: whether the draft's acceptance is known.
    """
    if not known:
        return "unknown_acceptance"
    return "speculate" if any(verdict.gamma for verdict in verdicts) else "do_not_speculate"


def _longest_advised(verdicts: Sequence[TrafficVerdict]) -> int:
    """The longest single draft length that is recommended at a load; 0 if none is recommended."""
    return max((v.gamma for v in verdicts if isinstance(v.gamma, int)), default=0)


def _aged_servers(
    question: TrafficQuery, replica: Replica, choices: Sequence[Choice]
) -> Iterator[AgedServer]:
    """The server with the acceptance of the question or, if the question states ages, one server for each
    age.
    """
    if question.alpha_by_age is None:
        yield AgedServer(None, None, replica, choices)
    for age, alpha in question.alpha_by_age or ():
        aged = replica_of(question, replace(replica.scenario, acceptance=Acceptance.from_alpha(alpha)), True)
        yield AgedServer(age, alpha, aged, choices_of(question, aged))


def _warnings(priced: Priced, query: Query, gamma: int) -> tuple[str, ...]:
    """The warnings about the question at its mean context.

    - query: the question in the form of `whatif`, with the draft that the user stated.
    - gamma: the longest draft; 0 without a draft.
    """
    question = priced.question
    scenario = priced.scenario
    notes = doubts(query, scenario, 1.0, priced.mean_context, gamma)
    engine = engine_of(scenario.machine.calibration)
    if known := untimed_prompts(engine):
        notes += (f"TTFT is a rough guide without an interval: {known}",)
    machine = scenario.machine
    if machine.over_host and not machine.gpu.peer_access and cuts_heads(engine):
        pairs = f"{machine.tensor_parallel} x {machine.gpu.name}"
        notes += (Note(f"{pairs}: {OVER_HOST}"), *_one_reading(machine.calibration.shared_allreduce_byte_s))
    if not gamma:
        return notes
    if question.reuse:
        notes += prefix_warnings(scenario)
    alpha = scenario.known_acceptance.effective_alpha(gamma)
    spread = question.acceptance_std
    possible = possible_spread(alpha, spread) if spread and 0 < alpha < 1 else spread
    if possible and spread and not math.isclose(possible, spread):
        around = f"requests cannot differ by {spread:g} around an acceptance of {alpha:.3g}"
        notes += (f"{around}: {possible:.2g} is used",)
    return notes


def _one_reading(per_byte_s: Constant) -> Iterator[str]:
    """A warning that the time per byte of these messages comes from a single measurement on another
    device; none if that time is unknown.
    """
    if per_byte_s.value:
        rate = f"{1e-9 / per_byte_s.value:.1f} GB/s"
        yield (
            f"messages through host memory are assumed to run at {rate}, from one measurement "
            f"({per_byte_s.source}); if they are faster, TTFT is shorter and fewer devices serve a load"
        )


def _may_be_shorter(question: TrafficQuery, choices: Sequence[Choice]) -> Iterator[Note]:
    """Notes about rows whose times may be shorter at a higher load."""
    if question.rollout is not None:
        return
    if not question.draws:
        whose = "a trace" if question.mix is None else "a mix"
        yield Note(f"requests of {whose} are replayed at each load: {SHORTER} by chance")
    policies = [choice.gamma for choice in choices if isinstance(choice.gamma, str)]
    for policy in policies:
        yield Note(f"with {in_words(policy)} draft lengths change with the load: {SHORTER}")
