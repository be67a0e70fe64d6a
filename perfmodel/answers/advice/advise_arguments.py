"""The arguments of a question to `advise`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any

from perfmodel.answers.advice.checkpoint_cache import with_cache_of_checkpoint
from perfmodel.answers.advice.draft_lengths import MAX_BATCHES
from perfmodel.answers.advice.rates_by_draft import read_rates, read_tree_rates
from perfmodel.answers.declaration import POSITIVE, TINY, argument, question
from perfmodel.answers.load.traffic_words import RATES, parse_slo
from perfmodel.answers.question import CommonOptions, arguments as arg
from perfmodel.answers.question.racks import without_stages
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
from perfmodel.parse import items, parse_names
from perfmodel.speculation import DEFAULT_MAX_GAMMA

LOAD = "Load"
LOADS = ("request_rate", "clients")
"""Arguments that state a load."""
FILLING = 1024
"""Clients per device that keep a server full, for a job whose requests are all there from the beginning. This
is vLLM's largest number of requests at once on large devices.
"""
OBJECTIVES = ("throughput", "latency", "cost")
MOST_GPUS = 1024
"""Largest number of devices that a question may state."""
COUNTED = re.compile(r"(\d+)\s*[xX]\s*(.+)")
"""Matches a number of devices and their kind, such as ``8xh100``."""


def _kinds(given: Any, flag: str) -> str:
    """Reads one kind of device or several, as text with commas."""
    return ",".join(name for each in items(given) for name in parse_names(each, flag))


@question
class AdviseArguments(CommonOptions):
    """The arguments of a question to `advise`. `AdviseQuery` explains some of them in more detail than their
    help.
    """

    hardware: Parsed[str, str | Sequence[str]] = argument(
        "Device: a name from `perfmodel gpus list` or a YAML file. 8xh100 means eight H100 GPUs. Commas "
        "separate "
        "alternatives, of which the best is chosen.",
        "NAME|PATH,...",
        "--gpu --device",
        _kinds,
        listed="gpus",
    )
    context: arg.Context = argument(default=8192)
    batch: MaybeWholes = argument(
        "Batch sizes to include in the search, in sequences per server.",
        arg.COUNTS,
        "--batch-size -b",
        shown=f"1..{MAX_BATCHES} per device; 1 in llama.cpp and MLX",
        default=None,
    )
    tp: MaybeWholes = argument(
        "Numbers of devices of a server to include in the search, with all groups of --dp.",
        arg.COUNTS,
        "--tensor-parallel-size --tp-size",
        shown="1; all with --gpus",
        default=None,
    )
    draft: MaybeWords = argument(
        "Draft to include in the search; may be repeated.",
        "self|KIND|NAME|PATH",
        "--draft-model --speculative-algorithm",
        texts,
        repeated=True,
        default=None,
        group="Draft",
    )
    draft_kv: MaybeWords = argument(
        "KV methods to include in the search.",
        "METHOD[:BUDGET],...",
        read=methods,
        shown="all methods",
        default=None,
        group="Draft",
    )
    draft_tp: MaybeWholes = argument(
        "Tensor-parallel degrees of the draft to include in the search.",
        arg.COUNTS,
        shown="as --tp",
        default=None,
        group="Draft",
    )
    rate: Parsed[dict[str, str], Mapping[str, str | float] | Sequence[str]] = argument(
        "Measured acceptance of a draft: one rate (0.8), rates by position (0.8/0.7/0.5), or n-gram hit "
        "rate x accepted tokens (0.4x3); may be repeated.",
        "DRAFT[@KV]=RATE",
        read=read_rates,
        repeated=True,
        default=(),
        group="Acceptance",
    )
    tree_rate: Parsed[dict[str, str], Mapping[str, str | Sequence[float]] | Sequence[str]] = argument(
        "Measured acceptance of the 1st, 2nd, ... child of a node, such as 0.7,0.15,0.05. With this flag, "
        "the search also includes trees of this draft. May be repeated.",
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
        "Also allow drafts that the engine does not run.", default=False, group="Draft"
    )
    objective: str = argument(
        "Quantity to optimise: throughput (tokens/s per device), latency (time per token) or cost (dollars "
        "per token).",
        choices=OBJECTIVES,
        default="throughput",
    )
    max_tpot_ms: MaybeReal = argument(
        "Upper bound on TPOT, in milliseconds.", "MS", limits=POSITIVE, default=None
    )
    max_gamma: arg.MaxGamma = argument(default=DEFAULT_MAX_GAMMA)
    power_limit: arg.PowerLimit = argument(default=None)
    price: MaybeReals = argument(
        "Price per device-hour: one value, or one for each kind of device.",
        "DOLLARS,...",
        limits=(TINY, 100_000),
        shown="none",
        default=None,
    )
    _: KW_ONLY
    gpus: MaybeWhole = argument(
        "Number of devices to divide into servers. The search includes all layouts.",
        "N",
        limits=(1, MOST_GPUS),
        default=None,
    )
    ep: MaybeWholes = argument(
        "Expert-parallel degrees to include in the search, divisors of --tp.",
        arg.COUNTS,
        "--expert-parallel-size --ep-size",
        shown="1; all with --gpus",
        default=None,
    )
    dp: MaybeWholes = argument(
        "Numbers of attention groups to include in the search: TP 4 DP 2 EP 8 is --tp 8 --dp 2 --ep 8.",
        arg.COUNTS,
        "--data-parallel-size --dp-size --attn-dp-size",
        shown="1; all with --gpus",
        default=None,
    )
    request_rate: MaybeReal = argument(
        "Total request rate of all clients, in requests per second.",
        "RATE",
        limits=RATES,
        default=None,
        group=LOAD,
        without=("request_rate", "clients", "batch"),
    )
    clients: MaybeWhole = argument(
        "Total number of clients across all servers; each client waits for its response before it sends the "
        "next request.",
        "N",
        "--max-concurrency",
        limits=(1, 2**20),
        default=None,
        group=LOAD,
        without=("request_rate", "clients", "batch"),
    )
    input_len: MaybeWhole = argument(
        "Mean number of prompt tokens per request; without --request-rate and --clients, the load is an "
        "offline job.",
        arg.TOKENS,
        default=None,
        group=LOAD,
        needs=LOADS,
    )
    output_len: MaybeWhole = argument(
        "Mean number of output tokens per request.",
        arg.TOKENS,
        limits=(2, 2**40),
        default=None,
        group=LOAD,
        needs=LOADS,
    )
    slo: Parsed[dict[str, float] | None, str | dict[str, float] | None] = argument(
        "Latency limits per request in milliseconds, such as ttft:2000,tpot:30.",
        "NAME:MS,...",
        read=parse_slo,
        default=None,
        group=LOAD,
        needs=LOADS,
    )
    prefix_len: arg.PrefixLen = argument(default=None)
    prefix_hits: arg.PrefixHits = argument(default=1.0)
    max_ttft_ms: MaybeReal = argument(
        "Upper bound on TTFT in milliseconds; without a load, the bound applies to one prompt of --context "
        "tokens on an idle server.",
        "MS",
        limits=POSITIVE,
        default=None,
    )

    @classmethod
    def settled(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The arguments with the number of devices, which is filled in if other arguments determine it."""
        values = with_cache_of_checkpoint(_with_stated_number(values))
        values = _with_clients_of_a_job(_with_one_server_of_clients(values))
        return super().settled(values)

    def check(self) -> None:
        super().check()
        without_stages(self, "advise")
        self._check_prices()
        self._check_load()
        if (self.gpus or 0) % self.layer_split:
            raise refuse("--layer-split", None, f"a divisor of --gpus {self.gpus}", self.layer_split)
        if not all(1 <= batch <= 2**20 for batch in self.batch or ()):
            raise refuse("--batch", None, "whole numbers from 1 to 2^20", max(self.batch or ()))
        states_rates = self.rate or self.tree_rate or self.acceptance
        if self.draft_kv is not None and self.draft is None and states_rates:
            raise InputError(
                "--draft-kv: needs --draft; a rate names its method, as in --rate self@quest:1k=0.8"
            )
        self.within("max_gamma", 1, 256, "a whole number from 1 to 256")
        self.within("context", 1, 2**40, "a number of tokens from 1 to 2^40")

    def _check_prices(self) -> None:
        """Raises InputError for the objective `cost` without a price, or for a wrong number of prices."""
        kinds = len(self.hardware.split(","))
        if self.objective == "cost" and self.price is None:
            raise InputError("--objective cost: needs --price, in dollars per device-hour")
        if self.price is not None and len(self.price) not in (1, kinds):
            raise refuse("--price", None, f"one price, or one for each of {kinds} kinds", len(self.price))

    def _check_load(self) -> None:
        """Raises InputError for a load without lengths, a prefix without a load, or a prefix that is longer
        than the prompt.
        """
        if self.has_load and (self.input_len is None or self.output_len is None):
            raise InputError("--request-rate, --clients: need --input-len and --output-len")
        if self.prefix_len is not None and not self.has_load:
            raise InputError("--prefix-len: needs --request-rate or --clients, whose prompts it shortens")
        if (self.prefix_len or 0) > (self.input_len or 0):
            raise refuse("--prefix-len", None, f"at most --input-len {self.input_len}", self.prefix_len)

    @property
    def has_load(self) -> bool:
        """Whether the question states a load: a request rate or a number of clients."""
        return self.request_rate is not None or self.clients is not None


