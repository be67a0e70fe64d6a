"""The rows of two pools: at a request rate, and with a number of clients."""

from dataclasses import replace

import numpy as np

from perfmodel.answers.load.pool_row import PoolRow
from perfmodel.answers.load.pool_state import PoolState
from perfmodel.answers.load.slo import slo_share
from perfmodel.answers.load.two_pools import TwoPools

HALVINGS = 60
"""Number of bisection steps in the search for the request rate of clients."""
NOT_WAITING = 1e-6
"""Largest share of clients that counts as none."""


def row_at_rate(pools: TwoPools, rate: float, limits_s: dict[str, float]) -> PoolRow:
    """The row at a request rate. A rate above the capacity gives the row at capacity.

    - rate: requests per second of all instances together.
    - limits_s: latency limits, in seconds.
    """
    row = _row(pools, pools.state(min(rate, pools.max_rate)), None, limits_s)
    if rate <= pools.max_rate:
        return row
    return replace(row, saturated=True, slo_share=0.0 if limits_s else None)


def row_with_clients(pools: TwoPools, clients: float, think_s: float, limits_s: dict[str, float]) -> PoolRow:
    """The row for a number of clients. Each client waits for its output and then for `think_s` seconds. The
    request rate is the number of clients divided by the time between two requests of one client.

    - limits_s: latency limits, in seconds.
    """

    def sending(state: PoolState) -> float:
        """The number of clients that would send requests at the rate of a state."""
        return state.rate * (state.ttft_s + pools.lengths.decoded * state.tpot_s + think_s)

    low = 0.0
    high = pools.max_rate
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if sending(pools.state(middle)) < clients:
            low = middle
        else:
            high = middle
    state = pools.state(low)
    if not low:  # not one request fits
        return replace(_row(pools, state, clients, limits_s), saturated=True)
    above = pools.state(high)
    if sending(above) > clients:
        # if larger batches are not faster, different numbers of clients send at the same rate
        share = (clients - sending(state)) / (sending(above) - sending(state))
        state = state.between(above, share)
    waiting = clients - sending(state)
    if waiting > NOT_WAITING * clients:
        # the pool is full, and all other clients wait for it
        state = state.waited(waiting / low)
    return _row(pools, state, clients, limits_s)


def _row(pools: TwoPools, state: PoolState, clients: float | None, limits_s: dict[str, float]) -> PoolRow:
    """The row for a state.

    - clients: the number of clients; None for a request rate.
    """
    times = pools.times(state)
    ttft_p90, ttft_p99 = times.ttft.quantiles(0.9, 0.99).tolist()
    tpot_p90, tpot_p99 = (
        float(np.interp(state.batch, pools.batches, by_batch)) for by_batch in pools.tpot_percentiles
    )
    tokens = state.rate * pools.lengths.output_mean
    decode_used = float("inf")
    if pools.decode_rate:
        decode_used = state.rate / pools.decode_rate
    share_in_time = None
    if limits_s:
        share_in_time = float(slo_share(limits_s, times))
    return PoolRow(
        request_rate=state.rate,
        clients=clients,
        gamma=pools.steps.gamma,
        decode_batch=state.batch,
        decode_batch_per_gpu=state.batch / pools.decode.gpus,
        tpot_s=state.tpot_s,
        tpot_p90_s=tpot_p90,
        tpot_p99_s=tpot_p99,
        ttft_s=state.ttft_s,
        ttft_p90_s=ttft_p90,
        ttft_p99_s=ttft_p99,
        queue_s=state.queue_s + state.waiting_s,
        prefill_s=pools.prompts.alone_s,
        transfer_s=pools.transfer_s,
        first_step_s=state.step_s,
        prefill_used=state.used,
        decode_used=decode_used,
        limits="prefill" if pools.prefill_rate < pools.decode_rate else "decode",
        saturated=False,
        slo_share=share_in_time,
        output_tokens_per_s=tokens,
        output_tokens_per_s_per_gpu=tokens / pools.devices,
    )
