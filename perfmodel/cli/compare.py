"""``perfmodel compare``: speculation or batching, and how both compose."""

import json as json_module
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import typer

from perfmodel.answers.compare import chunked, compose, disaggregate
from perfmodel.answers.compare import compare as both_ways
from perfmodel.answers.query import Query, resolve
from perfmodel.cli.options import Json, Question, _option, asks
from perfmodel.errors import InputError, refuse
from perfmodel.speculation.scenario import Scenario

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@dataclass(frozen=True, kw_only=True)
class CompareQuestion(Question):
    """A question about m = gamma + 1 tokens of one request against m requests."""

    batch: Annotated[
        str, _option("--batch --batch-size -b", "N", "Sequences of the decode pool and of a shared pass.")
    ] = "1"
    gamma: Annotated[str, _option("--gamma -g", "N", "Drafted tokens: gamma + 1 tokens either way.")] = field()


@app.command()
@asks
def compare(question: CompareQuestion, json: Json = False) -> None:
    """One request verifying gamma + 1 tokens, or gamma + 1 requests decoding one token each?

    Also how both compose in the memory there is, what speculation does to a disaggregated decode pool, and how much of
    the idle FLOPs it leaves to chunked prefill.
    """
    rows = [_row(query) for query in question.queries("context", "gamma")]
    if json:
        typer.echo(json_module.dumps(rows if len(rows) > 1 else rows[0], indent=2, allow_nan=False))
        return
    for row in rows:
        _print(row)


def _row(query: Query) -> dict[str, Any]:
    if query.gamma is None or query.gamma < 1:
        raise refuse("--gamma", None, "a whole number from 1", "auto" if query.gamma is None else query.gamma)
    scenario, gamma = resolve(query), query.gamma
    found = both_ways(scenario, query.context, gamma + 1)
    plain, drafted = disaggregate(scenario, query.batch, query.context, gamma, query.new_tokens)
    alone, verifying = chunked(scenario, query.batch, query.context, gamma)
    return {
        "query": query.as_dict(),
        "speculating": asdict(found.speculating) | {"draft_s": found.draft_s},
        "batching": asdict(found.batching),
        "kv_ratio": found.kv_ratio,
        "bytes_per_pass_ratio": found.bytes_per_pass_ratio,
        "bytes_per_token_ratio": found.bytes_per_token_ratio,
        "seconds_per_token_ratio": found.seconds_per_token_ratio,
        "crossover_context": found.crossover_context,
        "composition": _composition(scenario, query),
        "disaggregated": {"plain": asdict(plain), "speculating": asdict(drafted)},
        "idle_tokens": {"plain": alone.tokens, "verifying": verifying.tokens},
        "chunked_prefill": {"plain": asdict(alone), "speculating": asdict(verifying)},
    }


def _composition(scenario: Scenario, query: Query) -> dict[str, Any] | None:
    """None where not even one sequence fits."""
    known = (query.gamma or 1, scenario.acceptance.max_gamma, scenario.draft.max_gamma)
    try:
        return asdict(compose(scenario, query.context, min(g for g in known if g is not None), query.memory_fraction))
    except InputError:
        return None


def _print(row: dict[str, Any]) -> None:
    from perfmodel.cli.panel import console, grid, say
    from perfmodel.cli.units import seconds, size

    out, q, m = console(), row["query"], row["query"]["gamma"] + 1
    say(out, f"{q['model']} on {q['tp']} x {q['hardware']}, context {q['context']:g}, {m} tokens a pass", "bold")
    made = grid("one pass", "weights", "KV", "activations", "time", "drafting", "tokens", "time a token")
    for name, label in (("speculating", f"1 request x {m}"), ("batching", f"{m} requests x 1")):
        p = row[name]
        drafting = p.get("draft_s", 0.0)
        moved = (size(p["weight_bytes"]), size(p["kv_bytes"]), size(p["activation_bytes"]))
        times = (seconds(p["predicted_s"]), seconds(drafting) if drafting else "-")
        pace = seconds((p["predicted_s"] + drafting) / p["tokens"])
        made.add_row(label, *moved, *times, f"{p['tokens']:.2f}", pace)
    out.print(made)
    for line in _sentences(row):
        say(out, line)


def _sentences(row: dict[str, Any]) -> list[str]:
    from perfmodel.cli.units import size, tokens

    q, c = row["query"], row["composition"]
    alone, verifying = row["chunked_prefill"]["plain"], row["chunked_prefill"]["speculating"]
    plain, drafted = row["disaggregated"]["plain"], row["disaggregated"]["speculating"]
    lines = [
        f"Batching moves {row['kv_ratio']:.1f} times the KV bytes and {row['bytes_per_pass_ratio']:.2f} times the "
        f"bytes of a pass; per token gained, speculation moves {row['bytes_per_token_ratio']:.2f} times as many and "
        f"takes {row['seconds_per_token_ratio']:.2f} times as long.",
        f"Equal bytes per token, the draft's left out, from context {tokens(row['crossover_context'])}."
        if row["crossover_context"] is not None
        else "Batching moves the fewer bytes per token at every context.",
        f"Decode pool of batch {q['batch']:g}: {plain['requests_per_s']:.2f} requests/s, fed by "
        f"{plain['prefill_groups']:.2f} prefill groups, {size(plain['transfer_bytes'])} moved for each request; "
        f"speculating {drafted['requests_per_s']:.2f}, {drafted['prefill_groups']:.2f} and "
        f"{size(drafted['transfer_bytes'])}.",
        *_transfer(plain, drafted),
        f"Chunked prefill of {alone['tokens']:.0f} tokens a pass fills its idle FLOPs: "
        f"{alone['prompt_tokens_per_s']:.0f} prompt tokens/s and {alone['output_tokens_per_s']:.0f} generated, "
        f"speculating {verifying['tokens']:.0f}, {verifying['prompt_tokens_per_s']:.0f} and "
        f"{verifying['output_tokens_per_s']:.0f}.",
    ]
    if c is not None:
        lines.append(
            f"In memory: {c['alone']:.0f} tokens/s alone, {c['batched']:.0f} batched ({c['batched_at']}), "
            f"{c['drafted']:.0f} drafted (gamma {c['drafted_gamma']}), {c['both']:.0f} both "
            f"(batch {c['both_at']}, gamma {c['both_gamma']})."
        )
    return lines


def _transfer(plain: dict[str, Any], drafted: dict[str, Any]) -> list[str]:
    """What moving the caches takes of the link, where the device has one."""
    from perfmodel.cli.units import seconds

    if plain["transfer_s"] is None:
        return []
    times = (f"{seconds(p['transfer_s'])} ({p['link_share']:.1%} of its time)" for p in (plain, drafted))
    return ["Moving a request's cache over the device's link takes " + ", speculating ".join(times) + "."]
