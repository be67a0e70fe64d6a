"""``perfmodel schedule``: how many tokens to draft at which batch size, ready for a serving engine."""

import json as json_module
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import typer

from perfmodel.answers.advise_space import parse_rate
from perfmodel.answers.engine_lines import ADAPTIVE_FILE, Export, Served, export, five_item_rows
from perfmodel.answers.query import Query, resolve
from perfmodel.answers.schedule import DEFAULT_HYSTERESIS, CatchUp, Schedule, catch_up, schedule_by_context
from perfmodel.answers.schedule import schedule as one_table
from perfmodel.answers.whatif import warnings
from perfmodel.cli.counts import parse_count, parse_counts
from perfmodel.cli.options import COUNTS, Json, Question, _option, asks
from perfmodel.errors import InputError, refuse
from perfmodel.specs.engine_config import LOOKUP
from perfmodel.speculation import capacity
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.tree import TreeAcceptance

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
MOST_BATCHES = 256


@dataclass(frozen=True, kw_only=True)
class ScheduleQuestion(Question):
    """A question over all batch sizes; several contexts are the upper ends of context ranges."""

    batch: Annotated[
        str,
        _option("--max-batch", "N", f"Largest batch size of the table (default: what fits, at most {MOST_BATCHES})."),
    ] = ""
    context: Annotated[
        str,
        _option("--context --context-length -c", COUNTS, "One context, or the rising ends of context ranges."),
    ]
    gamma: Annotated[
        str,
        _option("--gamma -g", "N", "Only with --tokens-per-iteration: the length it was measured at."),
    ] = "auto"
    rate: Annotated[
        str | None,
        _option("--rate", "RATE", "Instead of --alpha: by position 0.75/0.65/0.5, or n-gram hits x run length 0.4x3."),
    ] = None
    hysteresis: Annotated[
        float, _option("--hysteresis", "SHARE", "Share of time that every border between ranges must earn.")
    ] = DEFAULT_HYSTERESIS
    shares: Annotated[
        str, _option("--shares", "octaves|equal", "Time by batch size: every doubling alike, or every size alike.")
    ] = "octaves"
    missed: Annotated[
        str, _option("--missed", "COUNT", "Tokens decoded while drafting was off, that a draft catches up on.")
    ] = "256"
    draft_path: Annotated[
        str | None,
        _option("--draft-path", "PATH", "Where the engine finds the draft or head (default: the model's id)."),
    ] = None
    model_path: Annotated[
        str | None,
        _option("--model-path", "PATH|ID", "What the engine is to serve (default: the target's Hugging Face id)."),
    ] = None
    lookup: Annotated[
        str, _option("--lookup", "MIN..MAX", "Tokens that an n-gram draft must match, fewest and most.")
    ] = f"{LOOKUP[0]}..{LOOKUP[1]}"

    def query(self) -> tuple[Query, tuple[int, ...]]:
        """The question at its longest context, and all contexts. Raises InputError."""
        contexts = parse_counts(self.context, "--context")
        if self.rate is not None and (self.alpha or self.tokens_per_iteration or self.acceptance):
            raise InputError("--rate: stands for --alpha, --tokens-per-iteration and --acceptance; give one of them")
        known = any(given is not None for given in (self.rate, self.alpha, self.tokens_per_iteration))
        if len(contexts) > 1 and not known:
            raise InputError("--context: an acceptance that is looked up belongs to one context; give --alpha")
        plain = {f: getattr(self, f) for f in Question.__dataclass_fields__}
        alpha = "0" if self.rate is not None else self.alpha
        most = parse_count(self.batch, "--max-batch") if self.batch else 1
        asked = Question(**plain | {"batch": str(most), "context": str(contexts[-1]), "alpha": alpha})
        return asked.queries()[0], contexts

    def scenario(self, query: Query) -> Scenario:
        """The question resolved, with `rate` as its acceptance where that is given."""
        found = resolve(replace(query, gamma=query.gamma or None))
        if self.rate is None:
            return found
        acceptance = parse_rate(self.rate, "--rate")
        if isinstance(acceptance, TreeAcceptance):
            raise InputError("--rate: a tree's acceptance belongs to `perfmodel tree` and `perfmodel advise`")
        return replace(found, acceptance=acceptance)


