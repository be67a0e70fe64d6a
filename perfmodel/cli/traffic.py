"""``perfmodel traffic``: predicted latency and throughput at a request rate, with and without a draft."""

from collections.abc import Iterator, Sequence

from perfmodel.answers.load.draft_limits import DraftLimits
from perfmodel.answers.load.load_verdict import TrafficVerdict
from perfmodel.answers.load.mixed_classes import ClassRow
from perfmodel.answers.load.offload import Offload
from perfmodel.answers.load.prefix_verdict import PrefixVerdict
from perfmodel.answers.load.rollout import RolloutRow
from perfmodel.answers.load.traffic import Traffic, traffic
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import MadeBy, Percentiles, TrafficRow, saturation_note
from perfmodel.answers.text import (
    NONE,
    clients,
    devices,
    draft_in_words,
    kv_cache_text,
    model_and_shape,
    request_rate,
    seconds,
)
from perfmodel.cli.commands import Json, takes
from perfmodel.cli.grouped_help import command
from perfmodel.cli.output import Column, say, show, table, warn
from perfmodel.cli.panel import calibration
from perfmodel.cli.traffic_pools import say_pools, share_text
from perfmodel.queueing.policies import in_words

COLUMNS = (
    "load",
    "draft tokens",
    Column("running", spare=3),
    "TTFT",
    "p99",
    "TPOT",
    Column("p50", spare=7),
    Column("p90", spare=6),
    Column("p99", spare=1),
    Column("e2e", spare=5),
    Column("tokens/s", spare=4),
    "SLO",
    "hits",
    Column("KV", spare=2),
    "replicas",
)
"""Columns of the table of loads and draft lengths."""
BY_CLASS = ("load", "draft tokens", "class", "TTFT", "p99", "TPOT", "p99", "SLO", "good/s", "tokens/s")
"""Columns of the table of classes of requests."""
ROLLED_OUT = ("age", "alpha", "draft tokens", "makespan", "last tenth", "tokens/s", "speedup", "per request")
"""Columns of the table of a rollout."""


@command(
    "traffic",
    example=(
        "--model gpt-oss-120b --hardware h200 --input-len 8k --output-len 1k --request-rate 1,2 "
        "--draft eagle:features=3 --gamma 0,3 --alpha 0.6 --slo ttft:2000,tpot:30"
    ),
)
@takes(TrafficQuery)
def app(question: TrafficQuery, json: Json = False) -> None:
    """Should this server speculate at this request rate (or concurrency), with which draft length, and on how
    many replicas?

    Each row assumes that one server receives the whole load; `replicas` is the number of servers
    that the load requires. The answer always includes the baseline (0 draft tokens).
    """
    show(traffic(question), json, _print)


def _offload(a: Offload) -> str:
    """A sentence that compares reading from a tier with computing again, and its source."""
    kept = f"{a.bytes_per_token:,.0f} bytes per token on a device"
    if a.draft_share:
        kept += f", {a.draft_share:.1%} of them for the draft's cache"
    return f"{a.sentence}; {kept}; {a.source}"


def _print(a: Traffic) -> None:
    if a.pools is not None:
        say_pools(a.pools)
    names_draft = a.drafts or a.verdict == "unknown_acceptance"
    drafting = f"; {draft_in_words(a.draft, a.draft_kv)}" if names_draft else ""
    say(f"{model_and_shape(a.model, a.shape)} on {devices(a.hardware, a.tp * a.pp)}{drafting}", "bold")
    loads = a.rows if a.rollout is None else ()
    if a.rollout is None:
        _print_loads(loads, a.verdicts)
    else:
        say(_rollout(a.rollout), "bold")
        table(ROLLED_OUT, [_rollout_cells(row) for row in a.rollout])
    if a.classes is not None:
        say("by class, simulated request by request")
        table(BY_CLASS, [_class_cells(row) for row in a.classes])
    for line in _simulated(loads):
        say(line)
    say(f"saturated from {request_rate(a.rows[0].saturation_rate, '.3g')} without drafts")
    for line in _overloads(a.rows):
        say(line)
    say(f"KV cache of a server: {kv_cache_text(a.kv_cache, a.calibration.stack)}")
    if a.offload is not None:
        say(_offload(a.offload))
    for each in a.prefix or ():
        say(_prefix(each))
    for limits in a.drafts:
        say(_limits(limits, a.rows[0].request_rate is None))
    spread = f", std {a.acceptance_std:g} between requests ({a.acceptance_std_source})"
    differs = spread if a.drafts else ""
    say(f"calibration {calibration(a.calibration)}; acceptance {a.acceptance_source}{differs}", "dim")
    warn(a.warnings)
    warn(_row_warnings(loads))


