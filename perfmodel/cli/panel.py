"""Prints the output of ``perfmodel whatif``: one answer in about eight lines, one answer with all details, or
a table of several answers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from perfmodel.answers.point.calibrated import Calibrated
from perfmodel.answers.point.verdict import CELLS, NOT_ONE_FITS, SENTENCES
from perfmodel.answers.point.whatif_answer import Admitted, Move, WhatIf
from perfmodel.answers.question import Query
from perfmodel.answers.text import (
    UNKNOWN,
    chance_text,
    context_text,
    devices,
    draft_in_words,
    interval_text,
    kv_cache_text,
    model_and_shape,
    range_text,
    ratio_text,
    seconds,
    size,
)
from perfmodel.cli.output import Column, facts, fit, say, say_command, table, warn, warn_where
from perfmodel.specs import COVERAGE, ENGINES, VERSION_SEPARATOR, serving_engines

COLOURS = {
    "pays": "green",
    "likely_pays": "green",
    "likely_does_not_pay": "red",
    "does_not_pay": "red",
    "does_not_fit": "red",
}
"""Colour of each verdict; an undecided verdict is yellow."""
NO_LINE = (
    "no command line, because not one sequence fits; if the host has memory of its own, ask with some layers "
    "(--gpu-layers N) or experts (--cpu-moe N) there, and with --host-bandwidth GB/S"
)
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
MOST_VERSIONED = 4
"""Largest number of answers of a table that are also computed for older versions, because each version
takes time.
"""


def single(a: WhatIf, query: Query, verbose: bool) -> None:
    """Prints one answer. It begins with the verdict and its reason, and ends with warnings.

    - query: the question as it was given.
    - verbose: whether to print also each pass and the evidence for the numbers.
    """
    say(f"{_subject(a)}; {_at_point(a.query)}", "bold")
    headline, why = _headline(a)
    # a requested baseline is neither good nor bad
    style = "bold"
    if not a.is_baseline_as_asked:
        style = f"bold {'yellow' if a.admitted else COLOURS.get(a.verdict, 'yellow')}"
    say(headline, style)
    older = _older_version(a, query)
    facts(older | _facts(a, why, verbose) | _undecided(a, query))
    if verbose:
        from perfmodel.cli.panel_details import more_facts, print_passes  # imported only for this output

        print_passes(a)
        facts(more_facts(a))
    if a.sensitivity is not None:
        moves(a.sensitivity)
    shortages = a.memory.shortage(float(a.query.batch))  # the verdict and the memory already say these
    warn(note for note in a.warnings if note not in shortages)
    engine = serving_engines().get(a.calibration.stack)
    if engine is None or engine.conversion != "gguf":
        return
    if a.reason.startswith(NOT_ONE_FITS):
        say(NO_LINE)
    elif a.gamma_optimal is not None:
        from perfmodel.answers.advice.engine_lines import line_of_file

        tokens = 0 if query.gamma == 0 else a.gamma_optimal
        if (command := line_of_file(replace(query, draft=a.query.draft), tokens)) is not None:
            say_command(*command)


def _older_version(a: WhatIf, query: Query) -> dict[str, str]:
    """The newest older version of the engine with another verdict, if there is one."""
    if a.speedup is None or not a.memory.fits:
        return {}
    from perfmodel.answers.point.versions import other_verdict  # prices the question for each version

    older = other_verdict(replace(query, draft=a.query.draft, gamma=a.query.gamma), a.verdict, a.speedup)
    if older is None:
        return {}
    word, _, version = a.calibration.stack.partition(" ")
    newest = f"{ENGINES[word]} {version}, newest fitted version"
    return {"version": f"{newest}; {older.text} at gamma {a.query.gamma}"}


def _undecided(a: WhatIf, query: Query) -> dict[str, str]:
    """The measurement that decides a verdict that is too close to call; empty for other verdicts, and if no
    acceptance is known.
    """
    if a.verdict != "too_close_to_call" or a.speedup is None:
        return {}
    from perfmodel.cli.to_decide import to_decide  # imported only for such a verdict

    return {"to decide": to_decide(a, query)}


def several(answers: Sequence[WhatIf], queries: Sequence[Query] = ()) -> None:
    """Prints several answers, one per line.

    - queries: the questions as they were given. The first `MOST_VERSIONED` questions are also answered for
      older versions of the engine.
    """
    say(_subject(answers[0]), "bold")
    table(COLUMNS, [_cells(a) for a in answers])
    if typical := next((a.typical for a in answers if a.typical is not None), None):
        say(f"a range of speedups is that {typical.of_its_kind}; measure the acceptance to decide")
    say(f"calibration {calibration(answers[0].calibration)}; acceptance {_sources(answers)}")
    for a, query in zip(answers[:MOST_VERSIONED], queries, strict=False):
        if older := _older_version(a, query):
            say(f"version at {_at_point(a.query)}: {older['version']}")
            break
    for a in answers:
        if a.sensitivity is not None:
            say(f"\n{_at_point(a.query)}", "bold")
            moves(a.sensitivity)
    warn_where([(_at_point(a.query), a.warnings) for a in answers])


def _cells(a: WhatIf) -> tuple[str, ...]:
    """One cell for each of `COLUMNS`."""
    q = a.query
    throughput = UNKNOWN
    if a.throughput_tokens_per_s is not None:
        throughput = f"{a.throughput_tokens_per_s:.0f}"
    best_gamma = UNKNOWN
    if a.gamma_optimal is not None:
        best_gamma = f"{a.gamma_optimal} ({ratio_text(a.speedup_at_gamma_optimal)})"
    point = (f"{q.batch}", context_text(q.context), f"{q.gamma}")
    if a.admitted is not None:
        return (*point, *_admitted_cells(a.admitted, a.ar_tpot_s), best_gamma, f"{a.admitted.running} run")
    speedup = a.typical.range if a.typical is not None else ratio_text(a.speedup)
    verdict = (CELLS[a.verdict], speedup)
    pace = (seconds(a.ar_tpot_s), seconds(a.tpot_s), throughput)
    return (*point, *verdict, *pace, best_gamma, fit(a.memory.fits, a.memory.max_batch))


def _admitted_cells(admitted: Admitted, ar_tpot_s: float) -> tuple[str, ...]:
    """The cells of verdict, speedup and pace, if only some of the requests run at once."""
    throughput = f"{admitted.throughput_tokens_per_s:.0f}"
    verdict = (CELLS[admitted.verdict], ratio_text(admitted.gain))
    return (*verdict, seconds(ar_tpot_s), seconds(admitted.tpot_s), throughput)


def _sources(answers: Sequence[WhatIf]) -> str:
    """The sources of the acceptances, with the contexts of each if they differ."""
    contexts_by_source: dict[str, dict[str, None]] = {}
    for a in answers:
        contexts_by_source.setdefault(a.acceptance.source, {})[context_text(a.query.context)] = None
    if len(contexts_by_source) == 1:
        return next(iter(contexts_by_source))
    parts = []
    for source, contexts in contexts_by_source.items():
        parts.append(f"at context {', '.join(contexts)}: {source}")
    return "; ".join(parts)


def _gain(a: WhatIf) -> str:
    """The speedup with its interval."""
    if a.speedup_interval is None:
        return f"{ratio_text(a.speedup)} (no interval: the calibration has no scatter)"
    low, high = a.speedup_interval
    chance = chance_text(a.speedup_interval)
    return f"{ratio_text(a.speedup)} ({low:.2f} to {high:.2f}, {100 * COVERAGE:.0f} % interval{chance})"


def calibration(c: Calibrated) -> str:
    """The name of the calibration, and the measurements from which its numbers come."""
    return f"{c.name} ({c.rests_on or c.kind})"


def _headline(a: WhatIf) -> tuple[str, str]:
    """The verdict as a sentence, and its reason. The reason is empty if the sentence has it."""
    if a.admitted is not None:
        _, _, why = a.reason.partition("; ")
        return f"{a.admitted.waiting(a.query.batch)}; {SENTENCES[a.admitted.verdict].lower()}", why
    if a.verdict == "does_not_fit":
        fits, _, why = a.reason.partition("; ")
        return f"{SENTENCES[a.verdict]}: {fits}", why
    if a.speedup is None:
        return f"{SENTENCES[a.verdict]}: {a.reason}", ""
    if not a.query.gamma:
        return a.sentence, a.reason
    return f"{SENTENCES[a.verdict]}: {_gain(a)}", a.reason


def _served(admitted: Admitted) -> str:
    """Throughput and pace of the requests that run, and the throughput of the baseline."""
    gain = f"{ratio_text(admitted.gain)}{interval_text(admitted.gain_interval)}"
    return (
        f"{admitted.running} requests at once give {admitted.throughput_tokens_per_s:,.0f} tokens/s, "
        f"{seconds(admitted.tpot_s)} per token of a running request: {gain} the "
        f"{admitted.ar_throughput_tokens_per_s:,.0f} tokens/s of the baseline, which runs "
        f"{admitted.baseline_running} requests at once"
    )


def _facts(a: WhatIf, why: str, verbose: bool) -> dict[str, str]:
    """The rows of the answer below its headline: label -> text.

    - why: the reason of the verdict; empty if the headline states it.
    """
    m = a.memory
    query = a.query
    rows = {}
    if a.admitted is not None:
        rows["served"] = _served(a.admitted)
    if not m.fits and query.gamma and a.speedup is not None:
        rows["if all ran" if a.admitted else "if it fitted"] = _gain(a)
    if why:
        rows["why"] = why
    rows["time"] = _time(a)
    if a.power_w is not None:
        rows["energy"] = _energy(a)
    used_bytes = m.weight_bytes + m.kv_bytes + m.draft_weight_bytes + m.draft_kv_bytes
    state = f"{'fits' if m.fits else 'does not fit'}; largest batch {m.max_batch}"
    together = max(query.layer_split, query.hardware.count("+") + 1)
    where = f"on {together} devices together" if together > 1 else "per device"
    rows["memory"] = f"{size(used_bytes)} of {size(m.available_bytes)} {where}: {state}"
    rows["KV cache"] = kv_cache_text(a.kv_cache, a.calibration.stack)
    if a.states_draft and a.speedup is not None:
        rows["best"] = _best(a)
    if a.remedies:
        rows["remedy"] = "; ".join(remedy.text for remedy in a.remedies)
    if query.gamma:
        rows["acceptance"] = _acceptance(a)
    if query.dp > 1 and (layout := _layout(a, query)):
        rows["layout"] = layout
    more = "" if verbose else "; --verbose shows each pass"
    return rows | {"engine": f"{_engine(a)}; calibration {calibration(a.calibration)}{more}"}


def _layout(a: WhatIf, query: Query) -> str | None:
    """The degrees in the engine's own flags; None for an engine without a known command line."""
    from perfmodel.answers.advice.servers import servers  # imported only for this row

    server = servers().get(a.calibration.stack.partition(" ")[0])
    version = (query.engine or "").partition(VERSION_SEPARATOR)[2]
    return None if server is None else server.degrees(query.tp, query.dp, version)


