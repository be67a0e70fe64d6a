"""The answer about separate prefill and decode pools."""

from dataclasses import dataclass

from perfmodel.answers.load.pool_row import PoolRow


@dataclass(frozen=True, slots=True)
class Pools:
    """The answer about separate prefill and decode pools.

    - prefill, decode: the instances of each pool.
    - ratio: draft length -> the number of prefill devices per decode device with which both pools reach their
      capacity at the same rate.
    - best_split: draft length -> the numbers of prefill and decode instances that serve the highest rate on
      the same number of devices.
    - transfer_bytes: bytes that one decode device receives for a prompt.
    - prefix_hit_rate: share of prompt tokens that the prefix caches of the prefill pool hold; None without
      such caches.
    """

    prefill: str
    decode: str
    prefill_gpus: int
    decode_gpus: int
    rows: tuple[PoolRow, ...]
    ratio: dict[int, float]
    best_split: dict[int, tuple[int, int]]
    transfer_bytes: float
    transfer_source: str
    prefix_hit_rate: float | None
    notes: tuple[str, ...]

    @property
    def best(self) -> PoolRow:
        """The row with the most output tokens per second at the last load. Among rows with equal throughput,
        the row with the shortest TPOT is the best.
        """
        last_load = self.rows[-len(self.ratio) :]  # a row for each draft length
        return max(last_load, key=lambda row: (round(row.output_tokens_per_s, 6), -row.tpot_s))

    @property
    def sentence(self) -> str:
        """A sentence with the best row and the ratio of the pools."""
        row = self.best
        plain = self.ratio[0]
        drafted = self.ratio[row.gamma]
        drafting = f"gamma {row.gamma}" if row.gamma else "no draft"
        each = f"{row.output_tokens_per_s_per_gpu:.0f} tokens/s per GPU, limited by {row.limits}"
        needed = f"{plain:.2f} prefill GPUs per decode GPU"
        ratios = f"{needed} without a draft, {drafted:.2f} with it" if row.gamma else needed
        where = f"Prefill {self.prefill}, decode {self.decode}"
        return f"{where}: {drafting}, {each}; full pools need {ratios}"
