"""``perfmodel schedule``: the best draft length for each batch size, in the format of a serving engine."""

import json as json_module
from collections.abc import Iterable

from perfmodel.answers.advice.draft_lengths import Range
from perfmodel.answers.advice.engine_lines import Export
from perfmodel.answers.advice.schedule import Schedule, ScheduleTable, schedule
from perfmodel.answers.advice.servers.sglang import ADAPTIVE_FILE
from perfmodel.answers.text import NONE, draft_in_words, model_and_shape, ratio_text
from perfmodel.cli.commands import LLAMA, verb
from perfmodel.cli.output import say, say_command, say_whole, table, warn
from perfmodel.cli.panel import calibration
from perfmodel.speculation.confidence import ByConfidence

GAIN = 1.0005
"""Smallest gain over the best fixed draft length that is printed, as a factor. A smaller gain would be
printed as 0.0 %.
"""


def _print(answer: Schedule) -> None:
    """Prints the tables of draft lengths, the gain of each table, the lines for engines, and warnings."""
    drafted = draft_in_words(answer.draft, answer.draft_kv)
    model = model_and_shape(answer.model, answer.shape)
    say(f"{model} on {answer.tp} x {answer.hardware}; {drafted}", "bold")
    tables = answer.tables
    if answer.does_not_fit is not None:
        tables = ()
        say(f"Does not fit in memory: {answer.does_not_fit}.", "red")
    else:
        _print_lengths(tables)
    for lengths in tables:
        _print_gains(lengths, f"context {lengths.context_high}: " if len(tables) > 1 else "")
    if len(tables) == 1:
        _print_lines(tables[0])
    elif tables:
        rows_of_five = json_module.dumps(answer.num_speculative_tokens_per_batch_and_context)
        say_whole(f"proposed [bs_lo, bs_hi, ctx_lo, ctx_hi, K]: {rows_of_five}")
    for note in _notes(lengths.export for lengths in tables):
        say(note, "dim")
    if answer.runs_in is not None:
        say(f"the draft runs in: {answer.runs_in}", "dim")
    acceptance = f"acceptance {answer.acceptance_source}"
    say(f"calibration {calibration(answer.calibration)}; {acceptance}", "dim")
    warn(answer.warnings)


def _print_lengths(tables: Iterable[ScheduleTable]) -> None:
    """Prints the draft length, the speedup and its interval for each range of batch sizes, by context."""
    rows = []
    for lengths in tables:
        contexts = f"{lengths.context_low}-{lengths.context_high}"
        if lengths.context_low == lengths.context_high:
            contexts = f"{lengths.context_high}"
        rows += [(contexts, *_cells(batches)) for batches in lengths.ranges]
    table(("contexts", "batch sizes", "draft tokens", "speedup", "90 % interval"), rows)


def _cells(batches: Range) -> tuple[str, ...]:
    """The cells of a range of batch sizes after its contexts."""
    draft_tokens = str(batches.tokens) if batches.tokens else "off"
    sizes = f"{batches.low}-{batches.high}"
    return (sizes, draft_tokens, ratio_text(batches.speedup), _interval(batches))


def _interval(batches: Range) -> str:
    """The interval of a range. If drafting is off there, the text names the draft length of the interval."""
    if batches.interval is None:
        return NONE
    low, high = batches.interval
    interval = f"{low:.2f} to {high:.2f}"
    return interval if batches.tokens else f"draft {batches.draft}: {interval}"


def _print_gains(lengths: ScheduleTable, where: str) -> None:
    """Prints the expected speedup of a table, the gain of verification by confidence, and the advice to use
    one length instead.

    - where: the context with a colon, if there are several tables.
    """
    say(f"{where}expected speedup {ratio_text(lengths.speedup)}{_over_fixed(lengths)}")
    if lengths.by_confidence is not None:
        say(f"{where}{_confidence(lengths.by_confidence)}")
    if lengths.instead is not None:
        say(f"{lengths.instead[0].upper()}{lengths.instead[1:]}.")


def _over_fixed(lengths: ScheduleTable) -> str:
    """The gain over the best fixed length; empty for a table of one range, which has a fixed length."""
    if len(lengths.ranges) == 1:
        return ""
    fixed = f"a fixed draft length of {lengths.best_constant}"
    if lengths.gain < GAIN:
        return f": no gain over {fixed}"
    return f": {100 * (lengths.gain - 1):.1f} % more than {fixed} ({ratio_text(lengths.constant_speedup)})"


def _confidence(by: ByConfidence) -> str:
    """The gain of verification by confidence, in words."""
    gain = f"{100 * (by.speedup / by.fixed_speedup - 1):.1f} % over a fixed length of {by.fixed}"
    cut = f"{by.verified:.1f} of {by.drafted} drafted tokens at the largest batch"
    return f"verification by confidence gains {gain}; it verifies {cut}"


def _print_lines(lengths: ScheduleTable) -> None:
    """Prints the command line of each engine, and the contents of the files that SGLang reads."""
    export = lengths.export
    for engine, line in export.lines.items():
        say_command(line, export.remarks.get(engine, ""))
    if export.sglang_adaptive is not None:
        say_whole(f"{ADAPTIVE_FILE}: {json_module.dumps(export.sglang_adaptive)}")
    if lengths.sglang_costs is not None:
        costs = json_module.dumps(lengths.sglang_costs)
        say_whole(f"--speculative-dspark-sps-table-path (SGLang): {costs}")


def _notes(exports: Iterable[Export]) -> list[str]:
    """The notes of all tables, each once."""
    return list(dict.fromkeys(note for export in exports for note in export.notes))


app = verb(schedule, _print, example=f"{LLAMA} --context 8k --draft ngram --rate 0.4x3")