def _time(a: WhatIf) -> str:
    """Time per token and throughput with the draft, and those of the baseline."""
    step = f"{seconds(a.ar_tpot_s)} per token{range_text(a.ar_tpot_interval)}"
    baseline = f"{step}, {a.ar_throughput_tokens_per_s:,.0f} tokens/s"
    if not a.query.gamma:
        return f"{baseline}{_throughputs(a.ar_tpot_interval, a.query.batch)}"
    iteration = f"{seconds(a.iteration_s)} per iteration{range_text(a.iteration_interval)}"
    text = f"{iteration}; baseline {baseline}"
    if a.typical is not None:
        low, high = (a.ar_throughput_tokens_per_s * speedup for speedup in a.typical.speedups)
        return f"{low:,.0f} to {high:,.0f} tokens/s with a typical draft; {text}"
    if a.tpot_s is None:
        return text
    pace = f"{seconds(a.tpot_s)} per token, {a.throughput_tokens_per_s:,.0f} tokens/s"
    return f"{pace}, {text}"


def _energy(a: WhatIf) -> str:
    """The energy per token with and without the draft, and the power, in words."""
    baseline = f"baseline {a.ar_joules_per_token:.2f} J per token; {a.power_w:.0f} W per device"
    if a.joules_per_token is None or not a.query.gamma:
        return baseline
    return f"{a.joules_per_token:.2f} J per token; {baseline}"


