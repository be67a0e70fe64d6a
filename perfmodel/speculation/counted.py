"""A question without its workload: models, devices, draft and acceptance. This module counts the operations
of its passes.

The counts broadcast over ``[batch, context]``.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from perfmodel import costs
from perfmodel.costs.graphs import graph_sizes
from perfmodel.costs.operation import Op
from perfmodel.costs.roofline import Machine
from perfmodel.drafts.base import Draft
from perfmodel.kv.full import Full
from perfmodel.operations import Array, Floats, Ints
from perfmodel.specs import ModelSpec, Precision, serving_engines
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.accounts import Account
from perfmodel.uniform import half_width

Rollback = Literal["keep", "replay"]
NONE_NEEDED = "none needed at gamma 0"
"""The source of the acceptance in answers about the baseline."""
SHARDS = ("target_shard", "draft_shard", "summed_target", "summed_draft")
"""Properties of a scenario that take long to compute."""


class DraftPasses(NamedTuple):
    """The passes of a draft.

    - query: number of tokens per sequence in one pass.
    - share: number of passes per drafted token. It is None if the draft runs no passes.
    """

    query: Floats
    share: Floats | None


@dataclass(frozen=True)
class CountedScenario:
    """All parts of a question except its workload (batch, context and gamma).

    - machine: the device, its calibration, and the tensor-parallel degree of the target.
    - kv_page: number of tokens per page of the target's and the draft's cache.
    - core_ops: whether only linear and attention operations are counted.
    - topk_reuse: share of an indexer's tokens that it chooses again for the next query token. A verification
      reads these tokens only once.
    - state_rollback: how recurrent layers handle refused tokens. ``keep``: a verification stores the state
      after every token. ``replay``: the accepted tokens are computed again from the previous state.
    - context_std: standard deviation of the context between the sequences of a batch, in tokens.
    - expert_parallel: number of expert-parallel groups of the target's devices. Each group has whole experts.
    - data_parallel: number of data-parallel groups. Each group computes the whole attention of its own
      sequences.
    - layout: nodes, pipeline stages and expert placement beyond one node. A draft has no stages and no
      redundant experts.
    - power_limit_w: power limit of each device in watts. None means the limit at which the device was
      measured.
    - account: the memory account of the engine.
    - acceptance: acceptance of the draft. It is None if the answer does not depend on it.
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
        """`target_shard` with similar operations combined. The summed share has fewer operations with the
        same total time.
        """
        return self.target_shard if self.core_ops else self.target_shard.summed()

    @cached_property
    def summed_draft(self) -> costs.Shard:
        """`draft_shard` with similar operations combined. The summed share has fewer operations with the same
        total time.
        """
        return self.draft_shard if self.core_ops else self.draft_shard.summed()

    @cached_property
    def draft_machine(self) -> Machine:
        """The devices of the draft. No part of the draft runs on the host, and its messages do not overlap
        with other work.
        """
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
        """The share of a model on one of `degree` devices. A draft on all devices has the same groups as the
        target.
        """
        calibration = self.machine.calibration
        engine = serving_engines().get(calibration.stack)
        alike = degree == self.machine.tensor_parallel
        groups = self.data_parallel if alike else 1
        degrees = costs.Degrees(
            degree,
            groups=groups,
            expert_groups=self.expert_parallel if alike and model.moe else 1,
            exchanges=layout.exchanges and groups > 1 and model.moe is not None,
        )
        return costs.shard(
            model,
            degrees,
            precision,
            calibration.shards_lm_head,
            self.kv_page,
            popularity=calibration.expert_popularity.value,
            graph_sizes=graph_sizes(*calibration.graph_tokens) if calibration.graph_tokens else (),
            layout=layout,
            gathers_logits=engine is not None and engine.gathers_logits,
        )

    def target_ops(
        self, batch: Floats, context: Floats, query: Floats = 1.0, shard: costs.Shard | None = None
    ) -> list[Op]:
        """The operations of one target pass.

        - query: number of tokens per sequence. It is 1 for decoding and gamma + 1 for verification.
        - shard: the share of the target to use instead of `target_shard`.
        """
        independence = self.machine.calibration.routing_independence.value
        shape = costs.PassShape(
            batch,
            query,
            context,
            independent_query=1.0 + (query - 1.0) * independence,
            kept_states=self.kept_states(query),
            topk_reuse=self.topk_reuse,
            longer_tokens=self.longer_tokens(batch),
            varying=self.draft.varying_lengths,
        )
        ops = costs.forward(shard or self.target_shard, shape, Full())
        return costs.core(ops) if self.core_ops else ops

    def draft_ops(
        self, batch: Floats, context: Floats, query: Floats = 1.0, shard: costs.Shard | None = None
    ) -> list[Op]:
        """The operations of one draft pass, including the selection of cached tokens.

        - query: number of tokens per sequence. It is above 1 for a level of a tree and for a parallel draft.
        """
        if self.layout.stages > 1:  # the last stage drafts for one part of the batch at a time
            batch = batch / self.layout.stages
        ops = self.draft.ops(shard or self.draft_shard, batch, context, query)
        ops = costs.core(ops) if self.core_ops else ops
        return ops + costs.selection(self.draft_shard, batch, context, self.draft.kv)

    def longer_tokens(self, batch: Floats) -> Floats:
        """Expected difference in tokens between the longest context of a batch and the mean context, if
        contexts are uniformly distributed.
        """
        if isinstance(self.context_std, float | int) and not self.context_std:
            return 0.0
        return half_width(self.context_std) * (batch - 1.0) / (batch + 1.0)

    def kept_states(self, query: Floats) -> Floats:
        """Number of recurrent states per sequence that are stored after a pass over `query` tokens."""
        return query if self.state_rollback == "keep" else 1.0

    @property
    def weight_bytes(self) -> float:
        """Bytes of the target's weights on one device, without experts and layers in host memory."""
        shard = self.target_shard
        machine = self.machine
        kept = shard.stored_weight_bytes - machine.host_experts * shard.expert_bytes
        return kept * (1.0 - machine.host_layers)

    def longest(self, most: int) -> int:
        """The longest draft length up to `most` that the draft kind allows and whose acceptance is known."""
        known_to = None if self.acceptance is None else self.acceptance.max_gamma
        ends = (most, known_to, self.draft.max_gamma)
        return min(end for end in ends if end is not None)

    @property
    def acceptance_source(self) -> str:
        """The source of the acceptance as text. For a baseline, the text says that none is needed."""
        return NONE_NEEDED if self.acceptance is None else self.acceptance.source

    @property
    def known_acceptance(self) -> Acceptance:
        """The acceptance, for answers that depend on it. Raises ValueError if the scenario has no
        acceptance.
        """
        if self.acceptance is None:
            raise ValueError("the scenario has no acceptance")
        return self.acceptance

    def tokens_per_iteration(self, gammas: ArrayLike) -> Array:
        """Expected number of tokens per sequence and iteration. It is 1 without an acceptance."""
        if self.acceptance is None:
            return np.ones(np.shape(gammas))
        return self.acceptance.tokens_per_iteration(gammas)

    def drafting(self, gammas: Ints) -> DraftPasses:
        """The passes of the draft at each gamma."""
        drafted = np.asarray(gammas, float)
        tokens = np.maximum(drafted, 1.0)
        passes = self.draft.passes(drafted)
        query = self.draft.query(tokens)
        if passes is drafted and not isinstance(query, np.ndarray) and query == 1.0:
            return DraftPasses(1.0, 1.0)
        if np.any(passes):
            return DraftPasses(query, passes / tokens)
        return DraftPasses(1.0, None)

    def with_context_std(self, deviation: Floats) -> Self:
        """A copy with another standard deviation of the contexts within a batch. The shards are reused."""
        return self.on_same_shards(context_std=deviation)

    def on_same_shards(self, **changes: Any) -> Self:
        """A copy with other values of fields that do not affect the shards. The shards are reused."""
        changed = replace(self, **changes)
        made = vars(changed)
        for name in SHARDS:
            made[name] = getattr(self, name)
        return changed
