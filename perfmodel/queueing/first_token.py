"""The time to a request's first token (TTFT), as moments of the sum of its delays.

TTFT is the sum of these times:

- time outside passes
- rest of the running pass
- passes that are already queued on the device
- other prompts
- passes that read the request's own prompt
- wait for a seat or for cache memory

Prompts queue as in an M/G/1 queue whose server takes a vacation for each decoding pass (Doshi 1986). A pass
has room for m prompts. For large m, all prompts that arrive during a pass join the next pass (gated service).
For m = 1, prompts are served one by one.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from perfmodel.operations import Array
from perfmodel.queueing.chain import TINY
from perfmodel.queueing.load import Lengths, whole_passes
from perfmodel.queueing.moments import Moments, mixed, sometimes, uniform
from perfmodel.queueing.occupancy import NEGLIGIBLE
from perfmodel.queueing.steps import StepTimes

FULL = 0.98
"""Largest load of the prompt queue for which its waiting time is computed. A server with a higher load is
saturated anyway.
"""


class PassSeconds(NamedTuple):
    """Seconds of a decoding pass (0 if no request decodes), and the seconds that a prompt adds to this
    pass.
    """

    decode: Array
    prompt: Array


@dataclass(frozen=True, slots=True)
class Meeting:
    """The delays of an arriving request if n requests decode, over ``[load, n]`` and in seconds.

    - wait: time until the next pass begins.
    - others: time of the prompts that are read before the request's own prompt or in the same pass.
    - pass_s: mean duration of a pass.
    """

    wait: Moments
    others: Moments
    pass_s: Array


def at_any_time(
    steps: StepTimes, lengths: Lengths, batch: Array, rate: Array, burst: float, seen: Array, per_pass: Array
) -> Meeting:
    """The delays of a request that arrives at a random time, as in a Poisson process. The request waits for
    the rest of the running pass. A longer pass is proportionally more likely to be the running one.

    - batch: numbers n of decoding requests, ``[n]``.
    - rate: requests per second, ``[load]``.
    - burst: variance of the number of arrivals, divided by the variance for Poisson arrivals.
    - seen: probability that the request meets n decoding requests, ``[load, n]``.
    - per_pass: number of prompts that fit in a pass, ``[n]`` or ``[load, n]``. The delays lie between those
      of a queue that serves prompts one by one (1 prompt) and those of gated service (many prompts).
    """
    rate = np.asarray(rate, float)[:, None]
    passes = _passes(steps, batch)
    prompt_load = np.clip(rate * passes.prompt, 0.0, FULL)
    pass_s = passes.decode / (1.0 - prompt_load)
    met_s = _met_pass_s(passes.prompt, steps.prompt_cv(lengths), rate, burst, prompt_load, pass_s)
    without_decoding = rate * passes.prompt * steps.running_s[0]
    gated_s = np.where(batch > 0, prompt_load * met_s, without_decoding) * burst
    service_s = _service_s(steps, passes.prompt, batch, per_pass)
    busy = np.clip(np.sum(seen * rate * service_s, 1, keepdims=True), NEGLIGIBLE, FULL)
    service_cv = steps.prompt_cv(lengths) * passes.prompt / service_s
    queue_s = burst * service_s * (1.0 + service_cv**2) / (2.0 * (1.0 - busy))  # Pollaczek-Khinchine
    one_by_one = 1.0 / np.maximum(per_pass, 1.0)  # 1: one by one, 0: all at once
    # one by one: the prompt in the running pass belongs to the queue, so only its decoding is waited for
    wait = uniform(passes.decode).times(one_by_one) + uniform(met_s).times(1.0 - one_by_one)
    others_s = one_by_one * queue_s + (1.0 - one_by_one) * gated_s / busy
    return Meeting(wait, sometimes(busy, others_s), pass_s)


def _met_pass_s(
    prompt_s: Array, prompt_cv: Array | float, rate: Array, burst: float, prompt_load: Array, pass_s: Array
) -> Array:
    """Mean seconds of the pass that an arriving request meets: the mean square of the durations of passes
    over their mean. A pass reads the prompts that arrived during the previous pass (gated service), and their
    number makes its duration vary.

    - prompt_cv: standard deviation of a prompt's seconds over their mean.
    - prompt_load: share of the time in which prompts are read.
    - pass_s: mean seconds of a pass.
    """
    square = prompt_s**2 * (1.0 + prompt_cv**2)
    variance = burst * square * rate * pass_s / (1.0 - prompt_load**2)
    return pass_s + np.divide(variance, pass_s, out=np.zeros_like(variance), where=pass_s > 0)


def _service_s(steps: StepTimes, prompt_s: Array, batch: Array, per_pass: Array) -> Array:
    """Seconds that the server spends on a prompt, with its share of the decoding passes that read it."""
    return prompt_s + _passes(steps, np.maximum(batch, 1.0)).decode / per_pass


def as_passes_end(steps: StepTimes, batch: Array, ends: Array, per_pass: Array, idle: Array) -> Meeting:
    """The delays of a request in a closed loop. The client sends the request when the previous answer ends,
    which is at the end of a pass. The request waits for the whole pass that begins then.

    - ends: mean number of other clients that send at the end of the same pass. Half of their prompts are
      ahead of the request's own prompt. The other half share its pass if the token budget allows. Otherwise
      the request waits for one more pass.
    - idle: number of other clients that do not decode. At most this many prompts can be ahead.
    """
    decode, prompt = _passes(steps, batch)
    ends = ends[:, None]
    pass_s = np.where(batch > 0, decode + ends * prompt, 0.0)
    variance = np.where(batch > 0, ends * prompt**2, 0.0)
    wait = Moments(missed_s(steps, decode, prompt, ends), variance)
    beside = np.clip(per_pass - 1.0, 0.0, 1.0)
    more = np.where((per_pass >= 1.0) & (per_pass < 2.0), ends / 2.0 * decode, 0.0)
    ahead = ends * prompt * (1.0 + beside) / 2.0
    others = (ahead + more) * backlog(ends, per_pass)
    most = idle[:, None] * (prompt + decode / per_pass)
    others = np.minimum(others, most)
    prompts = Moments(others, others * prompt, others * prompt**2)  # their number has a Poisson distribution
    return Meeting(wait, prompts, pass_s)


def first_token(
    steps: StepTimes, lengths: Lengths, batch: Array, seen: Array, per_pass: Array, m: Meeting
) -> Moments:
    """Time to the first token, without the wait for a seat or for cache memory. When the request arrives,
    `batch` other requests are decoding with probability `seen`.

    - per_pass: number of prompts that fit in a pass.

    `batch` and `per_pass` are arrays over ``[n]`` or ``[load, n]`` with n from 0.
    """
    decode, prompt = _passes(steps, batch)
    own = np.maximum(decode, steps.running_s[0])  # a pass with only a prompt also reads the weights
    ahead = Moments(steps.own_s + steps.passes_ahead * m.pass_s)
    mean = own_passes_of(steps, lengths, per_pass, batch) * own + prompt
    deviation = steps.prompt_cv(lengths) * prompt
    own_passes = Moments(mean, deviation**2, least=steps.own_s + 0.5 * prompt)
    return mixed(seen, m.wait + ahead + m.others + own_passes)


def missed_s(steps: StepTimes, decode: Array, prompt: Array, ends: Array) -> Array:
    """Seconds that a request of a closed loop waits for its first pass, in addition to the time `own_s`
    outside passes.

    A client sends when a pass ends and misses the pass that begins then. If `own_s` is longer than that
    pass, the request arrives at a random time during a later pass. All arrays are over ``[n]`` or ``[load,
    n]``.
    """
    pass_s = decode + ends * prompt
    met = (pass_s**2 + ends * prompt**2) / (2.0 * np.maximum(pass_s, TINY))
    missed = np.where(steps.own_s < decode, pass_s - steps.own_s, met)
    return np.where(decode > 0, missed, 0.0)


def backlog(ends: Array, per_pass: Array) -> Array:
    """Factor (at least 1) that multiplies the time for which a prompt of a closed loop waits for other
    prompts. The factor accounts for prompts that did not fit in earlier passes.
    """
    busy = np.minimum(ends / per_pass, 1.0 - 1e-6)
    return np.asarray(1.0 / (1.0 - busy ** np.maximum(np.floor(per_pass), 1.0)))


def _passes(steps: StepTimes, batch: Array) -> PassSeconds:
    """The passes at these batches, interpolated between whole batch sizes."""
    running = np.maximum(batch, 1.0)
    seconds = np.interp(running, steps.batches, steps.running_s)
    return PassSeconds(np.where(batch > 0, seconds, 0.0), steps.prompt_at(running))


def own_passes_of(steps: StepTimes, lengths: Lengths, per_pass: Array, batch: Array) -> Array:
    """Expected number of passes that read a request's own prompt."""
    if steps.cached is None:
        return whole_passes(steps.uneven_groups / per_pass, lengths.input_cv)
    return steps.cached.passes(per_pass / steps.uneven_groups * steps.prompt_tokens(lengths, batch))
