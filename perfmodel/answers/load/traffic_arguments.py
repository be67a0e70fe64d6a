"""The arguments of a question to `traffic`."""

from collections.abc import Sequence
from typing import Any

from perfmodel.answers.declaration import MAX_LISTED, argument, flag, question
from perfmodel.answers.load.pool_question import parse_instances, parse_kv_link
from perfmodel.answers.load.rates import parse_rates
from perfmodel.answers.load.tier_question import parse_tier
from perfmodel.answers.load.traffic_words import DEFAULT_STD, RATES, parse_ages, parse_slo
from perfmodel.answers.question import CommonOptions, arguments as arg
from perfmodel.answers.readers import (
    MaybeReal,
    MaybeReals,
    MaybeWhole,
    MaybeWholes,
    Parsed,
    Real,
    Whole,
    several,
    tokens,
    whole,
)
from perfmodel.errors import InputError, refuse
from perfmodel.parse import parse_switch, parse_text
from perfmodel.queueing.policies import LengthPolicy, parse_policies, policies
from perfmodel.queueing.trace import LONGEST
from perfmodel.specs.engines.served_requests import PassOrder
from perfmodel.speculation import DEFAULT_MAX_GAMMA
from perfmodel.uniform import largest_std

_POLICIES = ", ".join(f"{name} ({policy.help})" for name, policy in policies().items())
LENGTHS = f"Draft lengths, or policies; 0 is always included. Policies: {_POLICIES}."
"""Help of `gamma`."""
AT_ONCE = "whose requests come at the start"
"""Why some arguments exclude a rollout."""
REUSED = ("prefix_len", "turns", "trace")
"""Arguments that describe which tokens requests share. A prefix cache needs one of them."""
POOLS_WITHOUT = ("trace", "mix", "rollout", "nodes", "draft_tp")
"""Arguments that cannot be combined with separate prefill and decode pools."""
ONE_SERVER_ONLY = "which are of one server"
"""The reason why pools exclude these arguments."""
Policies = int | str | LengthPolicy | Sequence[int | str | LengthPolicy] | None
"""Type of the values that `gamma` accepts."""


