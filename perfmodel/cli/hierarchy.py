"""``perfmodel hierarchy``: a small model drafts for the target with a sparse cache, and that for the target."""

import json as json_module
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import typer

from perfmodel.answers.advise_space import parse_rate
from perfmodel.answers.query import Query, resolve
from perfmodel.cli.counts import parse_counts
from perfmodel.cli.options import Json, Question, _option, asks, fit
from perfmodel.errors import InputError, refuse
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.tree import TreeAcceptance
from perfmodel.speculation.two_levels import DEFAULT_GAMMA_1, DEFAULT_GAMMA_2, best_two_levels, memory_of_both

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@dataclass(frozen=True, kw_only=True)
class HierarchyQuestion(Question):
    """A question about two levels: `draft_kv` and `alpha` are the middle's, the target with a sparse cache."""

    draft_kv: Annotated[
        str,
        _option("--draft-kv", "METHOD:BUDGET", "What the middle, the target itself, reads of its cache."),
    ] = field()
    gamma: Annotated[
        str,
        _option(
            "--gamma-2 --gamma -g",
            "COUNTS|auto",
            f"Lengths to choose from of what the middle drafts for the target; auto is 1..{DEFAULT_GAMMA_2}, as far as "
            "acceptances are known.",
        ),
    ] = "auto"
    gamma_1: Annotated[
        str,
        _option(
            "--gamma-1",
            "COUNTS|auto",
            f"Lengths to choose from of what the small model drafts for the middle; auto is 1..{DEFAULT_GAMMA_1}, as "
            "far as it goes and acceptances are known.",
        ),
    ] = "auto"
    small: Annotated[str, _option("--small", "NAME|KIND|PATH", "The small model that drafts for the middle.")]
    small_kv: Annotated[str, _option("--small-kv", "METHOD[:BUDGET]", "What the small model reads of its cache.")] = (
        "streamingllm:256"
    )
    small_rate: Annotated[
        str,
        _option(
            "--small-rate", "RATE", "P(the middle accepts a token of the small model): 0.6, or by position 0.7/0.5."
        ),
    ]

    def scenarios(self, query: Query) -> tuple[Scenario, Scenario]:
        """The small model's and the middle's. Raises InputError."""
        acceptance = parse_rate(self.small_rate, "--small-rate")
        if isinstance(acceptance, TreeAcceptance):
            raise InputError("--small-rate: chains only, a tree's acceptance belongs to `perfmodel tree`")
        plain = {name: getattr(self, name) for name in Question.__dataclass_fields__}
        changed = {"draft": self.small, "draft_kv": self.small_kv, "alpha": "0", "tokens_per_iteration": None}
        asked = plain | changed | {"acceptance": None, "gamma": "auto", "batch": "1", "context": str(query.context)}
        small = resolve(Question(**asked).queries()[0])
        return replace(small, acceptance=acceptance), resolve(query)


@app.command()
@asks
def hierarchy(question: HierarchyQuestion, json: Json = False) -> None:
    """Two levels of drafting (TriForce): does a small model before the sparse self-draft pay, at which lengths?

    The lengths with the largest speedup are chosen. --alpha is P(the target accepts a token of the middle).
    """
    if question.draft != "self":
        raise InputError("--draft: the middle is the target itself; --small names the model that drafts for it")
    if question.draft_kv.partition(":")[0] == "full":
        raise refuse("--draft-kv", None, "METHOD:BUDGET, a sparse cache for the middle", question.draft_kv)
    ones, twos = _lengths(question.gamma_1, "--gamma-1"), _lengths(question.gamma, "--gamma-2")
    plain = {name: getattr(question, name) for name in Question.__dataclass_fields__}
    if question.tokens_per_iteration is None:  # else they are meant at the one gamma given
        plain["gamma"] = "auto"
    rows: list[dict[str, Any]] = []
    for query in Question(**plain).queries("batch", "context", most=256):
        small, sparse = question.scenarios(query)
        best = best_two_levels(small, sparse, query.batch, query.context, ones, twos, query.max_gamma)
        found = best.levels
        most = best.gamma_1 + best.gamma_2
        room = memory_of_both(small, sparse, query.batch, query.context, most, query.memory_fraction)
        rows.append(
            {
                "batch": query.batch,
                "context": query.context,
                "gamma_1": best.gamma_1,
                "gamma_2": best.gamma_2,
                "inner_rounds": found.rounds,
                "drafted": found.drafted,
                "tokens_per_iteration": found.tokens_per_iteration,
                "draft_s": float(found.draft_s),
                "verify_s": float(found.verify_s),
                "overhead_s": float(found.overhead_s),
                "ar_tpot_s": float(found.target_s),
                "tpot_s": float(found.iteration_s) / found.tokens_per_iteration,
                "speedup": float(found.speedup),
                "middle_alone": {"gamma": best.alone_gamma, "speedup": best.alone_speedup},
                "calibration": sparse.machine.calibration.name,
            }
            | fit(query.batch, room)
        )
    if json:
        typer.echo(json_module.dumps(rows if len(rows) > 1 else rows[0], indent=2, allow_nan=False))
        return
    _print(rows)


def _lengths(text: str, flag: str) -> tuple[int, ...] | None:
    """Draft lengths, None for ``auto``."""
    return None if text.strip().lower() == "auto" else parse_counts(text, flag)


def _print(rows: list[dict[str, Any]]) -> None:
    from perfmodel.cli.panel import console, fit_text, grid, say, warn
    from perfmodel.cli.units import seconds

    out = console()
    lengths_to_alone = ("gamma 1", "gamma 2", "rounds", "drafted", "tokens", "TPOT", "speedup", "middle alone")
    made = grid("batch", "context", *lengths_to_alone, "fits")
    for r in rows:
        alone = r["middle_alone"]
        lengths = (str(r["gamma_1"]), str(r["gamma_2"]), f"{r['inner_rounds']:.2f}", f"{r['drafted']:.2f}")
        gain = (f"{r['tokens_per_iteration']:.2f}", seconds(r["tpot_s"]), f"{r['speedup']:.2f}x")
        beside = (f"{alone['speedup']:.2f}x ({alone['gamma']})", fit_text(r))
        made.add_row(f"{r['batch']:g}", f"{r['context']:g}", *lengths, *gain, *beside)
    out.print(made)
    say(out, f"calibration {rows[0]['calibration']}", "dim")
    warn(out, [note for r in rows for note in r["warnings"]])
