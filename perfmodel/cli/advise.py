"""``perfmodel advise``: which draft, cache, length and devices, or none."""

import json as json_module
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import typer

from perfmodel.answers.advise import advise as answer
from perfmodel.answers.advise_space import Objective, Request
from perfmodel.cli.counts import parse_count, parse_counts, parse_methods
from perfmodel.cli.options import COUNTS, Json, _option, asks
from perfmodel.errors import InputError, refuse
from perfmodel.speculation.capacity import DEFAULT_MEMORY_FRACTION

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
VERDICTS = {
    "speculate": ("Speculate", "green"),
    "do_not_speculate": ("Do not speculate", "red"),
    "infeasible": ("Nothing is possible here", "red"),
}


@dataclass(frozen=True, kw_only=True)
class Search:
    """What the user typed; `request` turns it into what `advise` searches."""

    model: Annotated[str, _option("--model -m", "NAME|PATH", "Target model, as in `perfmodel whatif`.")]
    hardware: Annotated[str, _option("--hardware --gpu --device", "NAME|PATH", "Device, as in `perfmodel whatif`.")]
    context: Annotated[str, _option("--context --context-length -c", "COUNT", "Cached tokens per sequence.")]
    batch: Annotated[str, _option("--batch --batch-size -b", COUNTS, "Batch sizes to choose from.")] = "1..256"
    tp: Annotated[str, _option("--tp --tensor-parallel", COUNTS, "Degrees of the target to choose from.")] = "1"
    draft: Annotated[
        list[str] | None,
        _option("--draft --draft-model", "self|KIND|NAME|PATH", "A draft to search; may be repeated."),
    ] = None
    draft_kv: Annotated[
        str | None, _option("--draft-kv", "METHOD[:BUDGET],...", "KV methods to search (default: all that are known).")
    ] = None
    draft_tp: Annotated[
        str | None, _option("--draft-tp", COUNTS, "Degrees of the draft to choose from (default: as --tp).")
    ] = None
    rate: Annotated[
        list[str] | None,
        _option(
            "--rate",
            "DRAFT[@KV]=RATE",
            "Measured: 0.8, by position 0.8/0.7/0.5, n-gram hits x runs 0.4x3, tree:0.6/0.1; may be repeated.",
        ),
    ] = None
    acceptance: Annotated[str | None, _option("--acceptance", "FILE", "Measured acceptance rows.")] = None
    objective: Annotated[str, _option("--objective", "|".join(get_args(Objective)), "What to look for.")] = "throughput"
    max_tpot_ms: Annotated[float | None, _option("--max-tpot-ms", "MS", "Bound on the time per output token.")] = None
    price: Annotated[float | None, _option("--price", "DOLLARS", "Price of a device and hour.")] = None
    weights: Annotated[
        str | None, _option("--weights --dtype", "FORMAT", "Weight format (default: the checkpoint's).")
    ] = None
    kv_dtype: Annotated[
        str | None, _option("--kv-dtype --kv-cache-dtype", "FORMAT", "KV-cache format (default: the checkpoint's).")
    ] = None
    calibration: Annotated[
        str | None, _option("--calibration", "NAME|PATH|ideal", "Constants (default: the device's).")
    ] = None
    max_gamma: Annotated[int, _option("--max-gamma", "N", "Longest draft to search.")] = Request.max_gamma
    memory_fraction: Annotated[
        float,
        _option("--memory-fraction --gpu-memory-utilization", "SHARE", "Share of device memory that may be used."),
    ] = DEFAULT_MEMORY_FRACTION

    def request(self) -> Request:
        """Raises InputError naming the flag."""
        rates: dict[str, str] = {}
        for text in self.rate or ():
            key, equals, value = text.rpartition("=")
            if not equals or not key:
                raise refuse("--rate", None, "DRAFT=RATE or DRAFT@METHOD:BUDGET=RATE", text)
            if key in rates:
                raise InputError(f"--rate: {key} is given twice")
            rates[key] = value
        return Request(
            model=self.model,
            hardware=self.hardware,
            context=parse_count(self.context, "--context"),
            batches=parse_counts(self.batch, "--batch"),
            tps=parse_counts(self.tp, "--tp"),
            drafts=tuple(self.draft) if self.draft else None,
            draft_kvs=None if self.draft_kv is None else parse_methods(self.draft_kv),
            draft_tps=(0,) if self.draft_tp is None else parse_counts(self.draft_tp, "--draft-tp"),
            rates=rates,
            acceptance=self.acceptance,
            objective=self.objective,  # type: ignore[arg-type]
            max_tpot_s=None if self.max_tpot_ms is None else self.max_tpot_ms / 1e3,
            price_per_gpu_hour=self.price,
            weights=self.weights,
            kv_dtype=self.kv_dtype,
            calibration=self.calibration,
            max_gamma=self.max_gamma,
            memory_fraction=self.memory_fraction,
        )


