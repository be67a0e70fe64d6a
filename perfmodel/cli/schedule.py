"""``perfmodel schedule``: the draft length for each batch size, ready for a serving engine."""

import json as json_module

from perfmodel.answers.advice.draft_lengths import Range
from perfmodel.answers.advice.schedule import Schedule, schedule
from perfmodel.answers.advice.servers.sglang import ADAPTIVE_FILE
from perfmodel.answers.text import NONE, draft_in_words, ratio_text
from perfmodel.cli.commands import LLAMA, verb
from perfmodel.cli.output import say, say_whole, table, warn
from perfmodel.cli.panel import calibration

GAIN = 1.0005
"""A gain over the best fixed length is printed from this factor on; a smaller gain would be printed as 0.0
%.
"""


def _print(a: Schedule) -> None:
    """The tables of draft lengths, the gain of each, the lines for engines, and warnings."""
    tables = a.tables if a.does_not_fit is None else ()
    say(f"{a.model} on {a.tp} x {a.hardware}; {draft_in_words(a.draft, a.draft_kv)}", "bold")
    rows = []
    for t in tables:
        contexts = f"{t.context_low}-{t.context_high}"
        if t.context_low == t.context_high:
            contexts = f"{t.context_high}"
        rows += [(contexts, *_cells(r)) for r in t.ranges]
    if a.does_not_fit is None:
        table(("contexts", "batch sizes", "draft tokens", "speedup", "90 % interval"), rows)
    else:
        say(f"Does not fit in memory: {a.does_not_fit}.", "red")
    for t in tables:
        where = f"context {t.context_high}: " if len(tables) > 1 else ""
        fixed = f"a fixed draft length of {t.best_constant}"
        over = f"{100 * (t.gain - 1):.1f} % more than {fixed} ({ratio_text(t.constant_speedup)})"
        if len(t.ranges) == 1:
            than = ""
        else:
            than = f": no gain over {fixed}" if t.gain < GAIN else f": {over}"
        say(f"{where}expected speedup {ratio_text(t.speedup)}{than}")
        if (by := t.by_confidence) is not None:
            gain = f"{100 * (by.speedup / by.fixed_speedup - 1):.1f} % over a fixed length of {by.fixed}"
            cut = f"{by.verified:.1f} of {by.drafted} drafted tokens at the largest batch"
            say(f"{where}verification by confidence gains {gain}; it verifies {cut}")
        if t.instead is not None:
            say(f"{t.instead[0].upper()}{t.instead[1:]}.")
    if len(tables) == 1:
        out = tables[0].export
        for word, line in out.lines.items():
            say_whole(line)
            if word in out.remarks:
                say(f"{out.remarks[word]}.")
        if (lengths := out.sglang_adaptive) is not None:
            say_whole(f"{ADAPTIVE_FILE}: {json_module.dumps(lengths)}")
        if (costs := tables[0].sglang_costs) is not None:
            say_whole(f"--speculative-dspark-sps-table-path (SGLang): {json_module.dumps(costs)}")
    elif tables:
        rows_of_five = json_module.dumps(a.num_speculative_tokens_per_batch_and_context)
        say_whole(f"proposed [bs_lo, bs_hi, ctx_lo, ctx_hi, K]: {rows_of_five}")
    for note in dict.fromkeys(note for t in tables for note in t.export.notes):
        say(note, "dim")
    if a.runs_in is not None:
        say(f"the draft runs in: {a.runs_in}", "dim")
    say(f"calibration {calibration(a.calibration)}; acceptance {a.acceptance_source}", "dim")
    warn(a.warnings)


def _cells(r: Range) -> tuple[str, ...]:
    """The cells of a range after its contexts."""
    draft_tokens = str(r.tokens) if r.tokens else "off"
    return (f"{r.low}-{r.high}", draft_tokens, ratio_text(r.speedup), _interval(r))


def _interval(r: Range) -> str:
    """The interval of a range; if drafting is off there, with the draft length to which it belongs."""
    if r.interval is None:
        return NONE
    low, high = r.interval
    interval = f"{low:.2f} to {high:.2f}"
    return interval if r.tokens else f"draft {r.draft}: {interval}"


app = verb(schedule, _print, example=f"{LLAMA} --context 8k --draft ngram --rate 0.4x3")
