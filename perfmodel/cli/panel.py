"""What ``perfmodel whatif`` prints for people."""

import sys
from collections.abc import Collection, Iterable
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfmodel.cli.units import NONE, limiter, seconds, size, tokens

WIDTH, WIDEST = 112, 250
VERDICTS = {
    "pays": "Speculation pays",
    "does_not_pay": "Speculation does not pay",
    "too_close_to_call": "Too close to call",
}
PAYS = {"pays": "yes", "does_not_pay": "no", "too_close_to_call": "unclear"}
COLOURS = {"pays": "green", "does_not_pay": "red", "too_close_to_call": "yellow"}
STEPS = {"plain step": "target_step", "draft step": "draft_step", "verification": "verify_step"}
FIGURES = {
    "target_s": "plain step",
    "draft_s": "draft step",
    "verify_s": "verification",
    "overhead_s": "overhead",
    "tokens_per_iteration": "tokens per iteration",
    "sd_tpot_s": "time per token",
    "speedup": "speedup",
}


def console() -> Console:
    """As wide as the terminal; where there is none, as wide as any table needs, so that files are all alike."""
    return Console(width=None if sys.stdout.isatty() else WIDEST, highlight=False, markup=False)


def say(out: Console, text: str, style: str = "") -> None:
    """Print a sentence, wrapped at `WIDTH` at the latest."""
    out.print(Text(text, style=style), width=min(out.width, WIDTH))


def warn(out: Console, notes: Iterable[str]) -> None:
    """Print warnings, each once."""
    for note in dict.fromkeys(notes):
        say(out, f"warning: {note}", "yellow")


def fit_text(row: dict[str, Any]) -> str:
    """Whether a row's batch fits, and the largest that does, as a cell of a table."""
    return "yes" if row["fits"] else f"no, {row['max_batch']}"


