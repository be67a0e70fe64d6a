"""The output of ``perfmodel validate generate``: texts, measured and predicted runs, and the tokens per
iteration of trees and of two-level drafts.
"""

from dataclasses import replace
from typing import NamedTuple

import click
import numpy as np

from perfmodel.answers.question import Query, resolve
from perfmodel.cli.output import Column, table as show
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.tree import Tree, TreeAcceptance, expected_tokens
from perfmodel.speculation.tree_shape import widths
from perfmodel.speculation.two_levels import inner_rounds, predict_two_levels
from perfmodel.validate.decoder import LevelCounts, ModelPair, Request, TreeCounts
from perfmodel.validate.decoder.text import Tokenizer
from perfmodel.validate.harness.estimate import predicted_times
from perfmodel.validate.harness.side_by_side import TimedRun

RUN_COLUMNS = (
    "draft cache",
    "tokens/s",
    "speedup",
    "from parts",
    "predicted",
    "T_D ms",
    "T_V ms",
    "rest ms",
    "tokens/it",
    "alpha",
)
SHOWN_TOKENS = 60
"""Number of printed tokens at the end of a prompt."""


class PredictedRun(NamedTuple):
    """The predicted tokens per second of the whole batch without a draft, and the predicted speedup."""

    baseline_tokens_per_s: float
    speedup: float


def predicted(pair: ModelPair, run: TimedRun, hardware: str | None) -> PredictedRun | None:
    """The prediction for a run; None without a device, for n-gram drafts, and for a run without timed
    iterations.

    It uses the observed acceptance: the tokens per iteration, or for two levels the acceptance rate of each
    level.
    """
    request = run.request
    gained = run.generation.tokens_per_iteration
    if hardware is None or request.draft.startswith("ngram") or not run.timed_iterations:
        return None
    formats = pair.formats
    query = Query(
        pair.target,
        hardware,
        request.batch,
        request.context,
        request.gamma,
        tp=pair.tp,
        draft_tp=pair.draft_tp,
        draft=pair.draft_model or "self",
        draft_kv=request.draft_kv,
        weights=formats.weights,
        kv_dtype=formats.kv,
        tokens_per_iteration=gained,
    )
    if isinstance(run.counts, LevelCounts):
        return _two_levels(query, run.request, run.counts)
    tree = None if request.tree is None else Tree(request.tree, widths(request.tree), gained)
    times = predicted_times(resolve(query), request.batch, request.context, request.gamma, tree)
    return PredictedRun(request.batch / times.target_s, times.speedup)


def _two_levels(query: Query, request: Request, counts: LevelCounts) -> PredictedRun:
    """The prediction with the measured acceptance rates of both levels."""
    rate = replace(query, tokens_per_iteration=None)
    small = resolve(replace(rate, alpha=counts.small_alpha))
    middle = resolve(
        replace(rate, draft="self", draft_tp=None, draft_kv=request.middle_kv, alpha=counts.middle_alpha)
    )
    levels = predict_two_levels(
        small, middle, request.batch, request.context, request.inner_gamma, request.gamma
    )
    return PredictedRun(request.batch / levels.target_s, levels.speedup)


def texts(reader: Tokenizer | None, prompts: list[list[int]], baseline: TimedRun) -> None:
    """Prints the end of every prompt and its whole continuation."""
    if reader is None:
        return
    for number, (prompt, tokens) in enumerate(zip(prompts, baseline.generation.tokens, strict=True), 1):
        click.echo(f"--- prompt {number} (its end) ---\n" + reader.decode(prompt[-SHOWN_TOKENS:]))
        click.echo(f"--- continuation {number} ---\n" + reader.decode(tokens))
    click.echo("---")


def table(
    baseline: TimedRun,
    runs: list[TimedRun],
    hardware: str | None,
    predicted: list[PredictedRun | None],
) -> None:
    """Prints one line for each run, and remarks about all of them."""
    request = runs[0].request
    first_prediction = next(filter(None, predicted), None)
    drafting = f"gamma {request.gamma}" if request.tree is None else "token trees"
    load = f"batch {request.batch}, context {request.context}, {request.new_tokens} new tokens"
    setting = f"{load}, {drafting}, draft {request.draft}, {request.sampling}"
    throughput = f"baseline {baseline.tokens_per_s:.1f} tokens/s"
    if first_prediction:
        throughput += f" (predicted for {hardware}: {first_prediction.baseline_tokens_per_s:.1f})"
    prefill = f"prefill {baseline.prefill_s:.2f} s"
    click.echo(f"{setting}; {prefill}; {throughput}, T_T {baseline.verify_s * 1e3:.2f} ms")
    most = max(run.request.max_accepted for run in runs)
    rows = [_row(run, baseline, prediction) for run, prediction in zip(runs, predicted, strict=True)]
    show([*RUN_COLUMNS, Column(f"accepted 0..{most}", left=True)], rows)
    for line in _remarks(baseline, runs):
        click.echo(line)
    legend = "from parts: Omega T_T / (gamma T_D + T_V), acceptance and phases measured apart"
    if not first_prediction:
        legend += "; predicted: name a device with --hardware"
    click.echo(legend)


