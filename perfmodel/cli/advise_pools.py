"""Prints the answer of ``perfmodel advise`` that compares one pool of servers with separate prefill and
decode pools.
"""

from perfmodel.answers.advice.pools.option import PoolAdvice, PoolOption
from perfmodel.answers.text import seconds
from perfmodel.cli.output import Column, say, say_whole, table

NONE = "-"
COLUMNS = (
    Column("pools", left=True),
    Column("draft", left=True),
    "requests/s",
    "per GPU",
    Column("P:D", spare=2),
    "GPUs needed",
    "TTFT",
    Column("p90", spare=4),
    "TPOT",
    Column("p90", spare=3),
    Column("SLO", spare=1),
)


def print_pools(advice: PoolAdvice) -> None:
    """Prints the option with the highest request rate within the SLO, and the number of GPUs that the given
    rate needs. A table of the options and commands for more figures follow.
    """
    say(f"{advice.sentence}.", "bold")
    say(f"{advice.for_rate}.", "bold")
    if advice.options:
        table(COLUMNS, [_cells(option) for option in advice.options])
    if advice.ratios:
        say(f"{advice.ratios}.")
    for note in advice.notes:
        say(f"{note}.")
    kinds = [option for two in (True, False) if (option := advice.best(two))]
    if kinds:
        say("These commands give more figures and intervals for this load:")
    for option in kinds:
        say_whole(option.check)
    _say_servers(advice)
    say("one pool, as equal servers behind a router:", "bold")


def _say_servers(advice: PoolAdvice) -> None:
    """Prints the command lines of both pools, if two pools are the choice."""
    chosen = advice.chosen
    if chosen is None or not chosen.start:
        return
    for each in chosen.start:
        number = "1 server" if each.servers == 1 else f"{each.servers} servers"
        if each.line is None:
            say(f"No command line is known for the {each.pool} pool.")
            return
        say(f"{each.pool} pool, {number}:")
        say_whole(each.line)
        if each.nodes:
            say(f"{each.nodes}.")
    if advice.router:
        say(f"{advice.router}.")


def _cells(option: PoolOption) -> tuple[str, ...]:
    """One cell for each of `COLUMNS`."""
    draft = option.drafting if option.gamma else "none"
    rates = (f"{option.most_requests_per_s:.3g}", f"{option.most_requests_per_s_per_gpu:.3g}")
    ratio = NONE if option.ratio is None else f"{option.ratio:.2f}"
    needed = NONE if option.needed_gpus is None else str(option.needed_gpus)
    times = (option.ttft_s, option.ttft_p90_s, option.tpot_s, option.tpot_p90_s)
    shown = [NONE if time is None else seconds(time) for time in times]
    share = NONE if option.slo_share is None else f"{option.slo_share:.0%}"
    return (option.layout, draft, *rates, ratio, needed, *shown, share)
