"""What ``perfmodel whatif`` prints for people: one answer in full, or several as a table."""

from collections.abc import Iterable

from perfmodel.answers.measured import Measured
from perfmodel.answers.query import Query
from perfmodel.answers.text import NONE, UNKNOWN, devices, limiter, seconds, size, times, tokens
from perfmodel.answers.verdict import CELLS, Calibrated
from perfmodel.answers.whatif import BASELINE, Accepted, Move, WhatIf
from perfmodel.cli.output import Column, facts, fit, say, table, warn, warn_where
from perfmodel.specs.stacks import ENGINES
from perfmodel.speculation.capacity import Memory

COLOURS = {"pays": "green", "does_not_pay": "red", "does_not_fit": "red"}
"""Of a verdict; yellow where it is open."""
FIGURES = {
    "target_s": "baseline step",
    "draft_s": "draft step",
    "verify_s": "verification",
    "overhead_s": "overhead",
    "tokens_per_iteration": "tokens per iteration",
    "sd_tpot_s": "time per token",
    "speedup": "speedup",
}


def single(a: WhatIf) -> None:
    """One answer: the verdict and why, times, ratios, lengths, memory, what it rests on, and what was measured."""
    q = a.query
    say(f"{subject(q)}; {at_point(q)}", "bold")
    if a.speedup is None:
        say(f"{a.sentence}: {a.reason}.", style(a))
    else:
        say(f"{a.sentence}: {gain(a)}", style(a))
        say(f"{a.reason[:1].upper()}{a.reason[1:]}.")
    steps = [("baseline step", a.target_step)]
    steps += [("draft step", a.draft_step), ("verification", a.verify_step)] if q.gamma else []
    table(
        ("one pass", "lower bound", "predicted", "no overlap", "limited by"),
        [
            (name, seconds(s.lower_s), seconds(s.predicted_s), seconds(s.serial_s), limiter(s.limiter))
            for name, s in steps
        ],
    )
    facts(_facts(a))
    for row in a.measured:
        _measured(row)
    if a.sensitivity is not None:
        moves(a.sensitivity)
    warn(a.warnings)


def several(answers: Iterable[WhatIf]) -> None:
    """Several answers, a line each."""
    answers = list(answers)
    say(subject(answers[0].query), "bold")
    rows = []
    for a in answers:
        q, seen = a.query, [times(row.figures["speedup"].measured) for row in a.measured if "speedup" in row.figures]
        rows.append(
            (
                *(f"{q.batch}", f"{q.context}", f"{q.gamma}", CELLS[a.verdict], times(a.speedup)),
                *(seconds(a.ar_tpot_s), seconds(a.tpot_s), rate(a.throughput_tokens_per_s)),
                UNKNOWN if a.gamma_optimal is None else f"{a.gamma_optimal} ({times(a.speedup_at_gamma_optimal)})",
                *(fit(a.memory.fits, a.memory.max_batch), ", ".join(seen) or "-"),
            )
        )
    optional = (Column("tokens/s", spare=2), Column("best gamma", spare=1), "fits", Column("measured", spare=3))
    table(("batch", "context", "gamma", "pays", "speedup", "baseline TPOT", "TPOT", *optional), rows)
    say(f"calibration {calibration(answers[0].calibration)}; acceptance {_sources(answers)}")
    for a in answers:
        if a.sensitivity is not None:
            say(f"\n{at_point(a.query)}", "bold")
            moves(a.sensitivity)
    warn_where([(at_point(a.query), a.warnings) for a in answers])


def _sources(answers: list[WhatIf]) -> str:
    """Where the acceptances are from, and which contexts have which where they differ."""
    contexts: dict[str, dict[str, None]] = {}
    for a in answers:
        contexts.setdefault(a.acceptance.source, {})[f"{a.query.context}"] = None
    if len(contexts) == 1:
        return next(iter(contexts))
    return "; ".join(f"at context {', '.join(at)}: {source}" for source, at in contexts.items())


def moves(rows: Iterable[Move]) -> None:
    """What moves the speedup, most first."""
    table(
        ("if only this moves", "from", "to", "speedup", "to", "crosses 1"),
        [
            (r.input, r.low, r.high, times(r.speedup_low), times(r.speedup_high), "yes" if r.flips else "no")
            for r in rows
        ],
    )


def subject(q: Query) -> str:
    """Model, devices and draft."""
    draft = "itself" if q.draft == "self" else q.draft
    group = devices(q.hardware, float(q.tp))
    return f"{q.model} on {group}, drafted by {draft} through {(q.draft_kv or 'full').partition(',')[0]}"


def at_point(q: Query) -> str:
    """Batch, context and gamma."""
    return f"batch {q.batch}, context {q.context}, gamma {q.gamma}"


def style(a: WhatIf) -> str:
    """Of the verdict's line; a baseline that was asked for is neither good nor bad."""
    return "bold" if a.sentence == BASELINE else f"bold {COLOURS.get(a.verdict, 'yellow')}"


def gain(a: WhatIf) -> str:
    """The speedup with its interval."""
    if a.speedup_interval is None or a.interval_coverage is None:
        return f"{times(a.speedup)} (no interval: this calibration states no scatter)"
    low, high = a.speedup_interval
    return f"{times(a.speedup)} ({low:.2f} to {high:.2f}, {100 * a.interval_coverage:.0f} % interval)"


