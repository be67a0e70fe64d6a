"""How long the passes of a server take, by the requests that decode in them: all that queueing needs of a `Scenario`.

A pass over n decoding requests takes `decode_s[n-1]`; a prompt that rides along adds `prompt_s[n-1]`, priced by the
same roofline on the tokens of both together, its own quadratic attention and the draft's prefill included.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfmodel import costs
from perfmodel.drafts.model_draft import ModelDraft
from perfmodel.kv.full import Full
from perfmodel.operations import Array
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.specs.request_costs import request_constants
from perfmodel.specs.stacks import engine_of
from perfmodel.speculation.capacity import memory_of
from perfmodel.speculation.scenario import Scenario

TOLL = 0.01
"""Share of time that another draft length must save: engines capture graphs and warm drafts anew for each change."""


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

    def alone_s(self, lengths: Lengths) -> float:
        """Seconds that an answer alone decodes."""
        return lengths.decoded / self.tokens_per_iteration * float(self.decode_s[0])

    def scaled(self, factor: float) -> "StepTimes":
        """All times of passes multiplied by a number."""
        return replace(self, decode_s=factor * self.decode_s, prompt_s=factor * self.prompt_s)

    def decode_at(self, batch: Array) -> Array:
        """`decode_s` between whole batches."""
        return np.interp(batch, self.batches, self.decode_s)

    def prompt_at(self, batch: Array) -> Array:
        """`prompt_s` between whole batches."""
        return np.interp(batch, self.batches, self.prompt_s)


def step_times(scenario: Scenario, lengths: Lengths, limits: Limits, gammas: Sequence[int]) -> list[StepTimes]:
    """The passes of each draft length. Raises InputError for one beyond what is known of acceptance."""
    context, drafted = lengths.context, np.asarray(gammas, np.int64)
    scenario = replace(scenario, context_std=lengths.context_std)
    n = np.arange(1.0, limits.max_num_seqs + 1)[:, None]
    decode = np.broadcast_to(
        scenario.target_pass_s(n, context, drafted.astype(np.float64) + 1.0), (n.size, drafted.size)
    )
    if drafted.any():
        draft, overhead = scenario.draft_token_s(n, np.asarray([context]), drafted), scenario.overhead_s(n, context)
        decode = decode + np.where(drafted > 0, drafted * draft + overhead, 0.0)
    gained = np.ravel(scenario.tokens_per_iteration(np.asarray(1.0), int(drafted.max(initial=0))))
    own = request_costs(scenario)
    prompts = prompt_s(scenario, n * (drafted + 1.0), lengths, drafted) * own.prompt_factor
    room = memory_of(scenario, 1.0, context, drafted.astype(float), limits.memory_fraction)
    free = room.available_bytes - own.reserved_bytes - room.weight_bytes - room.draft_weight_bytes
    sequences = np.broadcast_to(free / (room.kv_bytes + room.draft_kv_bytes), drafted.shape)
    times = []
    for at, gamma in enumerate(gammas):
        budget = (limits.max_num_batched_tokens - 1) // (gamma + 1)
        seats = max(int(min(sequences[at], limits.max_num_seqs, budget)), 0)
        times.append(
            StepTimes(
                gamma=gamma,
                tokens_per_iteration=float(gained[gamma]),
                decode_s=decode[: max(seats, 1), at],
                prompt_s=prompts[: max(seats, 1), at],
                seats=seats,
                kv_share=1.0 / sequences[at] if sequences[at] > 0 else np.inf,
                own_s=own.own_s + own.prompt_token_s * lengths.input_mean,
                passes_ahead=own.passes_ahead_drafting if gamma else own.passes_ahead,
            )
        )
    return times


@dataclass(frozen=True, slots=True)
class RequestCosts:
    """What a request costs beside its passes: see `perfmodel.specs.request_costs.EngineRequests`."""

    own_s: float = 0.0
    prompt_token_s: float = 0.0
    prompt_factor: float = 1.0
    passes_ahead: float = 0.0
    passes_ahead_drafting: float = 0.0
    reserved_bytes: float = 0.0


def request_costs(scenario: Scenario) -> RequestCosts:
    """Those of the scenario's engine; nothing for one that none were fitted for."""
    word = engine_of(scenario.machine.calibration)
    if word not in request_constants().engines:
        return RequestCosts()
    e = request_constants().engines[word]
    own_model = isinstance(scenario.draft, ModelDraft)
    ahead = e.passes_ahead_model_draft if own_model else e.passes_ahead
    return RequestCosts(
        e.request_s.value,
        e.prompt_token_s.value,
        e.prompt_factor.value,
        e.passes_ahead.value,
        ahead.value,
        e.reserved_bytes.value,
    )


