"""Sentences that ``perfmodel advise`` prints about the choice and about the search space."""

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.advise_query import READING_S, AdviseQuery
from perfmodel.answers.advice.alternatives import batch_text
from perfmodel.answers.advice.draft_lengths import MAX_BATCHES
from perfmodel.answers.advice.likely import draft_to_measure, named_to_measure
from perfmodel.answers.advice.nearest import Nearest
from perfmodel.answers.advice.on_off import OnOff
from perfmodel.answers.advice.picks import Pick
from perfmodel.answers.advice.ranking import FrontPoint
from perfmodel.answers.advice.tree_drafts import TreeDraft
from perfmodel.answers.point.verdict import SENTENCES
from perfmodel.answers.question.typical import how_to_measure
from perfmodel.answers.text import interval_text, model_and_shape, range_text, ratio_text, seconds
from perfmodel.cli.panel import calibration
from perfmodel.reading import exists
from perfmodel.specs import load_model, serving_engines
from perfmodel.specs.boundary.files import SUFFIXES
from perfmodel.specs.models.variants import asked_name

COUNTERS_READ = ("vLLM", "SGLang", "llama.cpp")
"""Engines whose counters ``validate acceptance --import`` reads."""


def model_text(name: str) -> str:
    """The model of a question, as the user named it, and the bundled model whose shape it has."""
    if exists(name) or name.endswith(SUFFIXES):
        return name
    model = load_model(name)
    return name if asked_name(name, model) == model.name else model_and_shape(name, model.name)


def draft_text(p: Pick | FrontPoint) -> str:
    """The draft of a configuration and its KV method, such as ``self streamingllm:512``."""
    name = p.draft or "-"
    if p.draft_kv in (None, "full"):
        return name
    method = p.draft_kv.partition(",")[0]
    return f"{name} {method}"


def headline(a: Advice) -> str:
    """The choice in words, with its speedup over the best baseline."""
    if a.chosen is None:
        return ""
    if a.verdict == "unknown_acceptance":
        return f": {a.undecided_text}"
    words = _headline_under_load if a.query.has_load else _headline
    return f"{words(a, a.chosen)}{a.turned_text}{a.unmeasured_context}"


def _headline(a: Advice, p: Pick) -> str:
    """The choice in words, with its gain over the best baseline at its own batch."""
    gain = a.gain(a.option or p)
    interval = a.robustness.gain_over_baseline_interval if a.robustness else None
    sure = interval_text(interval)
    if not p.gamma:
        choice = f": the baseline, {batch_text(p.batch, p.replicas)}"
        return choice if a.option is None else f"{choice}; with {point_text(a.option)}: {gain:.2f}x{sure}"
    over = "" if gain is None else f", {gain:.2f} times the best baseline{sure}"
    return f": {point_text(p)}{over}"


def point_text(p: Pick) -> str:
    """A draft with its draft length and batch, in words."""
    return f"{draft_text(p)}, gamma {p.gamma}, {batch_text(p.batch, p.replicas)}"


def _headline_under_load(a: Advice, p: Pick) -> str:
    """The choice in words, with its GPUs and TPOT compared with those of the best baseline; if its TPOT is
    not shorter, the rate of tokens.
    """
    if not p.gamma:
        choice = f": the baseline, {p.layout}"
        if (o := a.option) is None:
            return choice
        tpot = f"TPOT {seconds(o.tpot_s)}{_at_mean_batch(a)}"
        return f"{choice}; with {draft_text(o)}, gamma {o.gamma}, {o.layout}, {tpot}"
    choice = f": {draft_text(p)}, gamma {p.gamma}, {p.layout}"
    if (b := a.baseline) is None:
        return choice
    gpus = "" if b.gpus == p.gpus else f"{_counted(p.gpus, 'GPU')} instead of {b.gpus}, "
    if p.tpot_s > b.tpot_s and p.all_servers_tokens_per_s > b.all_servers_tokens_per_s:
        rates = f"{p.all_servers_tokens_per_s:,.0f} tokens/s instead of {b.all_servers_tokens_per_s:,.0f}"
        return f"{choice}; {gpus}{rates}{_at_mean_batch(a)}"
    tpot = f"TPOT {seconds(p.tpot_s)} instead of {seconds(b.tpot_s)}"
    return f"{choice}; {gpus}{tpot}{_at_mean_batch(a)}"


