"""A question without its workload: models, devices, draft and acceptance, and the times of its passes.

All times broadcast over ``[batch, context]``; some functions add a trailing axis of gammas and say so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from perfmodel import costs
from perfmodel.costs.formulas import Formula, Runs
from perfmodel.costs.graphs import graph_sizes
from perfmodel.costs.operation import Op, over
from perfmodel.costs.pass_time import PassTime
from perfmodel.costs.roofline import Machine
from perfmodel.drafts.base import Draft
from perfmodel.kv.full import Full
from perfmodel.operations import Array, Floats, Ints
from perfmodel.specs import ModelSpec, Precision, engine_of, serving_engines
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.accounts import Account
from perfmodel.speculation.programs import PassFormulas

Rollback = Literal["keep", "replay"]
NONE_NEEDED = "none needed at gamma 0"
"""The source of the acceptance in answers about the baseline."""


def work(ops: Sequence[Op]) -> tuple[Floats, Floats]:
    """Bytes and FLOPs of a pass."""
    return over(ops, attrgetter("cost.bytes")), over(ops, attrgetter("cost.flops"))


SHARDS = ("target_shard", "draft_shard", "summed_target", "summed_draft")
"""Properties of a scenario that are costly to make."""


@dataclass(frozen=True)
class Scenario:
    """Everything about a question except its workload.

    machine: device, calibration and the target's tensor-parallel degree. Every sequence of a batch advances
    by its own count. kv_page: tokens per page of both caches. core_ops: count only linear and attention ops.
    topk_reuse: share of an indexer's tokens that it chooses again for the next query token, so a verification
    reads them once. state_rollback: whether a verification over recurrent layers keeps the state after every
    token, or replays the accepted tokens from the previous state. context_std: standard deviation of the
    context over the sequences of a batch, in tokens. expert_parallel: groups of the target's devices, each
    with whole experts. data_parallel: groups that each have all of attention, for their own sequences.
    layout: nodes, pipeline stages and expert placement beyond one box; a draft has no stages
    and no redundant experts.
    power_limit_w: power limit of each device; None is that of its measurements.
    account: the engine's division of
    a device's memory. acceptance: None where the answer does not depend on it.
    """

    target: ModelSpec
    machine: Machine
    precision: Precision
    draft: Draft
    acceptance: Acceptance | None = None
    kv_page: int = 1
    topk_reuse: float = 0.0
    state_rollback: Rollback = "keep"
    core_ops: bool = False
    context_std: Floats = 0.0
    expert_parallel: int = 1
    data_parallel: int = 1
    layout: costs.RackLayout = costs.ONE_BOX
    power_limit_w: float | None = None
    account: Account = field(default_factory=Account)

    @cached_property
    def target_shard(self) -> costs.Shard:
        """The share of the target on one of its devices."""
        return self._shard(self.target, self.machine.tensor_parallel, self.precision, self.layout)

    @cached_property
    def draft_shard(self) -> costs.Shard:
        """The share of the draft's model on one of its devices."""
        draft = self.draft
        layout = self.layout.replace(redundant_experts=0, stages=1, micro_batches=1)
        return self._shard(draft.model, draft.tensor_parallel, draft.precision, layout)

    @cached_property
    def summed_target(self) -> costs.Shard:
        """`target_shard` with fewer ops of the same total time."""
        return self.target_shard if self.core_ops else self.target_shard.summed()

    @cached_property
    def summed_draft(self) -> costs.Shard:
        """`draft_shard` with fewer ops of the same total time."""
        return self.draft_shard if self.core_ops else self.draft_shard.summed()

    @cached_property
    def known(self) -> dict[Any, Any]:
        """Values that were computed once for every acceptance (`once`)."""
        return {}

    @cached_property
    def formulas(self) -> PassFormulas:
        """The seconds of passes without a power limit, by their numbers."""
        return _formulas_of(self)

    @cached_property
    def draft_machine(self) -> Machine:
        """The devices of the draft. It runs on no host, and its messages overlap with nothing."""
        fabric = self.machine.fabric
        return replace(
            self.machine,
            tensor_parallel=self.draft.tensor_parallel,
            kv_reread=None,
            drafts=True,
            host_experts=0.0,
            host_layers=0.0,
            fabric=None if fabric is None else replace(fabric, overlap=0.0),
        )

    def _shard(
        self, model: ModelSpec, degree: int, precision: Precision, layout: costs.RackLayout
    ) -> costs.Shard:
        """The share of a model on one of `degree` devices. A draft on all devices is grouped as the target
        is.
        """
        calibration = self.machine.calibration
        alike = degree == self.machine.tensor_parallel
        return costs.shard(
            model,
            degree,
            precision,
            calibration.shards_lm_head,
            self.kv_page,
            popularity=calibration.expert_popularity.value,
            graph_sizes=graph_sizes(*calibration.graph_tokens) if calibration.graph_tokens else (),
            groups=self.data_parallel if alike else 1,
            expert_groups=self.expert_parallel if alike and model.moe else 1,
            layout=layout,
        )

    def target_ops(
        self, batch: Floats, context: Floats, query: Floats = 1.0, shard: costs.Shard | None = None
    ) -> list[Op]:
        """Ops of a target pass: decoding at query 1, verification at gamma + 1. shard: another share of the
        model.
        """
        independence = self.machine.calibration.routing_independence.value
        ops = costs.forward(
            shard or self.target_shard,
            batch,
            query,
            context,
            Full(),
            independent_query=1.0 + (query - 1.0) * independence,
            kept_states=self.kept_states(query),
            topk_reuse=self.topk_reuse,
            longer_tokens=self.longer_tokens(batch),
            varying=self.draft.varying_lengths,
        )
        return costs.core(ops) if self.core_ops else ops

    @property
    def weight_bytes(self) -> float:
        """Weight bytes of the target on one device, without experts and layers in host memory."""
        shard = self.target_shard
        machine = self.machine
        kept = shard.stored_weight_bytes - machine.host_experts * shard.expert_bytes
        return kept * (1.0 - machine.host_layers)

    def longest(self, most: int) -> int:
        """The longest draft up to `most` that the draft kind allows and that has a known acceptance."""
        known_to = None if self.acceptance is None else self.acceptance.max_gamma
        ends = (most, known_to, self.draft.max_gamma)
        return min(end for end in ends if end is not None)

    @property
    def acceptance_source(self) -> str:
        """Where the acceptance comes from, or that the baseline needs none."""
        return NONE_NEEDED if self.acceptance is None else self.acceptance.source

    @property
    def known_acceptance(self) -> Acceptance:
        """The acceptance, for answers that depend on it. Raises ValueError if the scenario has none."""
        if self.acceptance is None:
            raise ValueError("the scenario has no acceptance")
        return self.acceptance

    def tokens_per_iteration(self, gammas: ArrayLike) -> Array:
        """Expected tokens of a sequence per iteration; without an acceptance, the one token of a step."""
        if self.acceptance is None:
            return np.ones(np.shape(gammas))
        return self.acceptance.tokens_per_iteration(gammas)

    def with_acceptance(self, acceptance: Acceptance | None) -> "Scenario":
        """The same question with another acceptance, on the same shards and with the same formulas."""
        changed = self.on_same_shards(acceptance=acceptance)
        vars(changed).update(formulas=self.formulas, known=self.known)
        return changed

    def with_context_std(self, deviation: Floats) -> "Scenario":
        """The same question with contexts that differ by this standard deviation, on the same shards."""
        return self.on_same_shards(context_std=deviation)

    def on_same_shards(self, **changes: Any) -> "Scenario":
        """A copy with other values of fields that change no shard. The shards are not made again."""
        changed = replace(self, **changes)
        made = vars(changed)
        for name in SHARDS:
            made[name] = getattr(self, name)
        return changed

    def longer_tokens(self, batch: Floats) -> Floats:
        """Expected tokens by which a batch's longest context exceeds the mean, for uniform contexts."""
        if isinstance(self.context_std, float | int) and not self.context_std:
            return 0.0
        return np.sqrt(3.0) * self.context_std * (batch - 1.0) / (batch + 1.0)

    def kept_states(self, query: Floats) -> Floats:
        """Recurrent states per sequence after a pass over `query` tokens."""
        return query if self.state_rollback == "keep" else 1.0

    def draft_ops(
        self, batch: Floats, context: Floats, query: Floats = 1.0, shard: costs.Shard | None = None
    ) -> list[Op]:
        """Ops of one draft pass with selection; query: tokens per sequence (a tree's level, a parallel
        draft).
        """
        if self.layout.stages > 1:  # the last stage drafts for one part of the batch at a time
            batch = batch / self.layout.stages
        ops = self.draft.ops(shard or self.draft_shard, batch, context, query)
        ops = costs.core(ops) if self.core_ops else ops
        return ops + costs.selection(self.draft_shard, batch, context, self.draft.kv)

    def target_step(self, batch: Floats, context: Floats, query: Floats = 1.0) -> PassTime[Floats]:
        """All times of a target pass."""
        return self.machine.time(self.target_ops(batch, context, query), batch * query)

    def draft_step(self, batch: Floats, context: Floats, query: Floats = 1.0) -> PassTime[Floats]:
        """All times of one draft pass."""
        return self.draft_machine.time(self.draft_ops(batch, context, query), batch * query)

    def target_step_at(self, batch: float, context: float, query: float) -> PassTime[float]:
        """All times of a target pass at one point."""
        return PassTime.of_figures(self.formulas.target_step.numbers(batch, context, query))

    def draft_step_at(self, batch: float, context: float, query: float) -> PassTime[float]:
        """All times of one draft pass at one point."""
        return PassTime.of_figures(self.formulas.draft_step.numbers(batch, context, query))

    def target_pass_s(self, batch: Floats, context: Floats, query: Floats = 1.0) -> Floats:
        """Calibrated time of a target pass."""
        seconds = self.formulas.target.at(batch, context, query, self.context_std)
        if self.power_limit_w is None:
            return seconds
        ops = self.target_ops(batch, context, query, self.summed_target)
        return self.machine.gpu.limited(self.power_limit_w, seconds, *work(ops))[0]

    def draft_pass_s(self, batch: Floats, context: Floats, query: Floats = 1.0) -> Floats:
        """Calibrated time of one draft pass, selection included."""
        return self.formulas.draft.at(batch, context, query)

    def draft_token_s(self, batch: Floats, context: Floats, gammas: Ints) -> Array:
        """Calibrated draft time per drafted token. All three arguments broadcast.

        The result has no gamma axis if a token takes one pass at every gamma, or none.
        """
        query, share = self.drafting(gammas)
        return np.asarray(0.0 if share is None else self.draft_pass_s(batch, context, query) * share)

    def drafting(self, gammas: Ints) -> tuple[Floats, Floats | None]:
        """Query tokens of a draft pass, and the share of a pass per drafted token (None: no pass)."""
        drafted = np.asarray(gammas, float)
        tokens = np.maximum(drafted, 1.0)
        passes = self.draft.passes(drafted)
        query = self.draft.query(tokens)
        if passes is drafted and not isinstance(query, np.ndarray) and query == 1.0:
            return 1.0, 1.0
        if np.any(passes):
            return (query, passes / tokens)
        return (1.0, None)

    def overhead_s(self, batch: Floats, context: Floats) -> Floats:
        """Time of an iteration outside its passes, including the once-per-iteration work of KV method and
        draft.
        """
        return self.formulas.overhead.at(batch, context)

    def outside_passes_s(self, batch: Floats, context: Floats) -> Floats:
        """The formula of `overhead_s`."""
        rebuild = costs.selection(self.draft_shard, batch, context, self.draft.kv, "iteration")
        once = [*rebuild, *self.draft.iteration_ops(self.draft_shard, batch)]
        c = self.machine.calibration
        end = self.end_s(batch)
        own_cache = not (self.draft.views_target_cache or self.draft.model.shared_kv_layers)
        engine = serving_engines().get(engine_of(c) or "")
        reads_verified = engine is not None and engine.drafts_read_verified
        if reads_verified and own_cache and not self.draft.in_one_pass:
            end = end + self.draft_machine.predicted_s(self._reading_verified(batch, context), batch)
        return sum((self.draft_machine.op_predicted_s(op) for op in once), start=end)

    def end_s(self, batch: Floats) -> Floats:
        """Time to accept verified tokens, per iteration or per inner round of two levels."""
        c = self.machine.calibration
        end: Floats = c.iteration_fixed_s.value
        if c.iteration_sequence_s.value:
            end = end + c.iteration_sequence_s.value * batch / self.machine.schedulers
        return end

    def _reading_verified(self, batch: Floats, context: Floats) -> list[Op]:
        """Ops of a draft pass over the verified tokens, counted as one token. A head on the target's features
        has no output there.
        """
        ops = self.draft_ops(batch, context)
        if self.draft.starts_from_features:
            return [op for op in ops if op.name != "lm_head"]
        return ops

    def setup_s(self, batch: Floats, context: Floats) -> Floats:
        """Additional time before the first token with speculation: prefill of the draft, scoring and
        gathering.
        """
        return self.formulas.setup.at(batch, context)

    def before_first_token_s(self, batch: Floats, context: Floats) -> Floats:
        """The formula of `setup_s`."""
        once = costs.selection(self.draft_shard, batch, context, self.draft.kv, "setup")
        seconds = sum((self.draft_machine.op_predicted_s(op) for op in once), start=0.0)
        if self.draft.shares_prefill:
            return seconds
        attends = self.draft.kv if self.draft.kv.needs_own_prefill else Full()
        engine = serving_engines().get(self.machine.calibration.stack)
        if engine is None or not engine.heads_of_prompts or not self.draft.starts_from_features:
            prefill = costs.forward(self.draft_shard, batch, context, 0.0, attends, head_query=1.0)
            return seconds + self.draft_machine.predicted_s(prefill, batch)
        prefill = costs.forward(self.draft_shard, batch, context, 0.0, attends)
        whole = costs.forward(self.target_shard, batch, context, 0.0, Full())
        head_s = sum(self.machine.op_predicted_s(op) for op in whole if op.name == "lm_head")
        return seconds + head_s + self.draft_machine.predicted_s(prefill, batch)