def _print_loads(rows: Sequence[TrafficRow], verdicts: Sequence[TrafficVerdict]) -> None:
    """Prints the verdict of each load, the table of rows, and the intervals of the recommended rows."""
    for verdict in verdicts:
        say(_verdict(verdict), "bold")
    table(COLUMNS, [_cells(row) for row in rows])
    recommended = {(v.request_rate, v.concurrency, v.gamma) for v in verdicts}
    for row in rows:
        timed = row.tpot_interval or row.ttft_interval
        if timed and (row.request_rate, row.concurrency, row.gamma) in recommended:
            say(_intervals(row))


def _row_warnings(rows: Sequence[TrafficRow]) -> Iterator[str]:
    """The warnings of single rows, except for saturation, which has a separate line."""
    for row in rows:
        saturated = saturation_note(row.saturation_rate, row.replicas)
        yield from (f"{in_words(row.gamma)}: {note}" for note in row.warnings if note != saturated)


def _overloads(rows: Sequence[TrafficRow]) -> Iterator[str]:
    """The rates that one server cannot serve with any draft length, and the highest rate that it can
    serve.
    """
    by_rate = dict[float, list[TrafficRow]]()
    for row in rows:
        if row.request_rate is not None:
            by_rate.setdefault(row.request_rate, []).append(row)
    for rate, of_rate in by_rate.items():
        highest = max(row.saturation_rate for row in of_rate)
        if highest and all(row.saturated for row in of_rate):
            yield (
                f"{request_rate(rate, 'g')} is {rate / highest:.3g} times the rate that one server can "
                "serve: with too few replicas the queue grows without bound, and a request mostly waits"
            )


def _simulated(rows: Sequence[TrafficRow]) -> Iterator[str]:
    """Lines about the loads that were simulated, and the reasons."""
    why = dict[str, list[str]]()
    for row in rows:
        if row.made_by is MadeBy.REPLAY:
            why.setdefault(_load(row), []).extend(row.doubts)
    loads_by_reason = dict[str, list[str]]()
    for load, doubts in why.items():
        loads_by_reason.setdefault(", ".join(dict.fromkeys(doubts)), []).append(load)
    for reason, loads in loads_by_reason.items():
        line = f"simulated: {', '.join(loads)}"
        yield f"{line} (closed form not valid: {reason})" if reason else line


def _rollout(rows: tuple[RolloutRow, ...]) -> str:
    """A sentence about the fastest policy at the first age of the draft."""
    if not rows:
        return "rollout: no request fits in memory"
    first = [row for row in rows if row.age == rows[0].age]
    best = min(first, key=lambda row: row.makespan_s)
    text = f"rollout: {seconds(first[0].makespan_s)} without a draft"
    if best.gamma:
        text += f", {seconds(best.makespan_s)} with {in_words(best.gamma)}: {best.speedup:.2f}x"
        text += f", {best.stream_speedup:.2f}x per request"
    return text


def _rollout_cells(row: RolloutRow) -> tuple[str, ...]:
    age = "" if row.age is None else f"{row.age:g}"
    alpha = "" if row.alpha is None else f"{row.alpha:g}"
    times = (seconds(row.makespan_s), seconds(row.tail_s))
    speedups = (f"{row.speedup:.2f}x", f"{row.stream_speedup:.2f}x")
    return (age, alpha, str(row.gamma), *times, f"{row.output_tokens_per_s:,.0f}", *speedups)


def _class_cells(row: ClassRow) -> tuple[str, ...]:
    ttft = (_time(row.ttft_s, "mean"), _time(row.ttft_s, "p99"))
    tpot = (_time(row.tpot_s, "mean"), _time(row.tpot_s, "p99"))
    served = (f"{row.slo_share:.0%}", f"{row.goodput:.3g}", f"{row.output_tokens_per_s:,.0f}")
    return (_load(row), str(row.gamma), row.name, *ttft, *tpot, *served)


