"""``perfmodel advise``: the best layout, draft, cache and draft length, or the baseline."""

from collections.abc import Sequence
from functools import partial

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.advise import advise as answer
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.draft_lengths import MAX_BATCHES
from perfmodel.answers.advice.likely import draft_to_measure, named_to_measure
from perfmodel.answers.advice.on_off import OnOff
from perfmodel.answers.advice.picks import Pick
from perfmodel.answers.advice.ranking import FrontPoint
from perfmodel.answers.advice.servers import servers
from perfmodel.answers.advice.tree_drafts import TreeDraft
from perfmodel.answers.point.verdict import SENTENCES
from perfmodel.answers.text import context_text, interval_text, kv_cache_text, ratio_text, seconds
from perfmodel.cli.advise_alternatives import alternatives, draft_text
from perfmodel.cli.advise_pools import print_pools
from perfmodel.cli.commands import LLAMA, Json, Verbose, command, takes
from perfmodel.cli.output import Column, say, say_whole, show, table, warn
from perfmodel.cli.panel import calibration
from perfmodel.specs import serving_engines

COLOURS = {
    "speculate": "green",
    "likely_speculate": "green",
    "likely_do_not_speculate": "red",
    "do_not_speculate": "red",
    "infeasible": "red",
    "too_close_to_call": "yellow",
    "unknown_acceptance": "yellow",
}
DRAFT = Column("draft", left=True)
SHOWN = 6
"""Most points of a front, and most rows of other layouts, that are printed."""


@command(example=f"{LLAMA} --context 32k")
@takes(AdviseQuery)
def app(question: AdviseQuery, verbose: Verbose = False, json: Json = False) -> None:
    """Find the best layout of GPUs, draft, KV method and budget, gamma and batch, or keep the baseline.

    --gpus searches all layouts: replicas, tensor parallelism, data-parallel attention and expert parallelism.
    Only drafts with a measured acceptance are searched: from --rate, a file or published results. The choice
    is a draft that the engine runs.
    """
    show(answer(question), json, partial(_print, verbose=verbose))


def _print(a: Advice, verbose: bool) -> None:
    q = a.query
    where = q.hardware if q.gpus is None else f"{q.gpus} x {q.hardware}"
    load = "under a load" if q.has_load else f"context {context_text(q.context)}"
    say(f"{q.model} on {where}, {load}, for {a.objective.name}", "bold")
    if a.pools is not None:
        print_pools(a.pools)
    if a.chosen is None and a.trees:
        say("Only a tree is feasible", "bold yellow")
    else:
        say(f"{SENTENCES[a.verdict]}{_headline(a)}", f"bold {COLOURS[a.verdict]}")
    if a.verdict != "unknown_acceptance":
        say(f"{a.reason[0].upper()}{a.reason[1:]}.")
    if a.chosen is not None:
        _table(a, verbose)
        say(_scope(a.chosen))
        say(f"KV cache of a server: {kv_cache_text(a.chosen.kv_cache)}.")
        if a.on_off is not None:
            say(_on_off(a.on_off, chosen=a.chosen.gamma > 0))
        _say_trees(a)
        for sentence in alternatives(a):
            say(sentence)
        if margins := _robust(a):
            say(f"{margins[0].upper()}{margins[1:]}.")
        if a.remedies:
            best = a.option or a.runner_up
            draft = f"At batch {best.batch} the draft" if best else "The draft"
            say(f"{draft} pays {' or '.join(remedy.text for remedy in a.remedies)}.")
        if a.likely:
            say(f"Measure it (metrics.txt: /metrics of a server with the draft): {a.likely[0].measure}")
        if a.chosen.power_w is not None:
            say(f"Energy: {a.chosen.joules_per_token:.2f} J per token, {a.chosen.power_w:.0f} W per device.")
        if a.chosen.runs_in is not None:
            say(f"Runs in: {a.chosen.runs_in}.")
        if (p := a.not_run) is not None:
            gain = ratio_text(a.gain(p) or p.speedup)
            point = f"{_point(p)}, {gain} the best baseline"
            say(
                f"Better, but this engine does not support it: {point}: {p.runs_in}; "
                "--any-draft chooses among all."
            )
        say(_searched(a), "dim")
    else:
        _say_trees(a)
    if verbose:
        _front(a)
        for left in a.skipped:
            say(f"skipped {left.draft} {left.draft_kv}: {left.reason}", "dim")
    elif a.skipped:
        unknown = sum("acceptance" in left.reason for left in a.skipped)
        counts = {"no acceptance known": unknown, "for other reasons": len(a.skipped) - unknown}
        reasons = [f"{count} skipped: {why}" for why, count in counts.items() if count]
        say(f"{'; '.join(reasons)} (--verbose lists them)", "dim")
    warn(a.warnings)
    if a.serve is not None:
        word = a.calibration.stack.partition(" ")[0] if a.calibration else ""
        line = a.serve.lines.get(word)
        if line is not None:
            _say_line(a.chosen, line)
            option = a.serve_option.lines.get(word) if a.serve_option is not None else None
            if option not in (None, line):
                say(_why_option(a))
                _say_line(a.option or a.chosen, option)
        if line is None or servers()[word].serves_files or servers()[word].alone:
            say("; ".join((a.serve_option or a.serve).notes), "dim")
        elif word in a.serve.remarks:
            say(f"{a.serve.remarks[word]}.")
    elif a.chosen is not None and a.calibration is not None:
        _say_no_line(a.calibration.stack.partition(" ")[0], a.option or a.chosen)


