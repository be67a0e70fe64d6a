"""The question of `advise`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, fields, replace
from typing import Any

import numpy as np

from perfmodel.answers.advice.draft_lengths import MAX_BATCHES
from perfmodel.answers.advice.layouts import MOST_IN_SERVER, Layout
from perfmodel.answers.advice.rates_by_draft import read_rates, read_tree_rates
from perfmodel.answers.declaration import POSITIVE, TINY, argument, question
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_words import RATES, parse_slo
from perfmodel.answers.question import (
    CommonOptions,
    Named,
    Query,
    RunsIn,
    arguments as arg,
)
from perfmodel.answers.readers import (
    MaybeReal,
    MaybeReals,
    MaybeWhole,
    MaybeWholes,
    MaybeWords,
    Parsed,
    methods,
    texts,
)
from perfmodel.errors import InputError, refuse
from perfmodel.operations import Array
from perfmodel.parse import items, parse_names
from perfmodel.specs import serving_engine_of
from perfmodel.specs.engines.serving import ServingEngine
from perfmodel.speculation import DEFAULT_MAX_GAMMA

LOAD = "Load"
LOADS = ("request_rate", "clients")
"""Arguments that state a load."""
OBJECTIVES = ("throughput", "latency", "cost")
READING_S = 0.1
"""Time per token up to which a text appears faster than people read it: ten tokens a second."""
MOST_GPUS = 1024
MOST_STEPS = 32
"""Larger batches than `MAX_BATCHES` are searched in steps of a 32nd of the next power of two."""
COUNTED = re.compile(r"(\d+)\s*[xX]\s*(.+)")
"""A number of devices of one kind: ``8xh100``."""


def _kinds(given: Any, flag: str) -> str:
    """Reads one kind of device or several, as text with commas."""
    return ",".join(name for each in items(given) for name in parse_names(each, flag))


@question
class AdviseQuery(CommonOptions):
    """A question to `advise`.

    rate: maps a draft, or ``draft@METHOD:BUDGET``, to ``0.8`` (alpha), ``0.8/0.7/0.5`` (by position) or
    ``0.6x3.5`` (n-gram: hit probability x run length). tree_rate: maps a draft to the probabilities that the
    1st, 2nd, ... child of a node of a tree is accepted; the first one also holds for the draft's chains
    unless `rate` gives another. acceptance: a file of rows. It replaces the bundled rows for drafts without a
    rate. draft, draft_kv: None searches the drafts and methods that the rates and the file name, or all of
    them if neither is given.
    """

    hardware: Parsed[str, str | Sequence[str]] = argument(
        "Device: a name from `perfmodel gpus list` or a YAML file; 8xh100 is eight of them, commas "
        "separate kinds.",
        "NAME|PATH,...",
        "--gpu --device",
        _kinds,
        listed="gpus",
    )
    context: arg.Context = argument(default=8192)
    batch: MaybeWholes = argument(
        "Batch sizes of one server to search.",
        arg.COUNTS,
        "--batch-size -b",
        shown=f"1..{MAX_BATCHES} per device; 1 in llama.cpp and MLX",
        default=None,
    )
    tp: MaybeWholes = argument(
        "Devices of one server to search.",
        arg.COUNTS,
        "--tensor-parallel-size --tp-size",
        shown="1; all with --gpus",
        default=None,
    )
    draft: MaybeWords = argument(
        "A draft to search; may be repeated.",
        "self|KIND|NAME|PATH",
        "--draft-model --speculative-algorithm",
        texts,
        repeated=True,
        default=None,
        group="Draft",
    )
    draft_kv: MaybeWords = argument(
        "KV methods to search.",
        "METHOD[:BUDGET],...",
        read=methods,
        shown="all that are known",
        default=None,
        group="Draft",
    )
    draft_tp: MaybeWholes = argument(
        "Tensor-parallel degrees of the draft to search.",
        arg.COUNTS,
        shown="as --tp",
        default=None,
        group="Draft",
    )
    rate: Parsed[dict[str, str], Mapping[str, str | float] | Sequence[str]] = argument(
        "Measured acceptance: 0.8, by position 0.8/0.7/0.5, n-gram 0.4x3; may be repeated.",
        "DRAFT[@KV]=RATE",
        read=read_rates,
        repeated=True,
        default=(),
        group="Acceptance",
    )
    tree_rate: Parsed[dict[str, str], Mapping[str, str | Sequence[float]] | Sequence[str]] = argument(
        "Measured acceptance of the 1st, 2nd, ... child, 0.7,0.15,0.05: searches trees too; may be repeated.",
        "DRAFT[@KV]=RATES",
        read=read_tree_rates,
        repeated=True,
        default=(),
        group="Acceptance",
        without=("request_rate", "clients"),
    )
    acceptance: arg.AcceptanceFile = argument(default=None)
    task: arg.Task = argument(default=None)
    draft_path: arg.DraftPath = argument(default=None)
    model_path: arg.ModelPath = argument(default=None)
    any_draft: bool = argument(
        "Also choose among drafts that the engine does not run.", default=False, group="Draft"
    )
    objective: str = argument(
        "Quantity to optimise: tokens/s per device, time per token, or dollars per token.",
        choices=OBJECTIVES,
        default="throughput",
    )
    max_tpot_ms: MaybeReal = argument(
        "Upper bound on TPOT, in milliseconds.", "MS", limits=POSITIVE, default=None
    )
    max_gamma: arg.MaxGamma = argument(default=DEFAULT_MAX_GAMMA)
    power_limit: arg.PowerLimit = argument(default=None)
    price: MaybeReals = argument(
        "Price per device and hour: one value, or one for each kind of device.",
        "DOLLARS,...",
        limits=(TINY, 100_000),
        shown="none",
        default=None,
    )
    _: KW_ONLY
    gpus: MaybeWhole = argument(
        "Devices to divide into servers; all layouts are searched.",
        "N",
        limits=(1, MOST_GPUS),
        default=None,
    )
    ep: MaybeWholes = argument(
        "Expert-parallel degrees to search.",
        arg.COUNTS,
        "--expert-parallel-size --ep-size",
        shown="1; all with --gpus",
        default=None,
    )
    dp: MaybeWholes = argument(
        "Data-parallel degrees (of attention) to search.",
        arg.COUNTS,
        "--data-parallel-size --dp-size --attn-dp-size",
        shown="1; all with --gpus",
        default=None,
    )
    request_rate: MaybeReal = argument(
        "Requests per second of all clients together.",
        "RATE",
        limits=RATES,
        default=None,
        group=LOAD,
        without=("request_rate", "clients", "batch"),
    )
    clients: MaybeWhole = argument(
        "Number of clients of all servers together; each waits for its output.",
        "N",
        "--max-concurrency",
        limits=(1, 2**20),
        default=None,
        group=LOAD,
        without=("request_rate", "clients", "batch"),
    )
    input_len: MaybeWhole = argument(
        "Mean prompt tokens of a request.", arg.TOKENS, default=None, group=LOAD, needs=LOADS
    )
    output_len: MaybeWhole = argument(
        "Mean output tokens of a request.",
        arg.TOKENS,
        limits=(2, 2**40),
        default=None,
        group=LOAD,
        needs=LOADS,
    )
    slo: Parsed[dict[str, float] | None, str | dict[str, float] | None] = argument(
        "Latency limits of a request, in milliseconds: ttft:2000,tpot:30.",
        "NAME:MS,...",
        read=parse_slo,
        default=None,
        group=LOAD,
        needs=LOADS,
    )
    prefix_len: arg.PrefixLen = argument(default=None)
    prefix_hits: arg.PrefixHits = argument(default=1.0)
    max_ttft_ms: MaybeReal = argument(
        "Upper bound on TTFT in milliseconds; without a load, it applies to one prompt of "
        "--context tokens on an idle server.",
        "MS",
        limits=POSITIVE,
        default=None,
    )

    @classmethod
    def settled(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The values with the number of devices that ``8xh100`` states, or of one server with the stated
        degrees for clients of which no limit says how many devices are enough.
        """
        counted = COUNTED.fullmatch(values["hardware"])
        limits = [values[name] for name in ("slo", "max_ttft_ms", "max_tpot_ms")]
        open_number = values["gpus"] is None and counted is None and not any(limits)
        if values["clients"] is not None and open_number:
            degrees = [degree for name in ("tp", "dp", "ep") for degree in values[name] or (1,)]
            values = values | {"gpus": values["layer_split"] * max(degrees)}
        if counted is None or "," in values["hardware"]:
            return super().settled(values)
        if values["gpus"] is not None:
            raise InputError("--gpus: must be left out with a number of devices in --hardware")
        return super().settled(values | {"gpus": int(counted[1]), "hardware": counted[2]})

    def check(self) -> None:
        super().check()
        kinds = len(self.hardware.split(","))
        if self.objective == "cost" and self.price is None:
            raise InputError("--objective cost: needs --price, dollars per device and hour")
        if self.price is not None and len(self.price) not in (1, kinds):
            raise refuse("--price", None, f"one price, or one for each of {kinds} kinds", len(self.price))
        if self.has_load and (self.input_len is None or self.output_len is None):
            raise InputError("--request-rate, --clients: need --input-len and --output-len")
        if self.prefix_len is not None and not self.has_load:
            raise InputError("--prefix-len: needs --request-rate or --clients, whose prompts it shortens")
        if (self.prefix_len or 0) > (self.input_len or 0):
            raise refuse("--prefix-len", None, f"at most --input-len {self.input_len}", self.prefix_len)
        if (self.gpus or 0) % self.layer_split:
            raise refuse("--layer-split", None, f"a divisor of --gpus {self.gpus}", self.layer_split)
        if not all(1 <= batch <= 2**20 for batch in self.batch or ()):
            raise refuse("--batch", None, "whole numbers from 1 to 2^20", max(self.batch or ()))
        if self.draft_kv is not None and self.draft is None and (self.chain_rates or self.acceptance):
            raise InputError(
                "--draft-kv: needs --draft; a rate names its method, as in --rate self@quest:1k=0.8"
            )
        self.within("max_gamma", 1, 256, "a whole number from 1 to 256")
        self.within("context", 1, 2**40, "a number of tokens from 1 to 2^40")

    @property
    def chain_rates(self) -> dict[str, str]:
        """The rates of chains: `rate`, and for a draft with only a `tree_rate` the rate of a first child."""
        return {key: by_rank.partition(",")[0] for key, by_rank in self.tree_rate.items()} | self.rate

    @property
    def by_kind(self) -> "list[AdviseQuery]":
        """The question for each kind of device, with its own price."""
        kinds = self.hardware.split(",")
        prices = self.price or (None,)
        each = prices * len(kinds) if len(prices) == 1 else prices
        return [
            replace(self, hardware=kind, price=None if price is None else (price,))
            for kind, price in zip(kinds, each, strict=True)
        ]

    @property
    def dollars(self) -> float | None:
        """The price per device and hour of a question about one kind of device."""
        return None if self.price is None else self.price[0]

    @property
    def has_load(self) -> bool:
        """Whether the question states a load."""
        return self.request_rate is not None or self.clients is not None

    @property
    def searches_pools(self) -> bool:
        """Whether the question is about a load on more devices than a box has, where prefill and decode pools
        are searched too.
        """
        return self.has_load and (self.gpus or 0) > MOST_IN_SERVER

    @property
    def latency_limits_ms(self) -> dict[str, float]:
        """The limits of a request under a load: `slo`, and the bounds on TTFT and TPOT."""
        bounds = {"ttft": self.max_ttft_ms, "tpot": self.max_tpot_ms}
        return {name: bound for name, bound in bounds.items() if bound is not None} | (self.slo or {})

    @property
    def served_by(self) -> ServingEngine | None:
        """The serving engine of the answer; None for a research stack."""
        return serving_engine_of(Named.of(self).calibration)

    def batches(self, layout: Layout) -> Array:
        """Distinct batch sizes of one server of a layout, in rising order."""
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
        """The question about one sequence, which should be fast, if it names no batches and the engine
        usually serves one person.
        """
        engine = self.served_by
        if self.batch is not None or engine is None or not engine.one_person:
            return self
        objective = "latency" if self.objective == "throughput" else self.objective
        return replace(self, batch=(1,), objective=objective)

    @property
    def leaves_pace_open(self) -> bool:
        """Whether the question leaves the time per token and the batch open, so that a batch could be chosen
        at which people wait for words.
        """
        return self.max_tpot_ms is None and self.batch is None and self.objective != "latency"

    def query(self, **changes: Any) -> Query:
        """As `CommonOptions.query`; the rates are of many drafts, so each candidate gets its acceptance."""
        return super().query(**{"rate": None} | changes)

    def traffic(self, **changes: Any) -> TrafficQuery:
        """The question to `traffic` with the same values in the common fields, and these changes."""
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
        """Whether a draft may be recommended, given where it runs."""
        return self.any_draft or runs is None or runs.runs

    @property
    def max_tpot_s(self) -> float | None:
        """The bound on the time per token in seconds."""
        return None if self.max_tpot_ms is None else self.max_tpot_ms / 1e3

    def as_dict(self) -> dict[str, Any]:
        """As `Question.as_dict`, with only the smallest and the largest batch size that are given."""
        ends = None if self.batch is None else [min(self.batch), max(self.batch)]
        return super().as_dict() | {"batch": ends}
