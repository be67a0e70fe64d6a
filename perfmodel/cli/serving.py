"""``perfmodel serving``: what a served batch does that one batch, one context and one acceptance leave out."""

import json as json_module
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import typer

from perfmodel.answers.query import resolve
from perfmodel.answers.serving import VLLM_GRAPH_SIZES, best_gamma, mixed_memory, served
from perfmodel.cli.counts import parse_count, parse_counts, parse_gammas, parse_numbers
from perfmodel.cli.options import COUNTS, Json, Question, _option, asks, fit
from perfmodel.errors import refuse

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
MOST_SEQUENCES = 4096


@dataclass(frozen=True, kw_only=True)
class ServingQuestion(Question):
    """A question about one batch whose sequences differ."""

    batch: Annotated[str, _option("--batch --batch-size -b", "N", "Sequences decoded together.")]
    context: Annotated[
        str,
        _option("--context --context-length -c", COUNTS, "Contexts that the sequences have, in turn; 32k is 32768."),
    ]
    gamma: Annotated[
        str, _option("--gamma -g", "N|auto", "Drafted tokens per iteration; auto is the best from 1 on.")
    ] = "auto"
    alpha: Annotated[
        str,
        _option(
            "--alpha --acceptance-rate", "RATES", "Acceptances that the sequences have, in turn, every context alike."
        ),
    ] = field()
    graph_sizes: Annotated[
        str | None,
        _option("--graph-sizes", COUNTS, "Token counts of captured CUDA graphs (default: vLLM's, to 512)."),
    ] = None


@app.command()
@asks
def serving(question: ServingQuestion, json: Json = False) -> None:
    """A batch of mixed contexts and acceptances, CUDA graphs that round it up, stragglers, and passes that mix.

    Slots are refilled at once; requests that are hard to draft for hold theirs longer. A static batch ends with its
    slowest request of --new-tokens tokens.
    """
    contexts = parse_counts(question.context, "--context")
    alphas = parse_numbers(question.alpha, "--alpha")
    batch = parse_count(question.batch, "--batch")
    gammas = parse_gammas(question.gamma)
    if len(gammas) != 1 or gammas[0] == 0:
        raise refuse("--gamma", None, "one whole number from 1 here, or auto", question.gamma)
    kinds = len(contexts) * len(alphas)
    if not kinds <= batch <= MOST_SEQUENCES:
        allowed = f"a whole number from {kinds} (one sequence for each context and acceptance) to {MOST_SEQUENCES}"
        raise refuse("--batch", None, allowed, batch)
    if not all(0 <= alpha <= 1 for alpha in alphas):
        raise refuse("--alpha", None, "numbers from 0 to 1", question.alpha)
    plain = {name: getattr(question, name) for name in Question.__dataclass_fields__}
    one = plain | {"batch": str(batch), "context": str(contexts[-1]), "alpha": str(alphas[0])}
    (query,) = Question(**one).queries()
    sizes = VLLM_GRAPH_SIZES if question.graph_sizes is None else parse_counts(question.graph_sizes, "--graph-sizes")
    at = [float(contexts[i % len(contexts)]) for i in range(batch)]
    rates = [alphas[i // len(contexts) % len(alphas)] for i in range(batch)]
    scenario = resolve(query)
    gamma = gammas[0] or best_gamma(scenario, at, rates, query.max_gamma)
    found: dict[str, Any] = {
        "schema_version": 1,
        "batch": batch,
        "contexts": list(contexts),
        "alphas": list(alphas),
        "gamma": gamma,
        "new_tokens": query.new_tokens,
    }
    answer = served(scenario, at, rates, gamma, sizes, query.new_tokens)
    found |= asdict(answer) | {"steady_speedup": answer.steady_speedup}
    found |= fit(batch, mixed_memory(scenario, at, gamma, query.memory_fraction))
    found["calibration"] = scenario.machine.calibration.name
    if json:
        typer.echo(json_module.dumps(found, indent=2, allow_nan=False))
        return
    _print(found)


def _print(a: dict[str, Any]) -> None:
    from perfmodel.cli.panel import console, grid, say, warn
    from perfmodel.cli.units import seconds

    out = console()
    say(out, f"{a['batch']} sequences, gamma {a['gamma']}", "bold")
    made = grid("one batch", "as it is", "beside")
    made.add_row("plain step", seconds(a["target_s"]), f"{seconds(a['mean_target_s'])} all at the mean context")
    made.add_row("speedup", f"{a['speedup']:.2f}x", f"{a['mean_speedup']:.2f}x all at the mean context")
    made.add_row("", f"{a['steady_speedup']:.2f}x", "once hard requests hold more of the slots")
    kept = f"{a['tokens_as_admitted']:.2f} averaged over requests"
    made.add_row("tokens per slot and iteration", f"{a['tokens']:.2f}", kept)
    if a["tokens_static"] is not None:
        made.add_row("", f"{a['tokens_static']:.2f}", f"in a static batch of {a['new_tokens']} new tokens each")
    for name, tokens, key in (("plain step", "padded_tokens", "target"), ("verification", "padded_verify", "verify")):
        smooth = a["mean_target_s"] if key == "target" else a["verify_s"]
        made.add_row(
            f"{name} in a graph of {a[tokens]:.0f}",
            seconds(a[f"graph_{key}_s"]),
            f"{seconds(smooth)} without padding",
        )
    if a["interleaved_s"] is not None:
        made.add_row("iteration", seconds(a["alternating_s"]), f"{seconds(a['interleaved_s'])} with passes mixed")
    else:
        made.add_row("iteration", seconds(a["alternating_s"]), "this draft's passes cannot mix with verification")
    out.print(made)
    say(out, f"calibration {a['calibration']}", "dim")
    warn(out, a["warnings"])