def _say_no_line(word: str, pick: Pick) -> None:
    """That no command line of a serving engine is known, and its name of the draft."""
    engine = serving_engines().get(word)
    if engine is None:
        return
    draft = engine.drafts.get(pick.draft or "")
    named = "" if draft is None else f"; it calls the draft {draft.method}, here of {pick.gamma} tokens"
    say(f"No command line is known for {engine.title}{named}.")


def _why_option(a: Advice) -> str:
    """What the second command line is for."""
    if a.option is not None:
        return f"With {draft_text(a.option)}, if your own measurement favours it:"
    if (usual := draft_to_measure(a.query, a.likely)) is not None:
        return f"To measure {usual.draft}, which gains even with a low acceptance for its kind:"
    named = named_to_measure(a.query, a.unmeasured)
    draft = (
        "the draft" if named is None else f"{named.draft}, which pays from alpha {named.smallest_alpha:.2f}"
    )
    return f"To measure {draft}:"


def _say_line(pick: Pick | None, line: str) -> None:
    """The command line of a server, and how many of them a choice starts."""
    if pick is not None and pick.replicas > 1:
        say(f"Start {pick.replicas} of these behind a router:")
    say_whole(line)


def _headline(a: Advice) -> str:
    """The choice in words, with its gain over the best baseline."""
    if a.chosen is None:
        return ""
    p = a.chosen
    if a.verdict == "unknown_acceptance":
        return f": {a.reason}"
    if a.query.has_load:
        return _headline_under_load(a, p)
    gain = a.gain(a.option or a.chosen)
    interval = a.robustness.gain_over_baseline_interval if a.robustness else None
    sure = interval_text(interval)
    if not p.gamma:
        choice = f": the baseline, batch {p.batch}"
        return choice if a.option is None else f"{choice}; with {_point(a.option)} {gain:.2f}x{sure}"
    over = "" if gain is None else f", {gain:.2f} times the best baseline{sure}"
    return f": {_point(p)}{over}"


def _point(p: Pick) -> str:
    """A draft with its length and batch, in words."""
    return f"{draft_text(p)}, gamma {p.gamma}, batch {p.batch}"


def _headline_under_load(a: Advice, p: Pick) -> str:
    """The choice in words, with its GPUs and TPOT over those of the best baseline; where its TPOT is not the
    shorter one, the rate of tokens.
    """
    if not p.gamma:
        choice = f": the baseline, {p.layout}"
        if (o := a.option) is None:
            return choice
        return f"{choice}; with {draft_text(o)}, gamma {o.gamma}, {o.layout}, TPOT {seconds(o.tpot_s)}"
    choice = f": {draft_text(p)}, gamma {p.gamma}, {p.layout}"
    if (b := a.baseline) is None:
        return choice
    gpus = "" if b.gpus == p.gpus else f"{_counted(p.gpus, 'GPU')} instead of {b.gpus}, "
    if p.tpot_s > b.tpot_s and p.all_servers_tokens_per_s > b.all_servers_tokens_per_s:
        rates = f"{p.all_servers_tokens_per_s:,.0f} tokens/s instead of {b.all_servers_tokens_per_s:,.0f}"
        return f"{choice}; {gpus}{rates}"
    return f"{choice}; {gpus}TPOT {seconds(p.tpot_s)} instead of {seconds(b.tpot_s)}"


