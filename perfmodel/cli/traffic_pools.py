"""Prints the answer of ``perfmodel traffic`` for separate prefill and decode pools."""

from perfmodel.answers.load.pool_row import PoolRow
from perfmodel.answers.load.pools_answer import Pools
from perfmodel.answers.text import clients, seconds
from perfmodel.cli.output import Column, say, table
from perfmodel.queueing.policies import in_words

POOLS = (
    "load",
    "draft tokens",
    Column("decode batch", spare=3),
    "TPOT",
    Column("p99", spare=2),
    "TTFT",
    "p99",
    Column("queue", spare=5),
    Column("prefill", spare=5),
    Column("transfer", spare=4),
    Column("step", spare=6),
    "P used",
    "D used",
    "SLO",
    "tokens/s/GPU",
)


def say_pools(a: Pools) -> None:
    """Prints an answer for separate prefill and decode pools."""
    say(a.sentence, "bold")
    table(POOLS, [_pool_cells(row) for row in a.rows])
    if a.best.tpot_interval is not None:
        low, high = map(seconds, a.best.tpot_interval)
        say(f"90 % interval of TPOT with {in_words(a.best.gamma)}: {low} to {high}")
    say(f"{a.transfer_bytes / 1e6:.3g} MB of cache on a device for each prompt; link: {a.transfer_source}")
    if a.prefix_hit_rate is not None:
        say(f"{a.prefix_hit_rate:.0%} of the prompt tokens are found in the caches of the prefill pool")
    prefill, decode = a.best_split[a.best.gamma]
    sizes = [each.partition("x")[2] for each in (a.prefill, a.decode)]
    gpus = a.prefill_gpus + a.decode_gpus
    say(f"highest rate of {gpus} GPUs: --prefill {prefill}x{sizes[0]} --decode {decode}x{sizes[1]}")
    for note in a.notes:
        say(note)
    say("the same GPUs as one pool in the decode layout, each server with its share of the load:", "bold")


def _pool_cells(row: PoolRow) -> tuple[str, ...]:
    load = f"{row.request_rate:.3g}/s" if row.clients is None else clients(round(row.clients))
    first = (row.ttft_s, row.ttft_p99_s)
    parts = (row.queue_s, row.prefill_s, row.transfer_s, row.first_step_s)
    times = map(seconds, (row.tpot_s, row.tpot_p99_s, *first, *parts))
    used = (f"{row.prefill_used:.0%}", f"{row.decode_used:.0%}")
    batch = f"{row.decode_batch:.1f}"
    rate = f"{row.output_tokens_per_s_per_gpu:.0f}" + (" (saturated)" if row.saturated else "")
    return (load, str(row.gamma), batch, *times, *used, share_text(row.slo_share), rate)


def share_text(share: float | None) -> str:
    """A share as text in per cent; empty if there is no share."""
    return "" if share is None else f"{share:.0%}"