def _best(a: WhatIf) -> str:
    """The best draft length at this batch, and the batch and draft length of highest throughput."""
    text = f"gamma {a.gamma_optimal} at this batch ({ratio_text(a.speedup_at_gamma_optimal)})"
    b = a.best
    if b is None or (a.throughput_tokens_per_s or 0.0) > b.throughput_tokens_per_s:  # beyond --batch-range
        return text
    point = f"batch {b.batch}, gamma {b.gamma} ({ratio_text(b.speedup)})"
    return f"{text}; highest throughput: {b.throughput_tokens_per_s:,.0f} tokens/s at {point}"


def _acceptance(a: WhatIf) -> str:
    """The acceptance used, and the break-even acceptance at this gamma. If the acceptance is unknown, the
    text names the flags that state it.
    """
    acceptance = a.acceptance
    if a.speedup is None:
        measure = "" if a.typical is None else f", made by: {a.typical.measure}"
        return (
            f"{acceptance.source}; give a measured one: --draft {a.query.draft} --rate RATE, "
            f"or --acceptance FILE{measure}"
        )
    alpha = f"{acceptance.alpha:.2f}, " if acceptance.alpha is not None else ""
    text = f"{alpha}{acceptance.tokens_per_iteration:.2f} tokens per iteration ({acceptance.source})"
    if acceptance.alpha is None:
        return text
    if a.break_even_alpha is None:
        return f"{text}; no acceptance breaks even at gamma {a.query.gamma}"
    return f"{text}; breaks even at {a.break_even_alpha:.2f}"


