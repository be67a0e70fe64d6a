"""A question to `advise`, and the values that follow from its arguments."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from perfmodel.answers.advice.advise_arguments import AdviseArguments
from perfmodel.answers.advice.draft_lengths import MAX_BATCHES
from perfmodel.answers.advice.layouts import MOST_IN_SERVER, Layout
from perfmodel.answers.declaration import question
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.question import CommonOptions, Named, Query, RunsIn
from perfmodel.operations import Array
from perfmodel.specs import serving_engine_of
from perfmodel.specs.engines.serving import ServingEngine

READING_S = 0.1
"""Time per token up to which a text appears faster than people read it: ten tokens a second."""
MOST_STEPS = 32
"""Batches above `MAX_BATCHES` are searched in steps of 1/32 of the next power of two."""


@question
class AdviseQuery(AdviseArguments):
    """A question to `advise`.

    rate: maps a draft, or ``draft@METHOD:BUDGET``, to ``0.8`` (alpha), ``0.8/0.7/0.5`` (by position) or
    ``0.6x3.5`` (n-gram: hit probability x run length). tree_rate: maps a draft to the probabilities that
    the 1st, 2nd, ... child of a tree node is accepted. The first one is also the acceptance of the draft's
    chains, unless `rate` states it. acceptance: a file of measured acceptance rates. It replaces the
    bundled rates for drafts without a `rate`. draft, draft_kv: None searches the drafts and methods that
    `rate`, `tree_rate` and the file name, or all known ones if none of these arguments is given.
    """

    @property
    def chain_rates(self) -> dict[str, str]:
        """The acceptance of chains (drafts without branches): `rate`, or the rate of the first child for a
        draft that has only a `tree_rate`.
        """
        return {key: by_rank.partition(",")[0] for key, by_rank in self.tree_rate.items()} | self.rate

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
        """Dollars per device and hour, in a question about one kind of device."""
        return None if self.price is None else self.price[0]

    @property
    def searches_pools(self) -> bool:
        """Whether the question is about a load on more devices than one node has; prefill and decode pools
        are then searched too.
        """
        return self.has_load and (self.gpus or 0) > MOST_IN_SERVER

    @property
    def latency_limits_ms(self) -> dict[str, float]:
        """The latency limits of a request under a load, by name, from `slo`, `max_ttft_ms` and
        `max_tpot_ms`.
        """
        bounds = {"ttft": self.max_ttft_ms, "tpot": self.max_tpot_ms}
        return {name: bound for name, bound in bounds.items() if bound is not None} | (self.slo or {})

    @property
    def served_by(self) -> ServingEngine | None:
        """The serving engine that the answer is about; None if the calibration is of research code."""
        return serving_engine_of(Named.of(self).calibration)

    def batches(self, layout: Layout) -> Array:
        """The batch sizes to search for one server of a layout, in rising order."""
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
        """The question at batch 1, with latency in place of throughput as the objective, if the engine
        usually serves one person and no batch is stated. Otherwise, the question is not changed.
        """
        engine = self.served_by
        if self.batch is not None or engine is None or not engine.one_person:
            return self
        objective = "latency" if self.objective == "throughput" else self.objective
        return replace(self, batch=(1,), objective=objective)

    @property
    def leaves_pace_open(self) -> bool:
        """Whether nothing in the question limits the time per token. The chosen batch could then be so
        large that text appears more slowly than people read.
        """
        return self.max_tpot_ms is None and self.batch is None and self.objective != "latency"

    def query(self, **changes: Any) -> Query:
        """As `CommonOptions.query`, but without an acceptance, because each candidate gets the rate of its
        own draft.
        """
        return super().query(**{"rate": None} | changes)

    def traffic(self, **changes: Any) -> TrafficQuery:
        """The question to `traffic` with the same values in the fields that both have, and with these
        changes.
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
        """Whether a draft may be recommended. runs: whether the engine runs it; None if no serving engine
        is given.
        """
        return self.any_draft or runs is None or runs.runs

    @property
    def max_tpot_s(self) -> float | None:
        """The bound on the time per token in seconds."""
        return None if self.max_tpot_ms is None else self.max_tpot_ms / 1e3

    def as_dict(self) -> dict[str, Any]:
        """As `Question.as_dict`, but with only the smallest and the largest of the stated batch sizes."""
        ends = None if self.batch is None else [min(self.batch), max(self.batch)]
        return super().as_dict() | {"batch": ends}