def _row(run: TimedRun, baseline: TimedRun, predicted: PredictedRun | None) -> list[str]:
    """The cells of `RUN_COLUMNS`, and the histogram of accepted tokens."""
    generation = run.generation
    cells = dict.fromkeys(RUN_COLUMNS, "-")
    cells["draft cache"] = run.request.cache_name
    cells["T_D ms"] = f"{run.draft_s * 1e3:.2f}"
    cells["T_V ms"] = f"{run.verify_s * 1e3:.2f}"
    if run.timed_iterations and baseline.timed_iterations:
        cells["tokens/s"] = f"{run.tokens_per_s:.1f}"
        cells["speedup"] = f"{run.tokens_per_s / baseline.tokens_per_s:.2f}"
        cells["from parts"] = f"{run.speedup_from_parts(baseline):.2f}"
        cells["rest ms"] = f"{run.outside_s * 1e3:.2f}"
        cells["tokens/it"] = f"{generation.tokens_per_iteration:.2f}"
    if predicted:
        cells["predicted"] = f"{predicted.speedup:.2f}"
    if generation.alpha is not None:
        cells["alpha"] = f"{generation.alpha:.3f}"
    return [*cells.values(), " ".join(map(str, generation.histogram))]


def _remarks(baseline: TimedRun, runs: list[TimedRun]) -> list[str]:
    """Lines that say whether greedy outputs equal the baseline's, or that no iteration was timed."""
    request = runs[0].request
    if not baseline.timed_iterations:
        return ["every sequence ended with its first token: there was nothing to speculate on"]
    if not request.sampling.greedy or request.script is not None:
        return []
    different = []
    for run in runs:
        first = run.difference
        if first is not None:
            place = f"token {first.position} of sequence {first.sequence}"
            different.append(
                f"{run.request.cache_name}: differs from the baseline at {place}, where the two scores are "
                f"{first.margin:.1f} roundings apart"
            )
    return different or ["all outputs equal the baseline, token for token"]


def details(runs: list[TimedRun]) -> None:
    """Prints the measured tokens per iteration of each tree or two-level draft, and the number that follows
    from the measured acceptance rates.
    """
    for run in runs:
        measured = run.generation.tokens_per_iteration
        parents = run.request.tree
        if isinstance(run.counts, LevelCounts):
            click.echo("\n".join(level_lines(run.request, run.counts, measured)))
        if isinstance(run.counts, TreeCounts) and parents is not None:
            rates = run.counts.rates
            expected = expected_tokens(parents, TreeAcceptance(tuple(rates)))
            by_level = "-".join(map(str, widths(parents)))
            by_rank = " ".join(f"{rate:.2f}" for rate in rates)
            tree = f"tree of {len(parents)} nodes, {by_level} by level"
            click.echo(f"{run.request.draft_kv}: {tree}; tokens/it {measured:.2f} measured")
            click.echo(f"  {expected:.2f} expected of its own rates by rank: {by_rank}")


def level_lines(request: Request, counts: LevelCounts, tokens_per_iteration: float) -> list[str]:
    """Printed lines about a two-level draft: the tokens that each level gained, measured and as expected from
    the measured acceptance rates.
    """
    small = Acceptance.from_alpha(counts.small_alpha)
    middle = Acceptance.from_alpha(counts.middle_alpha)
    rounds = inner_rounds(small, request.inner_gamma, request.gamma)
    per_round = small.survival(request.inner_gamma).sum()
    gained = np.cumsum(middle.survival(request.max_accepted))[request.gamma :]
    expected = rounds.drafted @ gained
    small_model = (
        f"rate {counts.small_alpha:.2f}; tokens/round {counts.tokens_per_round:.2f} ({per_round:.2f})"
    )
    rounds_an_iteration = f"rounds/it {counts.rounds:.2f} ({rounds.expected:.2f})"
    tokens_an_iteration = f"tokens/it {tokens_per_iteration:.2f} ({expected:.2f})"
    return [
        f"{request.cache_name}: measured (expected of the rates)",
        f"  small model for the middle: {small_model}; {rounds_an_iteration}",
        f"  middle for the target: rate {counts.middle_alpha:.2f}; {tokens_an_iteration}",
    ]
