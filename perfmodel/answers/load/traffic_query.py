"""A question to `traffic`, with values that follow from its arguments, such as lengths, loads and limits."""

import math
from dataclasses import replace
from functools import cached_property

import numpy as np

from perfmodel.answers.declaration import question
from perfmodel.answers.load.loop import Loop
from perfmodel.answers.load.traffic_arguments import TrafficArguments
from perfmodel.answers.load.traffic_words import DEFAULT_STD
from perfmodel.answers.question.named import engine_named
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.prefix import PrefixSettings, Reuse
from perfmodel.specs import VERSION_SEPARATOR, load_gpu, parse_engine, serving_engines
from perfmodel.specs.engines.served_requests import PassOrder
from perfmodel.specs.engines.serving import ServingEngine
from perfmodel.speculation.accounts.base import ServerSettings
from perfmodel.speculation.accounts.of_engine import account_of


@question
class TrafficQuery(TrafficArguments):
    """A question to `traffic`."""

    @property
    def group_seats(self) -> int:
        """The largest number of requests that one data-parallel attention group runs at once: the stated
        number, or else the engine's default.
        """
        return self.max_num_seqs or self._default_seats()

    @property
    def planned(self) -> "TrafficQuery":
        """The same question with `max_num_seqs` filled in, as in a printed command."""
        return replace(self, max_num_seqs=self.group_seats)

    def _default_seats(self) -> int:
        """The default number of requests that the engine runs at once."""
        served = self._served
        if served is not None and served.slots is not None:
            return served.slots
        if served is None or served.seats is None:
            return Limits().max_num_seqs
        _, _, version = parse_engine(engine_named(self)).partition(VERSION_SEPARATOR)
        return served.seats.of(version, load_gpu(self.hardware))

    @property
    def _served(self) -> ServingEngine | None:
        """The data of the engine; None for a calibration without an engine."""
        word, _, _ = parse_engine(engine_named(self)).partition(VERSION_SEPARATOR)
        return None if self.calibration else serving_engines().get(word)

    @property
    def _reserved_output(self) -> float:
        """The share of future output tokens for which memory is reserved when a request is admitted."""
        served = self._served
        if served is None or served.reserved_output is None:
            return 0.0
        return served.reserved_output.at(self.schedule_conservativeness)

    @property
    def _drafting_seats(self) -> int | None:
        """The number of requests that a server runs at once with a draft, if this default differs; otherwise
        None.
        """
        served = self._served
        if self.max_num_seqs or served is None or served.seats is None:
            return None
        return served.seats.drafting

    def _budget(self) -> int:
        """The default token budget of one pass of an attention group."""
        word, _, version = parse_engine(engine_named(self)).partition(VERSION_SEPARATOR)
        default = Limits().max_num_batched_tokens
        if self.calibration:
            return default
        return account_of(word, ServerSettings(version)).budget(load_gpu(self.hardware)) or default

    @property
    def in_lockstep(self) -> bool:
        """Whether clients stay in step, because all outputs have the same length and a client sends its next
        request at once.
        """
        return not (self.output_std or self.think_time)

    @property
    def first(self) -> Lengths:
        """The lengths of the first request of a session, in tokens."""
        return Lengths(
            float(self.input_len or 0), float(self.output_len or 0), self.input_std, self.output_std
        )

    @property
    def lengths(self) -> Lengths:
        """The lengths of a request in tokens, over all turns of a session."""
        if self.turns == 1:
            return self.first
        mean, std = self.reusing.prompts
        return replace(self.first, input_mean=mean, input_std=std)

    @property
    def longest(self) -> int:
        """The context at the end of a session, in tokens."""
        turns = self.turns
        first = self.first
        return int(first.input_mean + turns * first.output_mean + (turns - 1) * self.reusing.turn_tokens)

    @property
    def reusing(self) -> Reuse:
        """The parts of prompts that requests share, which are a prefix and the earlier turns of a session."""
        engine = PrefixSettings(self.prefix_block, self.disable_eagle_block_drop)
        prefix = float(self.prefix_len or 0) if self.prefix_hits else 0.0
        return Reuse(
            self.first,
            prefix,
            self.prefix_hits,
            self.turns,
            float(self.turn_input_len or 0),
            self.think_time,
            engine,
        )

    @property
    def reuse(self) -> Reuse | None:
        """Like `reusing`, but None if requests share nothing."""
        reusing = self.reusing
        return reusing if self.turns > 1 or reusing.prefix else None

    @cached_property
    def limits(self) -> Limits:
        """The limits of the server's scheduler, such as the number of requests at once and the number of
        tokens per pass.
        """
        groups = self.dp  # each group has its own seats and token budget
        return Limits(
            max_num_seqs=groups * self.group_seats,
            max_num_batched_tokens=groups * (self.max_num_batched_tokens or self._budget()),
            memory_fraction=self.memory_fraction,
            max_prompt_part=self.long_prefill_token_threshold,
            order=None if self.schedule is None else PassOrder(self.schedule),
            poll_passes=self.scheduler_recv_interval,
            drafting_seats=self._drafting_seats,
            reserved_output=self._reserved_output,
            batch_wait_passes=self.batch_wait_timeout_iters,
            batch_wait_share=self.batch_wait_max_tokens_ratio,
            balance_passes=self.attention_dp_timeout_iters,
        )

    @cached_property
    def loop(self) -> Loop:
        """The loads of the question, which are request rates or numbers of clients.

        If sessions have think times, only their first turns arrive in bursts.
        """
        bursts = (1.0 / self.burstiness - 1.0) / (self.turns if self.think_time else 1)
        loads = self.request_rate if self.opens else self.max_concurrency
        cap = None
        if self.opens and self.max_concurrency:
            cap = int(self.max_concurrency[0])
        return Loop(
            opens=self.opens,
            values=np.asarray(loads, float).ravel(),
            lengths=self.lengths,
            burstiness=1.0 / (1.0 + bursts),
            think_s=self.reusing.think_of_all_s,
            cap=cap,
        )

    @property
    def capped_loop(self) -> Loop:
        """A closed loop whose number of clients is the limit on requests at once (`--max-concurrency`) of an
        open loop.
        """
        loop = self.loop
        return replace(loop, opens=False, values=np.array([float(loop.cap or 1)]), cap=None)

    @property
    def most_at_once(self) -> float:
        """The largest number of requests that can be at the server. The number is infinite for request rates
        without a limit on requests at once.
        """
        clients = math.inf if self.max_concurrency is None else float(max(self.max_concurrency))
        return clients if self.rollout is None else min(clients, float(self.rollout))

    @property
    def replays(self) -> bool:
        """Whether every row comes from a replay. If not, only rows at which the closed form is not accurate
        come from replays.
        """
        return self.rollout is None and (self.replay or self.trace is not None or self.mix is not None)

    @property
    def settles(self) -> bool:
        """Whether a replay has clients in steady state, without their first requests. A replay that the
        question asks for includes these, as a benchmark does. Sessions differ in their first turns.
        """
        return not (self.opens or self.replays or self.turns > 1)

    @property
    def stated_lengths(self) -> tuple[int, ...] | None:
        """The draft lengths that the question states; None if a policy leaves them open."""
        lengths = tuple(policy.tokens for policy in self.gamma if policy.tokens is not None)
        return lengths if len(lengths) == len(self.gamma) else None

    @property
    def draws(self) -> bool:
        """Whether the requests of a replay are random, with the lengths that the question states."""
        return self.trace is None and self.mix is None

    @property
    def spread(self) -> float:
        """The standard deviation of acceptance between requests."""
        return DEFAULT_STD if self.acceptance_std is None else self.acceptance_std

    @property
    def limits_s(self) -> dict[str, float]:
        """The latency limits in seconds, by name; empty without an SLO."""
        return {name: limit / 1e3 for name, limit in (self.slo or {}).items()}