@question
class TrafficArguments(CommonOptions):
    """The arguments of a question to `traffic`. The names of the arguments are from ``vllm bench serve`` and
    from the flags of engines.
    """

    input_len: MaybeWhole = argument(
        "Mean number of prompt tokens per request.",
        arg.TOKENS,
        shown="the mean of --trace or --mix",
        default=None,
    )
    output_len: MaybeWhole = argument(
        "Mean number of output tokens per request.",
        arg.TOKENS,
        limits=(2, 2**40),
        shown="the mean of --trace or --mix",
        default=None,
    )
    request_rate: MaybeReals = argument(
        "Total request rate of all clients, in requests per second (open loop). Ranges are allowed: 1..20, "
        "or 0.5..4+0.5 (steps of 0.5).",
        "RATES",
        read=several(parse_rates),
        limits=RATES,
        default=None,
    )
    max_concurrency: MaybeWholes = argument(
        "Number of clients, each of which waits for its output (closed loop). With --request-rate: maximum "
        "number of concurrent requests.",
        arg.COUNTS,
        "--clients",
        default=None,
    )
    gamma: Parsed[tuple[LengthPolicy, ...], Policies] = argument(
        LENGTHS,
        "|".join(("N,...", *policies())),
        "-g --num-speculative-tokens --speculative-num-steps",
        read=parse_policies,
        shown="auto",
        default="auto",
    )
    tp: arg.TP = argument(default=1)
    ep: arg.EP = argument(default=1)
    dp: arg.DP = argument(default=1)
    slo: Parsed[dict[str, float] | None, str | dict[str, float] | None] = argument(
        "Latency limits per request in milliseconds, such as ttft:2000,tpot:30.",
        "NAME:MS,...",
        read=parse_slo,
        default=None,
        without=("rollout",),
        why=AT_ONCE,
    )
    draft: str | None = argument(
        arg.WHO_DRAFTS,
        "self|KIND|NAME|PATH",
        "--draft-model --speculative-algorithm",
        read=parse_text,
        shown="a published head that the engine runs, else eagle3",
        default=None,
        group="Draft",
    )
    draft_kv: arg.DraftKV = argument(default=None)
    draft_tp: arg.DraftTP = argument(default=None)
    alpha: arg.Alpha = argument(default=None)
    rate: arg.ChainRate = argument(default=None)
    tokens_per_iteration: arg.TokensPerIteration = argument(default=None)
    acceptance: arg.AcceptanceFile = argument(default=None)
    task: arg.Task = argument(default=None)
    acceptance_std: MaybeReal = argument(
        "Standard deviation of the acceptance across requests.",
        "SHARE",
        limits=(0, 0.5),
        shown=f"the published value for the model, else {DEFAULT_STD}",
        default=None,
        group="Acceptance",
    )
    max_gamma: arg.MaxGamma = argument(default=DEFAULT_MAX_GAMMA)
    input_std: Real = argument("Standard deviation of --input-len.", arg.TOKENS, read=tokens, default=0.0)
    output_std: Real = argument("Standard deviation of --output-len.", arg.TOKENS, read=tokens, default=0.0)
    burstiness: Real = argument(
        "Shape parameter of the inter-arrival time distribution: 1 for Poisson arrivals, smaller values for "
        "bursts.",
        "SHAPE",
        limits=(0.01, 1000),
        default=1.0,
        needs=("request_rate",),
    )
    schedule: str | None = argument(
        "How passes combine prefill and decoding; mixed is SGLang's --enable-mixed-chunk.",
        choices=tuple(each.value for each in PassOrder),
        shown="the engine's default for its version",
        default=None,
        group="Engine",
    )
    long_prefill_token_threshold: MaybeWhole = argument(
        "Maximum number of tokens of one prompt in one pass, as in vLLM.",
        arg.TOKENS,
        shown="no limit",
        default=None,
        group="Engine",
    )
    schedule_conservativeness: Real = argument(
        "Multiplies the memory that SGLang or TensorRT-LLM reserves for future output tokens when it "
        "admits a request; 0 corresponds to TensorRT-LLM's MAX_UTILIZATION.",
        limits=(0, 10),
        default=1.0,
        group="Engine",
    )
    batch_wait_timeout_iters: Whole = argument(
        "Maximum number of passes for which a prompt waits for more prompts to arrive, as in TensorRT-LLM.",
        "PASSES",
        read=whole,
        limits=(0, 10_000),
        default=0,
        group="Engine",
        needs=("batch_wait_max_tokens_ratio",),
        why="below which prompts wait",
    )
    batch_wait_max_tokens_ratio: Real = argument(
        "Prompts stop waiting for more prompts once the next pass would use this share of its token budget.",
        "SHARE",
        limits=(0, 1),
        default=0.0,
        group="Engine",
        needs=("batch_wait_timeout_iters",),
        why="for which prompts wait",
    )
    attention_dp_timeout_iters: Whole = argument(
        "Maximum number of passes for which prompts wait until every data-parallel group has a prompt "
        "(TensorRT-LLM's enable_balance); 0 means no waiting.",
        "PASSES",
        read=whole,
        limits=(0, 10_000),
        default=0,
        group="Engine",
        needs=("dp",),
        why="whose groups wait for each other",
    )
    scheduler_recv_interval: Whole = argument(
        "Number of decoding passes between two checks for new requests, as in SGLang.",
        "PASSES",
        limits=(1, 10_000),
        default=1,
        group="Engine",
    )
    prefix_len: arg.PrefixLen = argument(default=None)
    prefix_hits: arg.PrefixHits = argument(default=1.0)
    prefix_block: MaybeWhole = argument(
        "Number of tokens per block of the prefix cache.",
        arg.TOKENS,
        shown="the engine's; larger for recurrent layers in vLLM",
        default=None,
        group="Prefix cache",
        needs=REUSED,
    )
    disable_eagle_block_drop: bool = argument(
        "Reuse the last cached block of a prompt even if there is a draft, like vLLM's option.",
        read=parse_switch,
        default=False,
        group="Prefix cache",
        needs=REUSED,
    )
    kv_offload: str | None = argument(
        "Where the caches of earlier prompts are stored; cpu and ram are other names for host. The answer "
        "compares reading a cache from this storage with recomputing the cache.",
        "host|c2c|nvme|remote:GB/S,SECONDS",
        read=parse_tier,
        shown="none",
        default=None,
        group="Prefix cache",
        needs=("prefix_len", "turns"),
        why="whose caches it keeps",
    )
    turns: Whole = argument(
        "Number of prompts per session; each prompt extends the previous one by its output and "
        "--turn-input-len new tokens.",
        "N",
        limits=(1, 1000),
        default=1,
        group="Prefix cache",
        without=("rollout",),
        why=AT_ONCE,
    )
    turn_input_len: MaybeWhole = argument(
        "Number of new prompt tokens in each turn after the first.",
        arg.TOKENS,
        default=None,
        group="Prefix cache",
    )
    think_time: Real = argument(
        "Mean time in seconds between an output and the session's next prompt.",
        "SECONDS",
        limits=(0, 1e6),
        default=0.0,
        group="Prefix cache",
        needs=("turns",),
        why="between which a session waits",
    )
    mix: str | None = argument(
        "YAML file with classes of requests that share the server; the answer gives each class's goodput.",
        "FILE",
        default=None,
        without=("trace", "rollout"),
        why="since its requests are drawn",
    )
    rollout: MaybeWhole = argument(
        "Predict a rollout of N requests that all arrive at the start; output lengths are log-normal or "
        "taken from --trace.",
        "N",
        limits=(1, 100_000),
        default=None,
        group="Rollout",
        without=("request_rate",),
        why="since all its requests come at the start",
    )
    alpha_by_age: Parsed[tuple[tuple[float, float], ...] | None, Any] = argument(
        "Acceptance as a function of the number of weight updates of the target, such as 0:0.75,8:0.6 (0.6 "
        "after 8 updates).",
        "AGE:ALPHA,...",
        read=parse_ages,
        default=None,
        group="Rollout",
        needs=("rollout",),
    )
    replay: bool = argument(
        "Simulate requests one by one at every load, even if the closed form is valid.",
        read=parse_switch,
        default=False,
    )
    closed_form: bool = argument(
        "Use only the closed form, without simulation; rows for which it is not valid carry a warning.",
        read=parse_switch,
        default=False,
        without=("replay", "trace", "mix"),
        why="which are simulated",
    )
    trace: str | None = argument(
        "File of requests to replay, with arrival times and numbers of prompt and output tokens (CSV or "
        "JSONL).",
        "FILE",
        default=None,
    )
    prefill: str | None = argument(
        "Prefill pool: number of instances x GPUs per instance (2x4), with optional DP and EP degrees "
        "(2x4:dp4,ep4).",
        "NxGPUS[:dpN,epN]",
        read=parse_instances,
        shown="one pool for prefill and decode",
        default=None,
        group="Pools",
        needs=("decode",),
        without=POOLS_WITHOUT,
        why=ONE_SERVER_ONLY,
    )
    decode: str | None = argument(
        "Decode pool, in the format of --prefill. With this flag, rates and clients are totals over all "
        "pools.",
        "NxGPUS[:dpN,epN]",
        read=parse_instances,
        shown="one pool for prefill and decode",
        default=None,
        group="Pools",
        needs=("prefill",),
        without=POOLS_WITHOUT,
        why=ONE_SERVER_ONLY,
    )
    kv_link: str | None = argument(
        "Link between the pools: bandwidth per device in GB/s, the fraction of this bandwidth that a "
        "transfer achieves, and the minimum transfer time in ms.",
        "GB/S[,SHARE[,MS]]",
        read=parse_kv_link,
        shown="the device's NIC",
        default=None,
        group="Pools",
        needs=("decode",),
    )
    prefill_draft: str = argument(
        "Whether the prefill pool runs the draft on prompts and sends the cache of the draft.",
        choices=("run", "none"),
        default="run",
        group="Pools",
        needs=("decode",),
    )
    decode_draft: str = argument(
        "Draft of the decode pool: the draft of --draft (run), no draft (none), or another draft.",
        "run|none|KIND|NAME",
        read=parse_text,
        default="run",
        group="Pools",
        needs=("decode",),
    )
    num_prompts: Whole = argument(
        "Number of random requests in a simulation; with --clients, without --replay, at least four per "
        "client, up to 50,000 clients.",
        "N",
        limits=(1, LONGEST),
        default=2000,
    )
    seed: Whole = argument("Random seed of the requests.", "N", read=whole, default=0, group="Run")
    price: arg.Price = argument(default=None)

    def check(self) -> None:
        if self._lengths_are_in_a_file():
            return  # the same question with the values of the file is checked instead
        self._check_load()
        self._check_deviations()
        self._check_measured_tokens()
        if (self.prefix_len or 0) > (self.input_len or 0):
            raise refuse("--prefix-len", None, f"at most --input-len {self.input_len}", self.prefix_len)
        if (self.turns > 1) != (self.turn_input_len is not None):
            raise InputError("--turns, --turn-input-len: both must be given, --turns from 2, or neither")
        if self.context_std:
            raise InputError("--context-std: must be left out of traffic; use --input-std and --output-std")

    def _lengths_are_in_a_file(self) -> bool:
        """Whether a trace or a mix has the lengths that the question does not state. Raises InputError if the
        question has neither file.
        """
        for name in ("input_len", "output_len"):
            if getattr(self, name) is None:
                if self.trace is None and self.mix is None:
                    raise InputError(f"{flag(name)}: must be given, or --trace")
                return True
        return False

    def _check_load(self) -> None:
        """Raises InputError for a question without a load, or with too many rows."""
        if self.rollout is None and self.request_rate is None and self.max_concurrency is None:
            raise InputError("--request-rate, --max-concurrency: one of them must be given, or both")
        if self.capped and len(self.max_concurrency or ()) != 1:
            raise InputError("--max-concurrency: must be one number with --request-rate")
        loads = max(len(self.request_rate or ()), len(self.max_concurrency or ()))
        rows = len(self.gamma) * loads
        if rows > MAX_LISTED:
            raise refuse(
                "--gamma, --request-rate, --max-concurrency", None, f"at most {MAX_LISTED} rows", rows
            )

    def _check_deviations(self) -> None:
        """Raises InputError for a standard deviation that no distribution of lengths has. The outputs of a
        rollout are log-normal, so any deviation is allowed for them.
        """
        names = ("input",) if self.rollout is not None else ("input", "output")
        for name in names:
            most = largest_std(float(getattr(self, f"{name}_len")))
            self.within(f"{name}_std", 0, most, f"from 0 to the mean / sqrt(3) = {most:.0f}")

    def _check_measured_tokens(self) -> None:
        """Raises InputError if the question does not state the draft length at which `tokens_per_iteration`
        was measured.
        """
        if self.tokens_per_iteration is None:
            return
        drafting = [policy for policy in self.gamma if policy.tokens not in (None, 0)]
        if len(drafting) != 1:
            raise InputError(
                "--tokens-per-iteration: needs one --gamma of 1 or more, at which it was measured"
            )

    @property
    def opens(self) -> bool:
        """Whether the loop is open, which means that requests arrive at a given rate and do not wait for
        earlier outputs.
        """
        return self.request_rate is not None

    @property
    def capped(self) -> bool:
        """Whether the loop is open and the number of requests at once is limited."""
        return self.opens and self.max_concurrency is not None