def calibration(c: Calibrated) -> str:
    """Its name, and what its numbers rest on."""
    return f"{c.name} ({c.rests_on or c.kind})"


def _facts(a: WhatIf) -> dict[str, str]:
    r, acceptance, turn = a.cost_ratios, a.acceptance, a.inflection
    inflection = f"{tokens(turn.inflection_context)} (from here on a larger batch costs no speedup)"
    fitted = f", fitted on {', '.join(a.calibration.fitted_on)}" if a.calibration.fitted_on else ""
    fitted = f"; rests on {a.calibration.rests_on}" if a.calibration.rests_on else fitted
    speculating = {
        "cost ratios": f"draft/target {r.draft_to_target:.3f}, verification/target {r.verify_to_target:.3f}",
        "iteration": f"{seconds(a.iteration_s)}{between(a.iteration_interval)}, "
        f"{seconds(a.overhead_s)} of it outside the passes",
        "acceptance": wanted(a) if a.speedup is None else _accepted(acceptance),
    }
    if a.speedup is not None:
        speculating |= {"break-even context": tokens(turn.break_even_context), "inflection context": inflection}
    setup = f"{seconds(a.draft_setup_s)} before the first token, {_breaks_even(a.break_even_new_tokens)}"
    rates = (rate(a.ar_throughput_tokens_per_s), rate(a.throughput_tokens_per_s))
    best = {} if a.gamma_optimal is None else {"best gamma": f"{a.gamma_optimal} ({times(a.speedup_at_gamma_optimal)})"}
    return {
        "time per token": f"{seconds(a.ar_tpot_s)} baseline{between(a.ar_tpot_interval)}, "
        f"{seconds(a.tpot_s)} speculating",
        "throughput": "{} tokens/s baseline, {} speculating".format(*rates),
        **(best if a.known else {}),
        **(speculating if a.query.gamma else {}),
        "memory-bound context": _memory_bound(turn.memory_bound_context),
        **({"draft set-up": setup} if a.query.gamma and a.speedup is not None else {}),
        "memory": _memory(a.memory),
        "engine": engine(a),
        "calibration": f"{a.calibration.name} ({a.calibration.kind}{fitted})",
    }


def between(interval: tuple[float, float] | None) -> str:
    """An interval of seconds in brackets; nothing where there is none."""
    return "" if interval is None else " ({} to {})".format(*map(seconds, interval))


def rate(tokens_per_s: float | None) -> str:
    """Tokens per second, without the unit."""
    return UNKNOWN if tokens_per_s is None else f"{tokens_per_s:.0f}"


def wanted(a: WhatIf) -> str:
    """How to say an acceptance that is not known."""
    return f"{a.acceptance.source}; give a measured one: --draft {a.query.draft} --alpha RATE, or --acceptance FILE"


def _accepted(a: Accepted) -> str:
    """What was assumed, and what a constant may be off by where it was measured at another draft length."""
    alpha, ends = f"alpha {a.alpha:.3f}, " if a.alpha is not None else "", a.tokens_per_iteration_interval
    carried = "" if ends is None else ", {:.2f} to {:.2f} if it changes with the position".format(*ends)
    return f"{alpha}{a.tokens_per_iteration:.2f} tokens per iteration{carried} ({a.source})"


def engine(a: WhatIf) -> str:
    """The serving engine and its version, or other stack, that the numbers are of, and which one runs the draft."""
    word, _, version = a.calibration.stack.partition(" ")
    name = ENGINES[a.query.engine] if a.query.engine and not a.calibration.rests_on else a.calibration.stack
    if a.calibration.rests_on and word in ENGINES:  # a serving engine
        name = f"{ENGINES[word]} {version}".strip()
    return name if a.runs_in is None else f"{name}; the draft runs in: {a.runs_in}"


def _memory_bound(context: float | None) -> str:
    if context is None:
        return f"{NONE} (at long contexts a step computes longer than it loads)"
    return "1 (a step loads longer than it computes at every length)" if context <= 1 else tokens(context)


def _breaks_even(new_tokens: int | None) -> str:
    if new_tokens is None:
        return "which never breaks even"
    return f"which breaks even after {new_tokens} new token{'s' * (new_tokens != 1)}"


def _memory(m: Memory[float]) -> str:
    draft = size(m.draft_weight_bytes + m.draft_kv_bytes)
    return (
        f"weights {size(m.weight_bytes)}, KV {size(m.kv_bytes)}, draft {draft} of "
        f"{size(m.available_bytes)} a device: {'fits' if m.fits else 'does not fit'}; "
        f"largest batch {m.max_batch} ({m.ar_max_batch} baseline)"
    )


def _measured(row: Measured) -> None:
    seen = "the calibration was fitted on this set" if row.fitted_on else ""
    note = "".join(f"; {text}" for text in (row.notes, seen) if text)
    cells = []
    for name, figure in row.figures.items():
        shown = [seconds(v) if name.endswith("_s") else f"{v:.2f}" for v in (figure.predicted, figure.measured)]
        cells.append((FIGURES[name], *shown, f"{figure.error:+.1%}"))
    table((f"measured at gamma {row.gamma}", "predicted", "measured", "error"), cells)
    say(f"source: {row.source}, row {row.row}, stack {row.stack}{note}", "dim")