def _with_stated_number(values: dict[str, Any]) -> dict[str, Any]:
    """Splits hardware such as ``8xh100`` into the number of devices and their kind. A list of several kinds
    stays unchanged.
    """
    counted = COUNTED.fullmatch(values["hardware"])
    if counted is None or "," in values["hardware"]:
        return values
    if values["gpus"] is not None:
        raise InputError("--gpus: must be left out with a number of devices in --hardware")
    return values | {"gpus": int(counted[1]), "hardware": counted[2]}


def _with_clients_of_a_job(values: dict[str, Any]) -> dict[str, Any]:
    """Sets the number of clients to `FILLING` per device, if the question states the lengths of requests but
    neither a load nor a batch. This is an offline job, whose requests are all there from the beginning.
    """
    states_load = values["request_rate"] is not None or values["clients"] is not None or values["batch"]
    if states_load or values["input_len"] is None or values["output_len"] is None:
        return values
    counted = _with_one_server_of_clients(values | {"clients": FILLING})
    return counted | {"clients": FILLING * (counted["gpus"] or 1)}


def _with_one_server_of_clients(values: dict[str, Any]) -> dict[str, Any]:
    """Sets the number of devices to that of one server, if the load is a number of clients and nothing else
    determines the number of devices. A stated number or a latency limit determines it.
    """
    is_limited = values["slo"] or values["max_ttft_ms"] or values["max_tpot_ms"]
    is_counted = values["gpus"] is not None or any(map(COUNTED.fullmatch, values["hardware"].split(",")))
    if values["clients"] is None or is_counted or is_limited:
        return values
    degrees = [*(values["tp"] or ()), *(values["dp"] or ()), *(values["ep"] or ())]
    return values | {"gpus": values["layer_split"] * max(degrees, default=1)}