def _table(a: Advice, verbose: bool) -> None:
    """The choice and its alternatives, a row each."""
    rows = [*_picks(a), *_other_kinds(a), *_other_layouts(a, verbose)]
    priced = any(p.cost_per_million_tokens for _, p in rows)
    kinds = [Column("hardware", left=True)] if a.by_hardware else []
    prices = [Column("$/Mtok", spare=1)] if priced else []
    point: list[Column | str] = [Column("layout", left=True), "GPUs", DRAFT, "gamma"]
    pace = ["TPOT", "tokens/s/GPU"]
    columns: list[Column | str] = ["", *kinds, *point]
    if a.query.has_load:
        columns += ["running", "TTFT", *pace, *prices, "SLO", Column("busy", spare=1)]
    else:
        columns += ["batch", *pace, *prices, "over baseline"]
    table(columns, [(name, *_row(a, p)) for name, p in rows])


def _picks(a: Advice) -> list[tuple[str, Pick]]:
    """Rows of the table: the choice, the optional draft, the second best, the best baseline if it is neither,
    and the best choice if nobody reads along.
    """
    named = {
        "chosen": a.chosen,
        "with a draft": a.option,
        "runner-up": a.runner_up,
        "best baseline": a.baseline,
    }
    named["with no bound"] = a.unbounded
    rows: list[tuple[str, Pick]] = []
    for name, pick in named.items():
        if pick is not None and pick not in (p for _, p in rows):
            rows.append((name, pick))
    return rows


def _other_kinds(a: Advice) -> list[tuple[str, Pick]]:
    """The choice on each other kind of device."""
    return [("other GPUs", p) for p in a.by_hardware[1:]]


def _other_layouts(a: Advice, verbose: bool) -> list[tuple[str, Pick]]:
    """The best point of each layout that has no row yet. A layout whose baseline has one may have another."""
    shown = {(p.layout, p.draft, p.gamma) for _, p in _picks(a)}
    others = [("other", p) for p in a.layouts if (p.layout, p.draft, p.gamma) not in shown]
    return others if verbose else others[:SHOWN]