def moves(rows: Iterable[Move]) -> None:
    """Prints a table of the inputs that change the speedup. The input with the strongest effect is first."""
    cells = []
    for move in rows:
        speedups = (ratio_text(move.speedup_low), ratio_text(move.speedup_high))
        crosses = "yes" if move.flips else "no"
        cells.append((move.input, move.low, move.high, *speedups, crosses))
    table(("only this input changes", "from", "to", "speedup", "to", "crosses 1"), cells)


def _subject(a: WhatIf) -> str:
    """Model, devices and draft."""
    q = a.query
    draft = draft_in_words(str(q.draft), q.draft_kv or "full")
    return f"{model_and_shape(q.model, a.shape)} on {devices(q.hardware, float(q.tp * q.pp))}; {draft}"


def _at_point(q: Query) -> str:
    """Batch, context and gamma."""
    return f"batch {q.batch}, context {context_text(q.context)}, gamma {q.gamma}"


def _throughputs(tpot_interval: tuple[float, float] | None, batch: int) -> str:
    """The interval of the throughput in brackets, from that of the TPOT; empty without an interval."""
    if tpot_interval is None:
        return ""
    least, most = tpot_interval
    return f" ({batch / most:,.0f} to {batch / least:,.0f})"


def _engine(a: WhatIf) -> str:
    """The serving engine and version (or other stack) behind the numbers, and the engine that runs the
    draft.
    """
    engine = a.query.engine
    backend = a.query.attention_backend
    if a.calibration.rests_on:
        word, _, version = a.calibration.stack.partition(" ")
        name = f"{ENGINES[word]} {version}".strip()
        if VERSION_SEPARATOR not in (engine or ""):
            stack = serving_engines().get(word)
            borrows = stack is not None and stack.constants_of is not None
            name += ", newest known version" if borrows else ", newest fitted version"
        if backend:
            name += f" ({backend})"
    elif engine:
        word, _, version = engine.partition(VERSION_SEPARATOR)
        name = f"{ENGINES[word]} {version}".strip()
    else:
        name = a.calibration.stack
    if a.runs_in is None:
        return name
    return f"{name}; the draft runs in: {a.runs_in}"