def grid(*columns: str, left: Collection[str] = ()) -> Table:
    """A table with its first column and those in `left` to the left and all others to the right."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(columns):
        made.add_column(name, justify="right" if number and name not in left else "left", overflow="fold")
    return made


def panel(answer: dict[str, Any]) -> None:
    """One answer: the verdict and why, times, ratios, lengths, memory, what it rests on, and any clock beside it."""
    out, q = console(), answer["query"]
    say(out, _question(q), "bold")
    if not q["gamma"] and answer["gamma_optimal"]:
        say(out, "Plain decoding, as asked: 1.00x", "bold")
    else:
        say(out, f"{VERDICTS[answer['verdict']]}: {_speedup(answer)}", f"bold {COLOURS[answer['verdict']]}")
    say(out, f"{answer['reason'][:1].upper()}{answer['reason'][1:]}.")
    steps = grid("one pass", "lower bound", "predicted", "no overlap", "limited by")
    for name, key in STEPS.items():
        if q["gamma"] or key == "target_step":
            s = answer[key]
            steps.add_row(
                name, seconds(s["lower_s"]), seconds(s["predicted_s"]), seconds(s["serial_s"]), limiter(s["limiter"])
            )
    out.print(steps)
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, text in _facts(answer).items():
        facts.add_row(name, text)
    out.print(facts, width=min(out.width, WIDTH))
    for row in answer["measured"]:
        _clock(out, row)
    if "sensitivity" in answer:
        out.print(_moves(answer["sensitivity"]))
    warn(out, answer["warnings"])


def table(answers: list[dict[str, Any]]) -> None:
    """Several answers, a line each."""
    out, first = console(), answers[0]["query"]
    say(out, _subject(first), "bold")
    made = grid(
        "batch",
        "context",
        "gamma",
        "pays",
        "speedup",
        "plain TPOT",
        "TPOT",
        "tokens/s",
        "best gamma",
        "fits",
        "measured",
    )
    for a in answers:
        clocks = [
            f"{row['figures']['speedup']['measured']:.2f}x" for row in a["measured"] if "speedup" in row["figures"]
        ]
        q, memory = a["query"], a["memory"]
        made.add_row(
            *(f"{q['batch']}", f"{q['context']}", f"{q['gamma']}", PAYS[a["verdict"]], f"{a['speedup']:.2f}x"),
            *(seconds(a["ar_tpot_s"]), seconds(a["tpot_s"]), f"{a['throughput_tokens_per_s']:.0f}"),
            *(
                f"{a['gamma_optimal']} ({a['speedup_at_gamma_optimal']:.2f}x)",
                fit_text(memory),
            ),
            ", ".join(clocks) or "-",
        )
    out.print(made)
    say(out, _basis(answers[0]))
    for a in answers:
        if "sensitivity" in a:
            say(out, f"\n{_point(a['query'])}", "bold")
            out.print(_moves(a["sensitivity"]))
    warn(out, [note for a in answers for note in a["warnings"]])


def _moves(rows: list[dict[str, Any]]) -> Table:
    """What moves the speedup, most first."""
    made = grid("if only this moves", "from", "to", "speedup", "to", "crosses 1")
    for r in rows:
        ends = (f"{r['speedup_low']:.2f}x", f"{r['speedup_high']:.2f}x")
        made.add_row(r["input"], r["low"], r["high"], *ends, "yes" if r["flips"] else "no")
    return made


def _subject(q: dict[str, Any]) -> str:
    draft = "itself" if q["draft"] == "self" else q["draft"]
    devices = f"{q['tp']} x {q['hardware']}" if q["tp"] > 1 else q["hardware"]
    return f"{q['model']} on {devices}, drafted by {draft} through {q['draft_kv'].partition(',')[0]}"


def _question(q: dict[str, Any]) -> str:
    return f"{_subject(q)}; {_point(q)}"


def _point(q: dict[str, Any]) -> str:
    return f"batch {q['batch']}, context {q['context']}, gamma {q['gamma']}"


def _speedup(a: dict[str, Any]) -> str:
    if a["speedup_interval"] is None:
        return f"{a['speedup']:.2f}x (no interval: this calibration states no scatter)"
    low, high = a["speedup_interval"]
    return f"{a['speedup']:.2f}x ({low:.2f} to {high:.2f} with {a['interval_coverage']:.0%} coverage)"


def _basis(a: dict[str, Any]) -> str:
    c, acceptance = a["calibration"], a["acceptance"]
    return f"calibration {c['name']} ({c['kind']}); acceptance from {acceptance['source']}"


def _facts(a: dict[str, Any]) -> dict[str, str]:
    r, acceptance, turn = a["cost_ratios"], a["acceptance"], a["inflection"]
    alpha = acceptance["alpha"]
    facts = {
        "time per token": f"{seconds(a['ar_tpot_s'])} plain, {seconds(a['tpot_s'])} speculating",
        "throughput": f"{a['ar_throughput_tokens_per_s']:.0f} tokens/s plain, "
        f"{a['throughput_tokens_per_s']:.0f} speculating",
        "best gamma": f"{a['gamma_optimal']} ({a['speedup_at_gamma_optimal']:.2f}x)",
        "cost ratios": f"draft/plain {r['draft_to_target']:.3f}, verification/plain {r['verify_to_target']:.3f}",
        "overhead": f"{seconds(a['overhead_s'])} an iteration outside the passes",
        "acceptance": (f"alpha {alpha:.3f}, " if alpha is not None else "")
        + f"{acceptance['tokens_per_iteration']:.2f} tokens per iteration ({acceptance['source']})",
        "break-even context": tokens(turn["break_even_context"]),
        "inflection context": f"{tokens(turn['inflection_context'])} (from here on a larger batch costs no speedup)",
        "memory-bound context": _memory_bound(turn["memory_bound_context"]),
        "draft set-up": f"{seconds(a['draft_setup_s'])} before the first token, {_earned(a['break_even_new_tokens'])}",
        "memory": _memory(a["memory"]),
        "calibration": _calibration(a["calibration"]),
    }
    if not a["query"]["gamma"]:
        for name in (
            "cost ratios",
            "overhead",
            "acceptance",
            "draft set-up",
            "break-even context",
            "inflection context",
        ):
            del facts[name]
    return facts


def _memory_bound(context: float | None) -> str:
    if context is None:
        return f"{NONE} (at long contexts a step computes longer than it loads)"
    return "1 (a step loads longer than it computes at every length)" if context <= 1 else tokens(context)


def _earned(new_tokens: int | None) -> str:
    return (
        "never earned back"
        if new_tokens is None
        else f"earned back after {new_tokens} new token{'s' * (new_tokens != 1)}"
    )


def _memory(m: dict[str, Any]) -> str:
    draft = m["draft_weight_bytes"] + m["draft_kv_bytes"]
    return (
        f"weights {size(m['weight_bytes'])}, KV {size(m['kv_bytes'])}, draft {size(draft)} of "
        f"{size(m['available_bytes'])} a device: {'fits' if m['fits'] else 'does not fit'}; "
        f"largest batch {m['max_batch']} ({m['ar_max_batch']} plain)"
    )


def _calibration(c: dict[str, Any]) -> str:
    fitted = f", fitted on {', '.join(c['fitted_on'])}" if c["fitted_on"] else ""
    return f"{c['name']} ({c['kind']}{fitted})"


def _clock(out: Console, row: dict[str, Any]) -> None:
    seen = "the calibration was fitted on this set" if row["fitted_on"] else ""
    note = "".join(f"; {text}" for text in (row["notes"], seen) if text)
    made = grid(f"measured at gamma {row['gamma']}", "predicted", "measured", "error")
    for name, figure in row["figures"].items():
        text = seconds if name.endswith("_s") else lambda value: f"{value:.2f}"
        made.add_row(FIGURES[name], text(figure["predicted"]), text(figure["measured"]), f"{figure['error']:+.1%}")
    out.print(made)
    say(out, f"source: {row['source']}, row {row['row']}, stack {row['stack']}{note}", "dim")