def _scope(p: Pick) -> str:
    """The batch and the rate of one server, and those of all. Under a load the batch is a mean."""
    batch = f"On average at batch {p.batch}" if p.ttft_s is not None else f"At batch {p.batch}"
    all_gpus = "1 GPU" if p.gpus == 1 else f"all {p.gpus} GPUs"
    total = f"{p.all_servers_tokens_per_s:,.0f} tokens/s"
    groups = ""
    if p.dp > 1:
        per_group = -(-p.batch // p.dp)
        groups = f" ({per_group} per attention group)"
    if p.replicas == 1:
        return f"{batch} of the server{groups}: {total} on {all_gpus}."
    one = f"{p.throughput_tokens_per_s:,.0f} tokens/s per server"
    total += f" and {p.replicas * p.batch} sequences"
    return f"{batch} of each server{groups}: {one}; {total} on {all_gpus}."


def _on_off(switch: OnOff, chosen: bool) -> str:
    """The batches of one server at which a draft is on, in words. chosen: whether the choice drafts."""
    draft = f"The draft ({switch.draft}) {'is on' if chosen else 'may pay'}"
    start = "" if switch.on_from == 1 else f"from {switch.on_from} "
    if switch.off_from is None:
        return f"{draft} {start}up to {_counted(switch.looked_to, 'running sequence')} of a server."
    off = ", and off above" if chosen else ""
    return f"{draft} {start}below {_counted(switch.off_from, 'running sequence')} of a server{off}."


def _say_trees(a: Advice) -> None:
    """The best tree of each draft, and the drafts whose trees were not weighed."""
    for tree in a.trees:
        say(_tree(tree))
    if a.trees:
        say("The times of trees have no interval.")
    for skip in a.trees_skipped:
        say(f"No trees weighed: {skip.reason}.")


def _tree(tree: TreeDraft) -> str:
    """The best tree of a draft against the choice, in words."""
    shape = f"{_counted(tree.steps, 'step')} of {tree.candidates}, {tree.verified_tokens} tokens to verify"
    point = f"{tree.draft}, {shape}, {tree.layout}, batch {tree.batch}"
    pace = f"{seconds(tree.tpot_s)} per token, {ratio_text(tree.speedup)} the baseline"
    best = f"{point}; {pace}"
    if tree.over_choice is None:
        verdict = f"A tree meets the bound: {best}"
    elif tree.close:
        verdict = f"The best tree ({best}) is as good as the choice, too close to call"
    elif tree.wins:
        verdict = f"A tree wins, {ratio_text(tree.over_choice)} the choice: {best}"
    else:
        verdict = f"No tree wins: the best ({best}) is {ratio_text(tree.over_choice)} the choice"
    if tree.best_at is None:
        where = "no tree beats the chains and the baseline at any batch"
    elif tree.best_at[0] == tree.best_at[1]:
        where = f"one beats the chains and the baseline at batch {tree.best_at[0]}"
    else:
        where = f"one beats the chains and the baseline at batches {tree.best_at[0]} to {tree.best_at[1]}"
    start = f" ({' '.join(tree.flags)})" if tree.wins and tree.flags else ""
    return f"{verdict}; {where}{start}."


def _searched(a: Advice) -> str:
    """The search space in words, because its defaults decide the answer."""
    q = a.query
    c = a.calibration
    layouts = len(a.layouts)
    drafted = next((p for _, p in _picks(a) if p.acceptance_source), None)
    accepted = f"; acceptance of {draft_text(drafted)}: {drafted.acceptance_source}" if drafted else ""
    made = f"; calibration {calibration(c)}" if c is not None else ""
    if q.has_load:
        tried = f"{_counted(a.candidates, 'pair')} of layout and draft"
        return f"tried: {tried}, gamma to {q.max_gamma}{accepted}{made}"
    tried = f"tried: {a.candidates:,} points, {_counted(layouts, 'layout')}, {_batches(q)}, gamma to"
    share = "" if q.memory_fraction is None else f", {q.memory_fraction:.0%} of the memory"
    return f"{tried} {q.max_gamma}{share}{accepted}{made}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _batches(q: AdviseQuery) -> str:
    """The searched batches in words."""
    if q.batch is None:
        return f"batches to {MAX_BATCHES} per device"
    if len(q.batch) == 1:
        return f"batch {q.batch[0]} of a server"
    return f"batches {min(q.batch)} to {max(q.batch)} of a server"


def _front(a: Advice) -> None:
    fronts = {"baseline": a.pareto.baseline, "speculating": a.pareto.speculating}
    points = []
    for name, front in fronts.items():
        for p in _spread(front):
            points.append((name, *_pace(p), str(p.batch), str(p.gamma), p.layout, draft_text(p)))
    if points:
        columns = ("front", "TPOT", "tokens/s/GPU", "batch", "gamma", Column("layout", left=True), DRAFT)
        table(columns, points)


def _spread(front: Sequence[FrontPoint]) -> Sequence[FrontPoint]:
    """At most `SHOWN` points of a front, including both ends."""
    if len(front) <= SHOWN:
        return front
    last = len(front) - 1
    return [front[round(i * last / (SHOWN - 1))] for i in range(SHOWN)]


def _row(a: Advice, p: Pick) -> tuple[str, ...]:
    price = [] if p.cost_per_million_tokens is None else [f"{p.cost_per_million_tokens:.2f}"]
    gain = a.gain(p) if a.chosen is None or p.hardware == a.chosen.hardware else None
    last = ["-" if gain is None else ratio_text(gain)]
    ttft = []
    if a.query.has_load:
        ttft = ["-" if p.ttft_s is None else seconds(p.ttft_s)]
        last = [_share(p.slo_share), _share(p.load_share)]
    kind = [p.hardware] if a.by_hardware else []
    draft = draft_text(p) if p.gamma else "none"
    point = (p.layout, str(p.gpus), draft, str(p.gamma), str(p.batch))
    return (*kind, *point, *ttft, *_pace(p), *price, *last)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _pace(p: Pick | FrontPoint) -> tuple[str, str]:
    return seconds(p.tpot_s), f"{p.throughput_tokens_per_s_per_device:.0f}"


def _robust(a: Advice) -> str:
    r = a.robustness
    parts: list[str] = []
    if r is None:
        return ""
    if r.gain_over_runner_up is not None and a.runner_up != a.baseline:
        parts.append(f"{r.gain_over_runner_up:.2f} times the runner-up")
    if r.smallest_alpha is not None:
        parts.append(f"beats the baseline down to alpha {r.smallest_alpha:.2f} (now {r.alpha:.2f})")
    elif r.smallest_tokens_per_iteration is not None:
        parts.append(f"beats the baseline down to {r.smallest_tokens_per_iteration:.2f} tokens per iteration")
    return "; ".join(parts)