def _cells(row: TrafficRow) -> tuple[str, ...]:
    """One cell for each of `COLUMNS`."""
    load = (_load(row), str(row.gamma), f"{row.running_mean:.1f}")
    first = (_time(row.ttft_s, "mean"), _time(row.ttft_s, "p99"))
    each = tuple(_time(row.tpot_s, name) for name in ("mean", "p50", "p90", "p99"))
    whole = (_time(row.e2e_s, "mean"), f"{row.output_tokens_per_s:,.0f}")
    shares = (share_text(row.slo_share), share_text(row.prefix_hit_rate), share_text(row.kv_share))
    return (*load, *first, *each, *whole, *shares, _replicas(row))


def _replicas(row: TrafficRow) -> str:
    """The replicas that a rate needs; empty for clients."""
    if row.request_rate is None:
        return ""
    return NONE if row.replicas is None else str(row.replicas)


def _intervals(row: TrafficRow) -> str:
    """The 90 % intervals of all figures of a row that have one, in words."""
    times = {"TPOT": row.tpot_interval, "TTFT": row.ttft_interval}
    parts = []
    for name, interval in times.items():
        if interval:
            low, high = map(seconds, interval)
            parts.append(f"{name} {low} to {high}")
    if row.throughput_interval:
        served = " to ".join(dict.fromkeys(f"{end:,.0f}" for end in row.throughput_interval))
        parts.append(f"{served} tokens/s")
    return f"90 % intervals at {_load(row)} with {in_words(row.gamma)}: {', '.join(parts)}"


def _load(row: TrafficRow | ClassRow) -> str:
    parts = []
    if row.request_rate is not None:
        parts.append(f"{row.request_rate:.4g}/s")
    if row.concurrency is not None:
        parts.append(clients(row.concurrency))
    return " ".join(parts) or "burst"


def _time(times: Percentiles | None, name: str) -> str:
    return "unbounded" if times is None else seconds(getattr(times, name))


def _limits(limits: DraftLimits, closed: bool) -> str:
    """A sentence about the loads at which a draft length saturates, stops paying off, or changes.

    - closed: whether the loads are numbers of clients.
    """
    which = in_words(limits.gamma)
    if not limits.saturation_rate:
        return f"{which}: no request fits"
    text = f"{which}: saturated from {request_rate(limits.saturation_rate, '.3g')}"
    if limits.stops_paying_at is None:
        text += ", not slower than the baseline at any lower rate"
    else:
        load = limits.stops_paying_at
        words = f"{load:.3g} clients" if closed else request_rate(load, ".3g")
        text += f", no faster than the baseline from {words} on"
    if gains := limits.over_best_fixed:
        smallest = f"{min(gains):.2f}x"
        largest = f"{max(gains):.2f}x"
        ends = dict.fromkeys([smallest, largest])
        text += f", {' to '.join(ends)} the speed of the best single length at each load"
    for low, high, tokens in limits.table or ():
        text += f"; {low}-{high}: {tokens or 'off'}"
    return text


def _prefix(v: PrefixVerdict) -> str:
    """A sentence with the hit rates, the gains and losses per request, and the best changes."""
    load = clients(v.concurrency or 0)
    if v.concurrency is None and v.request_rate is not None:
        load = request_rate(v.request_rate)
    text = f"prefix cache at {load}: hit rate {v.hit_rate_without:.0%} without a draft, "
    text += f"{v.hit_rate:.0%} with {in_words(v.gamma)} (blocks of {v.block:,} tokens"
    text += ", the last block of a hit is computed again)" if v.dropped_tokens else ")"
    if v.net_s is None:
        text += f": the draft serves {'more' if v.pays else 'fewer'} requests than the baseline"
    else:
        text += f"; per request, decoding takes {_signed(v.decode_gain_s, 'less', 'more')}"
        text += f" and prefill {_signed(-v.recomputed_s, 'less', 'more')}"
        text += f": the draft {'pays off' if v.pays else 'does not pay off'}"
        text += f", {_signed(v.net_s, 'faster', 'slower')} than the baseline"
    for change in v.changes[:2]:
        text += f"; with {change.change} {'it pays off' if change.pays else 'it does not'}"
        if change.net_s is not None:
            text += f", {_signed(change.net_s, 'faster', 'slower')}"
    return text


def _signed(time_s: float, less: str, more: str) -> str:
    return f"{seconds(abs(time_s))} {less if time_s >= 0 else more}"


def _verdict(verdict: TrafficVerdict) -> str:
    if verdict.dollars_per_million_tokens is None:
        return verdict.reason
    return f"{verdict.reason}, {verdict.dollars_per_million_tokens:.2f} dollars per million output tokens"