def _at_mean_batch(a: Advice) -> str:
    """The speedup of the draft at its mean batch, with its interval; empty if it is not known."""
    if a.robustness is None or a.robustness.gain_over_baseline is None:
        return ""
    interval = interval_text(a.robustness.gain_over_baseline_interval)
    return f"; decoding alone at its mean batch {a.robustness.gain_over_baseline:.2f}x{interval}"


def runs_text(runs_in: str) -> str:
    """The engines that run a draft. The version is that of the draft's method: the data of engines have no
    versions of single models and heads.
    """
    if " >= " not in runs_in:
        return runs_in
    return f"{runs_in}, the first version with its method (newer models may need a later one)"


def nearest_text(n: Nearest) -> str:
    """A sentence for a load that no servers can serve within the SLO. The sentence states the load that the
    nearest configuration can serve, the verdict about its draft, and the interval of its TPOT.
    """
    p = n.pick
    tpot = f"TPOT {seconds(p.tpot_s)}{range_text(n.tpot_interval)}"
    if n.verdict is None or n.speedup is None:
        return f"Nearest: {n.load_text} without a draft, {tpot}."
    decided = (
        f"{SENTENCES[n.verdict]} at batch {p.batch}: {n.speedup:.2f}x{interval_text(n.speedup_interval)}"
    )
    return f"Nearest: {n.load_text}, {tpot}; without a draft {n.alone_text}. {decided}."