@app.command()
@asks
def advise(search: Search, json: Json = False) -> None:
    """Which draft, KV method and budget, gamma, batch and tensor-parallel degrees are best, or is plain decoding?

    Only drafts whose acceptance was measured are searched: by --rate, by a file, or in the bundled rows.
    """
    found = answer(search.request())
    if json:
        typer.echo(json_module.dumps(found, indent=2, allow_nan=False))
        return
    _panel(found)


def _panel(a: dict[str, Any]) -> None:
    from perfmodel.cli.panel import console, grid, say, warn

    out, r = console(), a["request"]
    word, colour = VERDICTS[a["verdict"]]
    say(out, f"{r['model']} on {r['hardware']}, context {r['context']:g}, for {a['objective']['name']}", "bold")
    say(out, word, f"bold {colour}")
    say(out, f"{a['reason'][0].upper()}{a['reason'][1:]}.")
    if a["chosen"] is not None:
        made = grid("", "tp", "draft", "gamma", "batch", "TPOT", "tokens/s", "$/Mtok", "speedup", left=("draft",))
        for name in ("chosen", "runner_up", "plain"):
            if (p := a[name]) is not None:
                made.add_row(name.replace("_", "-"), *_row(p))
        out.print(made)
        say(out, _robust(a["robustness"]))
        fronts = grid("front", "TPOT", "tokens/s", "batch", "gamma", "draft", left=("draft",))
        for name, front in a["pareto"].items():
            for p in _spread(front):
                fronts.add_row(name, *_pace(p), str(p["batch"]), _length(p), _draft(p))
        out.print(fronts)
    if (c := a["calibration"]) is not None:
        say(out, f"{a['candidates']:,} candidates; calibration {c['name']} ({c['kind']})")
    if a["skipped"]:
        first = a["skipped"][0]
        example = f"{first['draft']} {first['draft_kv']}: {first['reason']}"
        say(out, f"skipped {len(a['skipped'])} (--json lists them), such as {example}", "dim")
    warn(out, a["warnings"])


def _spread(front: list[dict[str, Any]], most: int = 6) -> list[dict[str, Any]]:
    """At most `most` points of a front, its ends among them."""
    if len(front) <= most:
        return front
    return [front[round(i * (len(front) - 1) / (most - 1))] for i in range(most)]


def _length(p: dict[str, Any]) -> str:
    return str(p["gamma"]) if p["tree_levels"] is None else f"{p['gamma']} in {p['tree_levels'] - 1} levels"


def _draft(p: dict[str, Any]) -> str:
    kv = "" if p["draft_kv"] in (None, "full") else f" {p['draft_kv'].partition(',')[0]}"
    return f"{p['draft'] or '-'}{kv}"


def _row(p: dict[str, Any]) -> list[str]:
    price = "-" if p["cost_per_million_tokens"] is None else f"{p['cost_per_million_tokens']:.3f}"
    return [str(p["tp"]), _draft(p), _length(p), str(p["batch"]), *_pace(p), price, f"{p['speedup']:.2f}x"]


def _pace(p: dict[str, Any]) -> list[str]:
    from perfmodel.cli.units import seconds

    return [seconds(p["tpot_s"]), f"{p['throughput_tokens_per_s']:.0f}"]


def _robust(r: dict[str, Any]) -> str:
    parts = []
    if r["gain_over_plain"] is not None:
        interval = r["gain_over_plain_interval"]
        scatter = "" if interval is None else f" ({interval[0]:.2f} to {interval[1]:.2f} by the calibration's scatter)"
        parts.append(f"{r['gain_over_plain']:.2f} times the best plain decoding{scatter}")
    if r["gain_over_runner_up"] is not None:
        parts.append(f"{r['gain_over_runner_up']:.3f} times the runner-up")
    if r["alpha_that_still_beats_plain"] is None and r["tokens_per_iteration_that_still_beat_plain"] is not None:
        parts.append(f"beats plain decoding down to {r['tokens_per_iteration_that_still_beat_plain']:.2f} tokens each")
    if r["alpha_that_still_beats_plain"] is not None:
        parts.append(
            f"beats plain decoding down to alpha {r['alpha_that_still_beats_plain']:.2f} (now {r['alpha']:.2f})"
        )
    return "; ".join(parts)