def _formulas_of(scenario: Scenario) -> PassFormulas:
    """The formulas of a scenario's passes, which run on `summed` ops. A program cannot stack its ops."""

    def target(
        batch: Floats, context: Floats, query: Floats, deviation: Floats, shard: costs.Shard
    ) -> Floats:
        spread = scenario
        if deviation is not scenario.context_std:
            spread = scenario.with_context_std(deviation)
        return scenario.machine.predicted_s(spread.target_ops(batch, context, query, shard), batch * query)

    def draft(batch: Floats, context: Floats, query: Floats, shard: costs.Shard) -> Floats:
        ops = scenario.draft_ops(batch, context, query, shard)
        return scenario.draft_machine.predicted_s(ops, batch * query)

    def surplus(batch: Floats, context: Floats, query: Floats, shard: costs.Shard) -> Floats:
        load_s, compute_s = scenario.machine.load_and_compute_s(
            scenario.target_ops(batch, context, query, shard)
        )
        return compute_s - load_s

    def target_step(batch: Floats, context: Floats, query: Floats, shard: costs.Shard) -> tuple[Floats, ...]:
        ops = scenario.target_ops(batch, context, query, shard)
        return scenario.machine.time(ops, batch * query).figures

    def draft_step(batch: Floats, context: Floats, query: Floats, shard: costs.Shard) -> tuple[Floats, ...]:
        ops = scenario.draft_ops(batch, context, query, shard)
        return scenario.draft_machine.time(ops, batch * query).figures

    def of(formula: Callable[..., Any], summed: costs.Shard, *names: str) -> Formula:
        apart = replace(summed, itemised=True)
        return Formula(
            lambda *numbers: formula(*numbers, summed),
            *names,
            runs=runs,
            recorded=lambda *numbers: formula(*numbers, apart),
        )

    runs = Runs()
    whole = scenario.summed_target
    drafting = scenario.summed_draft
    point = ("batch", "context", "query")
    return PassFormulas(
        target=of(target, whole, *point, "deviation"),
        draft=of(draft, drafting, *point),
        overhead=Formula(scenario.outside_passes_s, "batch", "context", runs=runs),
        surplus=of(surplus, whole, *point),
        target_step=of(target_step, whole, *point),
        draft_step=of(draft_step, drafting, *point),
        setup=Formula(scenario.before_first_token_s, "batch", "context", runs=runs),
    )
