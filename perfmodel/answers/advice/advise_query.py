"""A question to `advise`, with values that follow from its arguments."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from perfmodel.answers.advice.advise_arguments import FILLING, AdviseArguments
from perfmodel.answers.advice.draft_lengths import MAX_BATCHES
from perfmodel.answers.advice.layouts import MOST_IN_SERVER, Layout
from perfmodel.answers.declaration import question
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.question import CommonOptions, Named, Query, RunsIn
from perfmodel.operations import Array
from perfmodel.specs import serving_engine_of
from perfmodel.specs.engines.serving import ServingEngine

READING_S = 0.1
"""Largest time per token in seconds at which text appears at least as fast as people read. The speed of ten
tokens per second is an assumption.
"""
MOST_STEPS = 32
"""Above `MAX_BATCHES`, the step between two searched batches is the next power of two divided by this
number.
"""


@question
class AdviseQuery(AdviseArguments):
    """A question to `advise`.

    - rate: maps a draft, or ``draft@METHOD:BUDGET``, to an acceptance such as ``0.8`` (alpha),
      ``0.8/0.7/0.5`` (by position) or ``0.6x3.5`` (n-gram: hit probability x accepted tokens per hit).
    - tree_rate: maps a draft to the probabilities that the first, second and further children of a tree node
      are accepted. The first probability is also the acceptance of the draft's chains, unless `rate` states
      it.
    - acceptance: a file of measured acceptance rates. The file replaces the bundled rates for drafts without
      a `rate`.
    - draft, draft_kv: the drafts and KV methods to search. None means those that `rate`, `tree_rate` and the
      file name. Without these arguments, None means all known drafts and methods.
    """

    @property
    def chain_rates(self) -> dict[str, str]:
        """The acceptance of chains (drafts without branches) by draft. The acceptance of a draft comes from
        `rate`, or is the `tree_rate` of the first child.
        """
        return {key: by_rank.partition(",")[0] for key, by_rank in self.tree_rate.items()} | self.rate

    @property
    def names_drafts(self) -> bool:
        """Whether the question names the drafts to search."""
        return self.draft is not None or bool(self.chain_rates) or self.acceptance is not None

    @property
    def by_kind(self) -> "list[AdviseQuery]":
        """One question for each kind of device, with the price of this kind."""
        kinds = self.hardware.split(",")
        prices = self.price or (None,)
        each = prices * len(kinds) if len(prices) == 1 else prices
        return [
            replace(self, hardware=kind, price=None if price is None else (price,))
            for kind, price in zip(kinds, each, strict=True)
        ]

    @property
    def dollars(self) -> float | None:
        """The price in dollars per device and hour, in a question about one kind of device. The result is
        None without a price.
        """
        return None if self.price is None else self.price[0]

    @property
    def searches_pools(self) -> bool:
        """Whether separate prefill and decode pools are searched too. The question must state a load and more
        devices than one node has.
        """
        return self.has_load and (self.gpus or 0) > MOST_IN_SERVER

    @property
    def fills(self) -> bool:
        """Whether the clients are those of an offline job, most of which wait for a seat."""
        return self.clients is not None and self.clients == FILLING * (self.gpus or 1)

    @property
    def latency_limits_ms(self) -> dict[str, float]:
        """The latency limits of a request under a load in milliseconds, by name. The limits come from `slo`,
        `max_ttft_ms` and `max_tpot_ms`.
        """
        bounds = {"ttft": self.max_ttft_ms, "tpot": self.max_tpot_ms}
        return {name: bound for name, bound in bounds.items() if bound is not None} | (self.slo or {})

    @property
    def served_by(self) -> ServingEngine | None:
        """The serving engine of the answer. The result is None if the calibration is for research code."""
        return serving_engine_of(Named.of(self).calibration)

    def batches(self, layout: Layout) -> Array:
        """The batch sizes to search for one server of a layout, in ascending order."""
        if self.batch is not None:
            return np.unique(np.asarray(self.batch, float))
        most = MAX_BATCHES * layout.server_gpus
        sizes = list(range(1, MAX_BATCHES + 1))
        while sizes[-1] < most:
            step = 2 * sizes[-1] // MOST_STEPS
            sizes += range(sizes[-1] + step, 2 * sizes[-1] + 1, step)
        return np.asarray([size for size in sizes if size <= most], float)

    @property
    def for_its_users(self) -> "AdviseQuery":
        """The question with the defaults that suit the users of the engine. If the engine usually serves one
        person and no batch is stated, the batch is 1, and latency replaces throughput as the objective.
        Otherwise, the question is unchanged.
        """
        engine = self.served_by
        if self.batch is not None or engine is None or not engine.one_person:
            return self
        objective = "latency" if self.objective == "throughput" else self.objective
        return replace(self, batch=(1,), objective=objective)

    @property
    def states_batch(self) -> bool:
        """Whether the question states exactly one batch size, so that the search does not choose it."""
        return self.batch is not None and len(self.batch) == 1

    @property
    def leaves_pace_open(self) -> bool:
        """Whether nothing in the question limits the time per token. The chosen batch could then be so large
        that text appears more slowly than people read it.
        """
        return self.max_tpot_ms is None and self.batch is None and self.objective != "latency"

    def query(self, **changes: Any) -> Query:
        """Like `CommonOptions.query`, but without an acceptance, because each candidate gets the acceptance
        of its own draft.
        """
        return super().query(**{"rate": None} | changes)

    def traffic(self, **changes: Any) -> TrafficQuery:
        """A question to `traffic` with the values of this question in the fields that both have.

        - changes: argument -> value that replaces the value of this question.
        """
        shared = {f.name: getattr(self, f.name) for f in fields(CommonOptions)}
        asked = {
            "input_len": self.input_len,
            "output_len": self.output_len,
            "slo": self.latency_limits_ms or None,
            "prefix_len": self.prefix_len,
            "prefix_hits": self.prefix_hits,
            "max_gamma": self.max_gamma,
        }
        return TrafficQuery(**shared | asked | changes)

    def may_choose(self, runs: RunsIn | None) -> bool:
        """Whether a draft may be recommended.

        - runs: whether the engine runs it; None for research code.
        """
        return self.any_draft or runs is None or runs.runs

    @property
    def max_tpot_s(self) -> float | None:
        """The bound on the time per token in seconds."""
        return None if self.max_tpot_ms is None else self.max_tpot_ms / 1e3

    def as_dict(self) -> dict[str, Any]:
        """Like `Question.as_dict`, but with only the smallest and the largest of the stated batch sizes."""
        ends = None if self.batch is None else [min(self.batch), max(self.batch)]
        return super().as_dict() | {"batch": ends}
