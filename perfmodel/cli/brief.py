"""What ``perfmodel whatif`` prints of one answer unless ``--verbose`` is given: eight lines or so."""

from perfmodel.answers.measured import Measured
from perfmodel.answers.text import seconds, size, times
from perfmodel.answers.verdict import SENTENCES
from perfmodel.answers.whatif import WhatIf
from perfmodel.cli.output import facts, say, warn
from perfmodel.cli.panel import at_point, between, calibration, engine, gain, moves, style, subject, wanted


def brief(a: WhatIf) -> None:
    """The verdict with its interval, why, what it takes in time and memory, what is best, and what to know."""
    say(f"{subject(a.query)}; {at_point(a.query)}", "bold")
    headline, why = _verdict(a)
    say(headline, style(a))
    facts(_facts(a, why))
    if a.sensitivity is not None:
        moves(a.sensitivity)
    warn(note for note in a.warnings if note not in a.memory.shortage(float(a.query.batch)))


def _verdict(a: WhatIf) -> tuple[str, str]:
    """In a sentence, and why."""
    if a.verdict == "does_not_fit":
        would, _, why = a.reason.partition("; ")
        return f"{SENTENCES[a.verdict]}; {would}", why
    if a.speedup is None:
        return f"{SENTENCES[a.verdict]}: {a.reason}", ""
    if a.query.gamma:
        return f"{SENTENCES[a.verdict]}: {gain(a)}", a.reason
    return a.sentence, a.reason


def _facts(a: WhatIf, why: str) -> dict[str, str]:
    told = {"if it did": gain(a)} if not a.memory.fits and a.query.gamma and a.speedup is not None else {}
    told |= {"why": why} if why else {}
    told |= {"time": _time(a), "memory": _memory(a)}
    if a.known and a.speedup is not None:
        told["best"] = _best(a)
    if a.measured:
        told["measured"] = "\n".join(map(_measured, a.measured))
    if a.query.gamma:
        told["acceptance"] = wanted(a) if a.speedup is None else _acceptance(a)
    return told | {"engine": f"{engine(a)}; calibration {calibration(a.calibration)}; --verbose has each pass and more"}


def _time(a: WhatIf) -> str:
    baseline = f"{seconds(a.ar_tpot_s)} per token, {a.ar_throughput_tokens_per_s:,.0f} tokens/s"
    if not a.query.gamma:
        return baseline
    iteration = f"{seconds(a.iteration_s)} an iteration{between(a.iteration_interval)}"
    if a.tpot_s is None:
        return f"{iteration}; baseline {baseline}"
    return f"{seconds(a.tpot_s)} per token, {a.throughput_tokens_per_s:,.0f} tokens/s, {iteration}; baseline {baseline}"


def _memory(a: WhatIf) -> str:
    m = a.memory
    used = m.weight_bytes + m.kv_bytes + m.draft_weight_bytes + m.draft_kv_bytes
    state = "fits" if m.fits else "does not fit"
    return f"{size(used)} of {size(m.available_bytes)} a device: {state}; the largest batch is {m.max_batch}"


def _best(a: WhatIf) -> str:
    here = f"gamma {a.gamma_optimal} at this batch ({times(a.speedup_at_gamma_optimal)})"
    if (b := a.best) is None:
        return here
    most = f"highest throughput: {b.throughput_tokens_per_s:,.0f} tokens/s at batch {b.batch}, gamma {b.gamma}"
    return f"{here}; {most} ({times(b.speedup)})"


def _acceptance(a: WhatIf) -> str:
    """What was assumed, and from which constant on it would pay at this gamma."""
    found, gamma = a.acceptance, int(a.query.gamma or 0)
    known = f"{found.alpha:.2f}, " if found.alpha is not None else ""
    said = f"{known}{found.tokens_per_iteration:.2f} tokens per iteration ({found.source})"
    if found.alpha is None:
        return said
    if a.break_even_alpha is None:
        return f"{said}; no acceptance breaks even at gamma {gamma}"
    return f"{said}; breaks even at {a.break_even_alpha:.2f}"


def _measured(row: Measured) -> str:
    seen = "; the calibration was fitted on this set" if row.fitted_on else ""
    told = row.figures.get("speedup") or next(iter(row.figures.values()))
    name = "" if "speedup" in row.figures else f"{next(iter(row.figures))} "
    return f"{name}{told.measured:.3g} at gamma {row.gamma}, predicted {told.predicted:.3g} ({row.source}){seen}"
