"""One row of an answer about separate prefill and decode pools."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolRow:
    """The prediction for two pools at one load and draft length. Rates are sums over all devices. A batch is
    that of one decode instance.

    - queue_s, prefill_s, transfer_s, first_step_s: the parts of the mean TTFT.
    - prefill_used, decode_used: the load of each pool divided by its capacity.
    - limits: the pool with the smaller capacity.
    - saturated: whether more requests arrive than a pool can serve. If so, the request rate is the capacity.
    - slo_share: share of requests within all latency limits; None without limits.
    - tpot_interval: 90 % interval of the mean TPOT; None if no error is known.
    """

    request_rate: float
    clients: float | None
    gamma: int
    decode_batch: float
    decode_batch_per_gpu: float
    tpot_s: float
    tpot_p90_s: float
    tpot_p99_s: float
    ttft_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    queue_s: float
    prefill_s: float
    transfer_s: float
    first_step_s: float
    prefill_used: float
    decode_used: float
    limits: str
    saturated: bool
    slo_share: float | None
    output_tokens_per_s: float
    output_tokens_per_s_per_gpu: float
    tpot_interval: tuple[float, float] | None = None
