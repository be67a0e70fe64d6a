"""How long the passes of a server take, by the requests that decode in them: all that queueing needs of a `Scenario`.

A pass over n decoding requests takes `decode_s[n-1]`; a prompt that rides along adds `prompt_s[n-1]`, priced by the same
roofline on the tokens of both together, its own quadratic attention and the draft's prefill included.
"""

from dataclasses import dataclass, replace

import numpy as np

from perfmodel import costs
from perfmodel.kv.full import Full
from perfmodel.operations import Array
from perfmodel.serving.load import Lengths, Limits
from perfmodel.speculation.capacity import memory_of
from perfmodel.speculation.scenario import Scenario


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Passes that draft `gamma` tokens, by running batch 1 ... `seats`.

    tokens_per_iteration: gained by a request in one, the bonus token included. seats: most requests at once, by
    max_num_seqs, the KV room and the token budget of a pass (0: not one fits). kv_share: of the room that one takes.
    own_s: seconds of a request outside any pass. passes_ahead: passes already handed to the device when one arrives.
    """

    gamma: int
    tokens_per_iteration: float
    decode_s: Array
    prompt_s: Array
    seats: int
    kv_share: float
    own_s: float = 0.0
    passes_ahead: float = 0.0

    @property
    def batches(self) -> Array:
        """1 ... seats, at least one."""
        return np.arange(1.0, self.decode_s.size + 1)

    def scaled(self, factor: float) -> "StepTimes":
        """All times of passes multiplied by a number."""
        return replace(self, decode_s=factor * self.decode_s, prompt_s=factor * self.prompt_s)

    def decode_at(self, batch: Array) -> Array:
        """`decode_s` between whole batches."""
        return np.interp(batch, self.batches, self.decode_s)

    def prompt_at(self, batch: Array) -> Array:
        """`prompt_s` between whole batches."""
        return np.interp(batch, self.batches, self.prompt_s)


def step_times(scenario: Scenario, lengths: Lengths, limits: Limits, gammas: tuple[int, ...]) -> list[StepTimes]:
    """The passes of each draft length; a length without an acceptance gains nan tokens."""
    context = lengths.context
    scenario = replace(scenario, context_std=lengths.context_std)
    n = np.arange(1.0, limits.max_num_seqs + 1)
    drafted = np.asarray(gammas, np.int64)
    passes = np.asarray(scenario.target_pass_s(n[:, None], np.asarray([context]), drafted + 1.0))
    deepest = int(drafted.max(initial=0))
    decode = passes
    if deepest:
        draft = scenario.draft_token_s(n[:, None], np.asarray([context]), drafted)
        overhead = np.asarray(scenario.overhead_s(n, context))[:, None]
        decode = passes + np.where(drafted > 0, drafted * draft + overhead, 0.0)
    gained = np.ravel(scenario.tokens_per_iteration(np.asarray(1.0), deepest))
    times = []
    for at, gamma in enumerate(gammas):
        room = memory_of(scenario, 1.0, context, float(gamma), limits.memory_fraction)
        sequences = float((room.available_bytes - room.weight_bytes - room.draft_weight_bytes) / (room.kv_bytes + room.draft_kv_bytes))
        seats = int(min(sequences, limits.max_num_seqs, (limits.max_num_batched_tokens - 1) // (gamma + 1)))
        last = max(seats, 1)
        times.append(
            StepTimes(
                gamma=gamma,
                tokens_per_iteration=float(gained[gamma]),
                decode_s=np.broadcast_to(decode[:, at], n.shape)[:last],
                prompt_s=prompt_s(scenario, n[:last] * (gamma + 1.0), lengths, gamma),
                seats=max(seats, 0),
                kv_share=1.0 / sequences if sequences > 0 else np.inf,
            )
        )
    return times


def prompt_s(scenario: Scenario, decoding: Array, lengths: Lengths, gamma: int) -> Array:
    """Seconds that a prompt adds to a pass which runs `decoding` tokens anyway."""
    prompt = lengths.input_mean
    square = prompt * (1.0 + lengths.input_cv**2)  # quadratic attention weighs long prompts by their square
    whole = _linear_s(scenario, decoding + prompt) - _linear_s(scenario, decoding)
    machine, part = scenario.machine, scenario.target_shard
    attention = [op for op in costs.forward(part, 1.0, square, 0.0, Full(), head_query=1.0) if op.kind == "attention"]
    whole = whole + sum(machine.op_predicted_s(op) for op in attention) * prompt / square
    if gamma and not scenario.draft.shares_prefill:
        alone = scenario.setup_s(1.0, prompt) - np.asarray(scenario.draft_pass_s(1.0, prompt))
        whole = whole + np.maximum(alone, 0.0)
    elif gamma:
        whole = whole + scenario.setup_s(1.0, prompt)
    return np.maximum(np.asarray(whole, float), 0.0)


def _linear_s(scenario: Scenario, tokens: Array) -> Array:
    """Seconds of all but attention in a pass over so many tokens."""
    ops = costs.forward(scenario.target_shard, 1.0, tokens, 0.0, Full(), head_query=1.0)
    linear = [op for op in ops if op.kind not in ("attention", "upkeep")]
    return np.asarray(scenario.machine.predicted_s(linear, tokens))
