"""The output of ``perfmodel whatif``: one answer in about eight lines, one in full, or several as a table."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from perfmodel.answers.point.verdict import CELLS, SENTENCES, Calibrated
from perfmodel.answers.point.whatif import BASELINE, Move, WhatIf
from perfmodel.answers.question import Query
from perfmodel.answers.text import (
    NONE,
    UNKNOWN,
    devices,
    draft_in_words,
    kv_cache_text,
    limiter,
    ratio_text,
    seconds,
    size,
    tokens,
)
from perfmodel.cli.output import Column, facts, fit, say, say_whole, table, warn, warn_where
from perfmodel.specs import COVERAGE, DRIFT, ENGINES, LLAMACPP

COLOURS = {
    "pays": "green",
    "likely_pays": "green",
    "likely_does_not_pay": "red",
    "does_not_pay": "red",
    "does_not_fit": "red",
}
"""Colour of each verdict; an open one is yellow."""
COLUMNS = (
    "batch",
    "context",
    "gamma",
    "pays",
    "speedup",
    Column("baseline TPOT", spare=1),
    "TPOT",
    Column("tokens/s", spare=3),
    Column("best gamma", spare=2),
    "fits",
)


def single(a: WhatIf, query: Query, verbose: bool) -> None:
    """The verdict with its interval, the reason, time and memory, the best draft length and batch, and
    warnings.

    query: the question as it was given. verbose: also each pass, and the evidence behind the numbers.
    """
    say(f"{_subject(a.query)}; {_at_point(a.query)}", "bold")
    headline, why = _verdict(a)
    # a requested baseline is neither good nor bad
    say(headline, "bold" if a.sentence == BASELINE else f"bold {COLOURS.get(a.verdict, 'yellow')}")
    older = _older_version(a, query)
    facts(older | _facts(a, why, verbose))
    if verbose:
        _passes(a)
        facts(_more(a))
    if a.sensitivity is not None:
        _moves(a.sensitivity)
    warn(note for note in a.warnings if note not in a.memory.shortage(float(a.query.batch)))
    if a.calibration.stack == LLAMACPP and a.gamma_optimal is not None:
        from perfmodel.answers.advice.engine_lines import llamacpp_line

        say_whole(llamacpp_line(replace(query, draft=a.query.draft), a.gamma_optimal) or "")


def _older_version(a: WhatIf, query: Query) -> dict[str, str]:
    """The newest older version of the engine with another verdict, if there is one."""
    if a.speedup is None or not a.memory.fits:
        return {}
    from perfmodel.answers.point.versions import other_verdict  # prices the question for each version

    older = other_verdict(replace(query, draft=a.query.draft, gamma=a.query.gamma), a.verdict)
    if older is None:
        return {}
    word, _, version = a.calibration.stack.partition(" ")
    return {"version": f"{ENGINES[word]} {version}, the newest fitted; {older.text} at gamma {a.query.gamma}"}


def several(answers: Sequence[WhatIf]) -> None:
    """Several answers, one per line."""
    say(_subject(answers[0].query), "bold")
    rows = [
        (
            f"{a.query.batch}",
            f"{a.query.context}",
            f"{a.query.gamma}",
            CELLS[a.verdict],
            ratio_text(a.speedup),
            seconds(a.ar_tpot_s),
            seconds(a.tpot_s),
            UNKNOWN if a.throughput_tokens_per_s is None else f"{a.throughput_tokens_per_s:.0f}",
            UNKNOWN
            if a.gamma_optimal is None
            else f"{a.gamma_optimal} ({ratio_text(a.speedup_at_gamma_optimal)})",
            fit(a.memory.fits, a.memory.max_batch),
        )
        for a in answers
    ]
    table(COLUMNS, rows)
    say(f"calibration {calibration(answers[0].calibration)}; acceptance {_sources(answers)}")
    for a in answers:
        if a.sensitivity is not None:
            say(f"\n{_at_point(a.query)}", "bold")
            _moves(a.sensitivity)
    warn_where([(_at_point(a.query), a.warnings) for a in answers])


def _sources(answers: Sequence[WhatIf]) -> str:
    """The sources of the acceptances, with the contexts of each where they differ."""
    contexts: dict[str, dict[str, None]] = {}
    for a in answers:
        contexts.setdefault(a.acceptance.source, {})[f"{a.query.context}"] = None
    each = [f"at context {', '.join(at)}: {source}" for source, at in contexts.items()]
    return "; ".join(contexts if len(contexts) == 1 else each)


def _gain(a: WhatIf) -> str:
    """The speedup with its interval."""
    if a.speedup_interval is None:
        return f"{ratio_text(a.speedup)} (no interval: the calibration has no scatter)"
    low, high = a.speedup_interval
    return f"{ratio_text(a.speedup)} ({low:.2f} to {high:.2f}, {100 * COVERAGE:.0f} % interval)"


def calibration(c: Calibrated) -> str:
    """The name of the calibration, and the measurements behind its numbers."""
    return f"{c.name} ({c.rests_on or c.kind})"


def _verdict(a: WhatIf) -> tuple[str, str]:
    """The verdict as a sentence, and its reason."""
    if a.verdict == "does_not_fit":
        would, _, why = a.reason.partition("; ")
        return f"{SENTENCES[a.verdict]}; {would}", why
    if a.speedup is None:
        return f"{SENTENCES[a.verdict]}: {a.reason}", ""
    return f"{SENTENCES[a.verdict]}: {_gain(a)}" if a.query.gamma else a.sentence, a.reason


def _facts(a: WhatIf, why: str, verbose: bool) -> dict[str, str]:
    m = a.memory
    query = a.query
    rows = {"if it did": _gain(a)} if not m.fits and query.gamma and a.speedup is not None else {}
    rows |= {"why": why} if why else {}
    rows["time"] = f"{seconds(a.ar_tpot_s)} per token, {a.ar_throughput_tokens_per_s:,.0f} tokens/s"
    if query.gamma:
        rows["time"] = (
            f"{seconds(a.iteration_s)} per iteration{_range(a.iteration_interval)}; baseline {rows['time']}"
        )
        if a.tpot_s is not None:
            pace = f"{seconds(a.tpot_s)} per token, {a.throughput_tokens_per_s:,.0f} tokens/s"
            rows["time"] = f"{pace}, {rows['time']}"
    if a.power_w is not None:
        energy = (
            "" if a.joules_per_token is None or not query.gamma else f"{a.joules_per_token:.2f} J per token; "
        )
        rows["energy"] = (
            f"{energy}baseline {a.ar_joules_per_token:.2f} J per token; {a.power_w:.0f} W per device"
        )
    used = m.weight_bytes + m.kv_bytes + m.draft_weight_bytes + m.draft_kv_bytes
    state = f"{'fits' if m.fits else 'does not fit'}; largest batch {m.max_batch}"
    together = max(query.layer_split, query.hardware.count("+") + 1)
    where = f"on {together} devices together" if together > 1 else "per device"
    rows["memory"] = f"{size(used)} of {size(m.available_bytes)} {where}: {state}"
    rows["KV cache"] = kv_cache_text(a.kv_cache)
    if a.known and a.speedup is not None:
        rows["best"] = f"gamma {a.gamma_optimal} at this batch ({ratio_text(a.speedup_at_gamma_optimal)})"
        if (b := a.best) is not None:
            most = (
                f"{b.throughput_tokens_per_s:,.0f} tokens/s at batch {b.batch}, gamma {b.gamma} "
                f"({ratio_text(b.speedup)})"
            )
            rows["best"] += f"; highest throughput: {most}"
    if a.remedies:
        rows["remedy"] = "; ".join(remedy.text for remedy in a.remedies)
    if query.gamma:
        rows["acceptance"] = _acceptance(a)
    more = "" if verbose else "; --verbose has each pass and more"
    return rows | {"engine": f"{_engine(a)}; calibration {calibration(a.calibration)}{more}"}


def _acceptance(a: WhatIf) -> str:
    """The acceptance used and the break-even acceptance at this gamma; if unknown, which flag supplies it."""
    found = a.acceptance
    if a.speedup is None:
        measure = "" if a.typical is None else f", made by: {a.typical.measure}"
        return (
            f"{found.source}; give a measured one: --draft {a.query.draft} --rate RATE, or --acceptance "
            f"FILE{measure}"
        )
    known = f"{found.alpha:.2f}, " if found.alpha is not None else ""
    text = f"{known}{found.tokens_per_iteration:.2f} tokens per iteration ({found.source})"
    if found.alpha is None:
        return text
    if a.break_even_alpha is None:
        return f"{text}; no acceptance breaks even at gamma {a.query.gamma}"
    return f"{text}; breaks even at {a.break_even_alpha:.2f}"


def _passes(a: WhatIf) -> None:
    """Each pass with its bounds."""
    steps = {"baseline step": a.target_step}
    if a.query.gamma:
        steps |= {"draft step": a.draft_step, "verification": a.verify_step}
    rows = [
        (name, seconds(s.lower_s), seconds(s.predicted_s), seconds(s.serial_s), limiter(s.limiter))
        for name, s in steps.items()
    ]
    table(("one pass", "lower bound", "predicted", "no overlap", "limited by"), rows)


def _more(a: WhatIf) -> dict[str, str]:
    """The parts of the full answer that the short one leaves out."""
    r = a.cost_ratios
    turn = a.inflection
    m = a.memory
    rows = {"baseline": f"{seconds(a.ar_tpot_s)} per token{_range(a.ar_tpot_interval)}"}
    if a.query.gamma:
        ratios = f"draft/target {r.draft_to_target:.3f}, verification/target {r.verify_to_target:.3f}"
        rows["cost ratios"] = f"{ratios}; {seconds(a.overhead_s)} per iteration outside the passes"
    if (ends := a.acceptance.tokens_per_iteration_interval) is not None:
        rows["tokens"] = "{:.2f} to {:.2f} per iteration if acceptance changes with the position".format(
            *ends
        )
    if a.query.gamma and a.speedup is not None:
        rows["break-even context"] = tokens(turn.break_even_context)
        rows["inflection context"] = (
            f"{tokens(turn.inflection_context)} (from here on a larger batch does not reduce the speedup)"
        )
        n = a.break_even_new_tokens
        earned = "never breaks even" if n is None else f"breaks even after {n} new token{'s' * (n != 1)}"
        rows["draft set-up"] = f"{seconds(a.draft_setup_s)} before the first token, which {earned}"
    if (start := turn.memory_bound_context) == 1:
        rows["memory-bound context"] = "1 (loading takes longer than computing at every context)"
    else:
        never = f"{NONE} (at long contexts, computing takes longer than loading)"
        rows["memory-bound context"] = never if start is None else tokens(start)
    draft = size(m.draft_weight_bytes + m.draft_kv_bytes)
    together = a.query.layer_split > 1 or "+" in a.query.hardware
    holds = "the devices hold" if together else "each device holds"
    rows[holds] = f"weights {size(m.weight_bytes)}, KV {size(m.kv_bytes)}, draft {draft}"
    rows["largest batch"] = f"{m.max_batch} ({m.ar_max_batch} baseline)"
    if a.calibration.fitted_on and not a.calibration.rests_on:
        rows["fitted on"] = ", ".join(a.calibration.fitted_on)
    return rows


def _moves(rows: Iterable[Move]) -> None:
    """The inputs that change the speedup, the strongest first."""
    cells = [
        (
            r.input,
            r.low,
            r.high,
            ratio_text(r.speedup_low),
            ratio_text(r.speedup_high),
            "yes" if r.flips else "no",
        )
        for r in rows
    ]
    table(("only this input changes", "from", "to", "speedup", "to", "crosses 1"), cells)


def _subject(q: Query) -> str:
    """Model, devices and draft."""
    return (
        f"{q.model} on {devices(q.hardware, float(q.tp))}; "
        f"{draft_in_words(str(q.draft), q.draft_kv or 'full')}"
    )


def _at_point(q: Query) -> str:
    """Batch, context and gamma."""
    return f"batch {q.batch}, context {q.context}, gamma {q.gamma}"


def _range(interval: tuple[float, float] | None) -> str:
    """An interval of seconds in brackets; empty without one."""
    if interval is None:
        return ""
    return " ({} to {})".format(*map(seconds, interval))


def _engine(a: WhatIf) -> str:
    """The serving engine and version (or other stack) behind the numbers, and the engine that runs the
    draft.
    """
    word, _, version = a.calibration.stack.partition(" ")
    name = ENGINES[a.query.engine] if a.query.engine and not a.calibration.rests_on else a.calibration.stack
    if a.calibration.rests_on:
        name = f"{ENGINES[word]} {version}".strip()
        name += "" if DRIFT in (a.query.engine or "") else ", the newest fitted"
        name += f" ({a.query.attention_backend})" if a.query.attention_backend else ""
    if a.runs_in is None:
        return name
    return f"{name}; the draft runs in: {a.runs_in}"