def prompt_s(scenario: Scenario, decoding: Array, lengths: Lengths, gammas: NDArray[np.int64]) -> Array:
    """Seconds that a mean prompt adds to passes which run `decoding` tokens anyway, over ``[n, gamma]``."""
    prompt = lengths.input_mean
    both, alone = (_linear_s(scenario, tokens) for tokens in (decoding + prompt, decoding))
    square = prompt * (1.0 + lengths.input_cv**2)  # quadratic attention weighs long prompts by their square
    ops = costs.forward(scenario.target_shard, 1.0, square, 0.0, Full(), head_query=1.0)
    attention = sum(scenario.machine.op_predicted_s(op) for op in ops if op.kind == "attention") * prompt / square
    draft = 0.0
    if np.any(gammas):
        draft = float(scenario.setup_s(1.0, prompt))
        if not scenario.draft.shares_prefill:  # its passes load its weights anyway
            draft = max(draft - float(scenario.draft_pass_s(1.0, prompt)), 0.0)
    return np.maximum(both - alone, 0.0) + attention + np.where(np.asarray(gammas) > 0, draft, 0.0)


def _linear_s(scenario: Scenario, tokens: Array) -> Array:
    """Seconds of all but attention in a pass over so many tokens."""
    ops = costs.forward(scenario.target_shard, 1.0, tokens, 0.0, Full(), head_query=1.0)
    linear = [op for op in ops if op.kind not in ("attention", "upkeep")]
    return np.asarray(scenario.machine.predicted_s(linear, tokens))


def by_batch(times: Sequence[StepTimes], weight: Array | None = None) -> tuple[StepTimes, NDArray[np.int64]]:
    """Passes of a server that changes its draft length with the running batch, and the length at each n from 1.

    At each n the length that ends most requests a second, which is the best there is for every load: whatever the
    batch does next, more requests are done. A change must earn `TOLL` of the time at its n.
    """
    seats = min(t.seats for t in times)
    per_token = np.stack([t.decode_s[:seats] / t.tokens_per_iteration for t in times])
    chosen = np.empty(seats, np.int64)
    chosen[0] = np.argmin(per_token[:, 0])
    for n in range(1, seats):
        best, before = int(np.argmin(per_token[:, n])), chosen[n - 1]
        chosen[n] = best if per_token[best, n] < (1.0 - TOLL) * per_token[before, n] else before
    at = np.arange(seats)
    gained = np.array([t.tokens_per_iteration for t in times])[chosen]
    shares = np.ones(seats) if weight is None else weight
    mean = float(np.average(gained, weights=shares))
    longest = max((times[k] for k in set(chosen.tolist())), key=lambda t: t.gamma)
    decode = np.stack([t.decode_s[:seats] for t in times])[chosen, at] * mean / gained
    prompts = np.stack([t.prompt_s[:seats] for t in times])[chosen, at]
    merged = replace(longest, tokens_per_iteration=mean, decode_s=decode, prompt_s=prompts, seats=seats)
    return merged, np.array([t.gamma for t in times])[chosen]
