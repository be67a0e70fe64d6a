"""``perfmodel advise``: the best layout, draft, cache and draft length, or the baseline."""

from functools import partial

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.advise import advise as answer
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.picks import Pick
from perfmodel.answers.text import context_text, kv_cache_text, ratio_text
from perfmodel.cli.advise_lines import say_lines
from perfmodel.cli.advise_pools import print_pools
from perfmodel.cli.advise_table import print_fronts, print_table
from perfmodel.cli.advise_words import (
    headline,
    margins,
    measure_text,
    model_text,
    nearest_text,
    on_off_text,
    point_text,
    runs_text,
    scope,
    searched,
    slow_text,
    tree_text,
)
from perfmodel.cli.commands import LLAMA, Json, Verbose, takes
from perfmodel.cli.grouped_help import command
from perfmodel.cli.output import say, say_whole, show, warn

COLOURS = {
    "speculate": "green",
    "likely_speculate": "green",
    "likely_do_not_speculate": "red",
    "do_not_speculate": "red",
    "infeasible": "red",
    "too_close_to_call": "yellow",
    "unknown_acceptance": "yellow",
}
"""Colour of each verdict."""


@command(example=f"{LLAMA} --context 32k")
@takes(AdviseQuery)
def app(question: AdviseQuery, verbose: Verbose = False, json: Json = False) -> None:
    """Find the best GPU layout, draft, KV method and budget, gamma and batch, or recommend the baseline.

    With --gpus, the search includes all layouts: replicas, tensor parallelism, data-parallel attention and
    expert parallelism. The search includes only drafts whose acceptance is known from --rate, a file or
    published results. Unless --any-draft is given, the recommended draft is one that the engine runs.
    """
    show(answer(question), json, partial(_print, verbose=verbose))


def _print(a: Advice, verbose: bool) -> None:
    _say_verdict(a)
    if a.chosen is not None:
        print_table(a, verbose)
        _say_choice(a, a.chosen)
        say(searched(a), "dim")
    elif a.nearest is not None:
        print_table(a, verbose)
        say(nearest_text(a.nearest))
    else:
        _say_trees(a)
    if verbose:
        print_fronts(a)
    _say_skipped(a, verbose)
    warn(a.warnings)
    say_lines(a)


def _say_verdict(a: Advice) -> None:
    """Prints the question, the choice and its reason."""
    q = a.query
    where = q.hardware if q.gpus is None else f"{q.gpus} x {q.hardware}"
    load = "under a load" if q.has_load else f"context {context_text(q.context)}"
    say(f"{model_text(q.model)} on {where}, {load}, for {a.objective.name}", "bold")
    if a.pools is not None:
        print_pools(a.pools)
    if a.chosen is None and a.trees:
        say("Only a tree is feasible", "bold yellow")
    else:
        say(f"{a.sentence}{headline(a)}", f"bold {COLOURS[a.verdict]}")
    if a.verdict != "unknown_acceptance":
        say(f"{a.reason[0].upper()}{a.reason[1:]}.")
    for over in a.over_kinds:
        say(f"{over.text}.")


def _say_choice(a: Advice, chosen: Pick) -> None:
    """Prints facts about the choice, and the better choice that this engine does not support."""
    say(scope(chosen))
    stack = "" if a.calibration is None else a.calibration.stack
    say(f"KV cache of a server: {kv_cache_text(chosen.kv_cache, stack)}.")
    if a.traffic_command is not None:
        say("This command predicts one server of the choice:")
        say_whole(a.traffic_command)
    if a.on_off is not None:
        say(on_off_text(a.on_off, chosen=chosen.gamma > 0))
    _say_trees(a)
    if (slow := slow_text(a)) is not None:
        say(slow)
    if known := margins(a):
        say(f"{known[0].upper()}{known[1:]}.")
    if a.verdict == "unknown_acceptance" and (measure := measure_text(a)):
        say(measure)
    if chosen.power_w is not None:
        say(f"Energy: {chosen.joules_per_token:.2f} J per token, {chosen.power_w:.0f} W per device.")
    if chosen.runs_in is not None:
        say(f"The draft runs in: {runs_text(chosen.runs_in)}.")
    if (p := a.not_run) is not None:
        point = f"{point_text(p)}, {ratio_text(a.gain(p) or p.speedup)} the best baseline"
        say(
            f"Better, but this engine does not support it: {point}: {p.runs_in}; --any-draft includes such "
            "drafts."
        )


def _say_skipped(a: Advice, verbose: bool) -> None:
    """Prints the candidates that were not searched, or only their numbers if not verbose."""
    if verbose:
        for left in a.skipped:
            say(f"skipped {left.draft} {left.draft_kv}: {left.reason}", "dim")
    elif a.skipped:
        unknown = sum("acceptance" in left.reason for left in a.skipped)
        counts = {"unknown acceptance": unknown, "other reasons": len(a.skipped) - unknown}
        reasons = [f"{count} skipped: {why}" for why, count in counts.items() if count]
        say(f"{'; '.join(reasons)} (--verbose lists them)", "dim")


def _say_trees(a: Advice) -> None:
    """Prints the best tree of each draft, and the reasons why trees were not compared."""
    for tree in a.trees:
        say(tree_text(tree))
    if a.trees:
        say("The times of trees have no interval.")
    for skip in a.trees_skipped:
        say(f"No trees were compared: {skip.reason}.")