@app.command()
@asks
def schedule(question: ScheduleQuestion, json: Json = False) -> None:
    """How many tokens to draft for each batch size (and context), as tables for vLLM and SGLang.

    A table never does worse than the best single number by the model's own measure; 0 turns speculation off.
    """
    query, contexts = question.query()
    if question.shares not in ("octaves", "equal"):
        raise refuse("--shares", None, "octaves or equal", question.shares)
    scenario = question.scenario(query)
    most = query.batch if question.batch else _fitting(scenario, contexts[-1], query)
    shares = [1.0] * int(most) if question.shares == "equal" else None
    tables = _tables(scenario, contexts, int(most), query.max_gamma, shares, question.hysteresis)
    served = Served(
        question.model_path or scenario.target.hf_id or query.model,
        query.tp,
        "bf16" if query.weights is None else scenario.precision.weights.name,  # the checkpoint's own needs no flag
        "bf16" if query.kv_dtype is None else scenario.precision.kv.name,
        query.memory_fraction,
        scenario.target.vocab_size,
        parse_window(question.lookup),
    )
    missed = parse_count(question.missed, "--missed", least=0)
    late = [catch_up(scenario, t, float(t.context_high), missed) for t in tables]
    exports = [export(t, scenario.draft, served, question.draft_path) for t in tables]
    rows = five_item_rows(tables) if len(tables) > 1 or tables[0].context_low == 0 else None
    notes = _warnings(scenario, query, tables)
    if json:
        found = [
            asdict(t) | {"gain": t.gain, "catch_up": None if c is None else asdict(c), "export": asdict(e)}
            for t, c, e in zip(tables, late, exports, strict=True)
        ]
        body = {"schema_version": 1, "tables": found, "num_speculative_tokens_per_batch_and_context": rows}
        body |= {"warnings": notes}
        typer.echo(json_module.dumps(body, indent=2, allow_nan=False))
        return
    from perfmodel.cli.panel import console, warn

    _print(scenario, query, tables, late, exports, rows)
    warn(console(), notes)


def parse_window(text: str) -> tuple[int, int]:
    """``MIN..MAX``, or one number for both. Raises InputError."""
    low, _, high = text.partition("..")
    found = parse_count(low, "--lookup"), parse_count(high or low, "--lookup")
    if found[0] > found[1]:
        raise refuse("--lookup", None, "MIN..MAX, the smaller first", text)
    return found


def _warnings(scenario: Scenario, query: Query, tables: tuple[Schedule, ...]) -> list[str]:
    """Of the largest batch at the longest context."""
    longest = tables[-1]
    batch, context = longest.ranges[-1].high, float(longest.context_high)
    gamma = max(t.max_tokens for t in tables)
    room = capacity.memory_of(scenario, float(batch), context, float(gamma), query.memory_fraction)
    return warnings(scenario, batch, context, gamma, room)


def _tables(
    scenario: Scenario,
    contexts: tuple[int, ...],
    most: int,
    max_gamma: int,
    shares: list[float] | None,
    hysteresis: float,
) -> tuple[Schedule, ...]:
    if len(contexts) == 1:
        return (one_table(scenario, contexts, most, max_gamma, shares, hysteresis),)
    return schedule_by_context(scenario, contexts, most, max_gamma, shares, hysteresis)


def _fitting(scenario: Scenario, context: int, query: Query) -> int:
    """The largest batch that fits speculating at the longest context. Raises InputError where not one sequence does."""
    room = capacity.memory_of(scenario, 1.0, float(context), float(query.max_gamma), query.memory_fraction)
    if room.max_batch < 1:
        raise InputError(f"--context: not one sequence of {context} tokens fits on this device; give --max-batch")
    return min(int(room.max_batch), MOST_BATCHES)


def _print(
    scenario: Scenario,
    query: Query,
    tables: tuple[Schedule, ...],
    late: list[CatchUp | None],
    exports: list[Export],
    rows: list[list[int]] | None,
) -> None:
    from rich.text import Text

    from perfmodel.cli.panel import console, grid, say
    from perfmodel.cli.units import seconds

    out, s = console(), scenario
    subject = f"{s.target.name} on {query.tp} x {s.machine.gpu.name}, drafted by {s.draft.name}"
    say(out, f"{subject} ({s.draft.kv.label().partition(',')[0]} KV)", "bold")
    made = grid("contexts", "batch sizes", "draft tokens", "speedup")
    for table in tables:
        low, high = table.context_low, table.context_high
        for r in table.ranges:
            span = f"{high}" if low == high else f"{low}-{high}"
            made.add_row(span, f"{r.low}-{r.high}", str(r.tokens) if r.tokens else "off", f"{r.speedup:.2f}x")
    out.print(made)
    for table in tables:
        single, where = f"{table.best_constant} ({table.constant_speedup:.3f}x)", f"context {table.context_high}: "
        say(
            out,
            f"{where if len(tables) > 1 else ''}expected speedup {table.speedup:.3f}x, {table.gain:.3f} times the best "
            f"single number, {single}",
        )
    for c in late:
        if c is not None and c.seconds > 0:
            back = "never earned back" if c.new_tokens is None else f"earned back after {c.new_tokens} new tokens"
            say(
                out,
                f"on again at batch {c.batch} after {c.missed} tokens off: {seconds(c.seconds)} to catch up, {back}",
            )
    if len(tables) == 1:
        for line in (exports[0].vllm_line, exports[0].sglang_line):
            if line is not None:
                out.print(Text(line), soft_wrap=True)
        if exports[0].sglang_adaptive is not None:
            out.print(Text(f"{ADAPTIVE_FILE}: {json_module.dumps(exports[0].sglang_adaptive)}"), soft_wrap=True)
    else:
        out.print(Text("proposed [bs_lo, bs_hi, ctx_lo, ctx_hi, K]: " + json_module.dumps(rows)), soft_wrap=True)
    for note in dict.fromkeys(note for handed in exports for note in handed.notes):
        say(out, note, "dim")
    used = s.machine.calibration
    say(out, f"calibration {used.name} ({used.kind}); acceptance from {s.acceptance.source}", "dim")