def scope(p: Pick) -> str:
    """A sentence with the batch and the tokens/s of one server, and the tokens/s of all servers with their
    90 % interval. If the question has a load, the batch is a mean over time, and no interval is given.
    """
    batch = f"On average at batch {p.batch}" if p.ttft_s is not None else f"At batch {p.batch}"
    all_gpus = "1 GPU" if p.gpus == 1 else f"all {p.gpus} GPUs"
    total = f"{p.all_servers_tokens_per_s:,.0f} tokens/s{_rates(p)}"
    groups = ""
    if p.dp > 1:
        per_group = -(-p.batch // p.dp)
        groups = f" ({per_group} per attention group)"
    if p.replicas == 1:
        return f"{batch} of the server{groups}: {total} on {all_gpus}."
    one = f"{p.throughput_tokens_per_s:,.0f} tokens/s per server"
    total += f" and {p.replicas * p.batch} sequences"
    return f"{batch} of each server{groups}: {one}; {total} on {all_gpus}."


def _rates(p: Pick) -> str:
    """The interval of the tokens/s of all servers at their batch, in brackets; empty if it is unknown."""
    if p.tpot_interval is None or p.ttft_s is not None:
        return ""
    shortest_s, longest_s = p.tpot_interval
    sequences = p.replicas * p.batch
    return f" ({sequences / longest_s:,.0f} to {sequences / shortest_s:,.0f})"


def on_off_text(switch: OnOff, chosen: bool) -> str:
    """A sentence that says at which numbers of running sequences the draft is faster than the baseline.

    - chosen: whether the choice has a draft.
    """
    faster = f"The draft ({switch.draft}) {'is' if chosen else 'may be'} faster"
    most = _counted(switch.looked_to, "running sequence")
    if switch.off_from is None:
        running = most if switch.on_from == switch.looked_to else f"{switch.on_from} to {most}"
        return f"{faster} at {running} of a server, the largest number that was tried."
    start = "" if switch.on_from == 1 else f"from {switch.on_from} "
    slower = ", and slower from there on" if chosen else ""
    return f"{faster} {start}below {_counted(switch.off_from, 'running sequence')} of a server{slower}."


def tree_text(tree: TreeDraft) -> str:
    """A sentence that compares the best tree of drafted tokens with the choice."""
    shape = f"{_counted(tree.steps, 'step')} of {tree.candidates}, {tree.verified_tokens} tokens to verify"
    point = f"{tree.draft}, {shape}, {tree.layout}, batch {tree.batch}"
    pace = f"{seconds(tree.tpot_s)} per token, {ratio_text(tree.speedup)} the baseline"
    best = f"{point}; {pace}"
    if tree.over_choice is None:
        verdict = f"A tree meets the bound: {best}"
    elif tree.close:
        verdict = f"The best tree ({best}) and the choice are too close to call"
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


def margins(a: Advice) -> str:
    """The margin of the choice over the runner-up, and the smallest acceptance with which the choice beats
    the baseline, in words; empty if neither is known.
    """
    r = a.robustness
    parts: list[str] = []
    if r is None:
        return ""
    if r.gain_over_runner_up is not None and a.runner_up != a.baseline:
        parts.append(f"{r.gain_over_runner_up:.2f} times as good as the runner-up")
    if r.smallest_alpha is not None and f"{r.smallest_alpha:.2f}" == f"{r.alpha:.2f}":
        parts.append(f"a lower acceptance than alpha {r.alpha:.2f} does not keep the bound or the gain")
    elif r.smallest_alpha is not None:
        parts.append(f"beats the baseline down to alpha {r.smallest_alpha:.2f} (now {r.alpha:.2f})")
    elif r.smallest_tokens_per_iteration is not None:
        parts.append(f"beats the baseline down to {r.smallest_tokens_per_iteration:.2f} tokens per iteration")
    return "; ".join(parts)


def searched(a: Advice) -> str:
    """A sentence with the search space, because its defaults influence the answer."""
    q = a.query
    c = a.calibration
    layouts = len(a.layouts)
    named = (a.chosen, a.option, a.runner_up, a.baseline)
    drafted = next((p for p in named if p is not None and p.acceptance_source), None)
    accepted = f"; acceptance of {draft_text(drafted)}: {drafted.acceptance_source}" if drafted else ""
    made = f"; calibration {calibration(c)}" if c is not None else ""
    if q.has_load:
        tried = f"{_counted(a.candidates, 'pair')} of layout and draft"
        return f"tried: {tried}, gamma up to {q.max_gamma}{accepted}{made}"
    tried = (
        f"tried: {_counted(a.candidates, 'point')}, {_counted(layouts, 'layout')}, {_batches(q)}, gamma up to"
    )
    share = "" if q.memory_fraction is None else f", {q.memory_fraction:.0%} of the memory"
    return f"{tried} {q.max_gamma}{share}{accepted}{made}"


def _batches(q: AdviseQuery) -> str:
    """The searched batches in words."""
    if q.batch is None:
        return f"batches up to {MAX_BATCHES} per device"
    if len(q.batch) == 1:
        return f"batch {q.batch[0]} of a server"
    return f"batches {min(q.batch)} to {max(q.batch)} of a server"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def measure_text(a: Advice) -> str:
    """A sentence with the command that measures the preferred draft, and the server counters that it reads.
    The result is empty if no draft should be measured.
    """
    sure = draft_to_measure(a.query, a.likely)
    named = named_to_measure(a.query, a.unmeasured)
    if not a.likely and named is None:
        return ""
    draft = (sure or named or a.likely[0]).draft
    command = how_to_measure(a.query.model, draft)
    engine = serving_engines().get(a.calibration.stack.partition(" ")[0]) if a.calibration else None
    counters = "/metrics of a server with the draft"
    if engine is not None and engine.title not in COUNTERS_READ:
        *others, last = COUNTERS_READ
        counters = (
            f"the counters of {', '.join(others)} or {last} with the same draft; those of {engine.title} are "
            "not read"
        )
    again = "ask again with --acceptance acceptance.json"
    return f"Measure {draft} (metrics.txt: {counters}) and {again}: {command}"


def slow_text(a: Advice) -> str | None:
    """A note if the choice decodes a sequence more slowly than people read. The result is None if the
    question has a load or a bound on the time per token.
    """
    bounded = a.query.has_load or a.query.max_tpot_ms is not None
    if bounded or a.chosen is None or a.chosen.tpot_s <= READING_S:
        return None
    return f"Each sequence gets {1 / a.chosen.tpot_s:.1f} tokens/s; --max-tpot-ms limits the time per token."
