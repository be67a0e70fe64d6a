"""``perfmodel validate engine --from``: compares the text of a server or a benchmark with predictions."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from perfmodel.answers.question import Query, resolve_costs
from perfmodel.cli.output import say
from perfmodel.errors import InputError, one_line, refuse
from perfmodel.validate.cli.engine_calibration import calibrate
from perfmodel.validate.cli.engine_question import EngineQuestion
from perfmodel.validate.cli.engine_watch import compare_cache, further_flags, watch
from perfmodel.validate.engine.compared import (
    ComparedStep,
    compared,
    compared_prompts,
    gained_by_drafts,
    reasons,
    uncounted_draft,
    waits,
)
from perfmodel.validate.engine.expected_acceptance import expected_gain, usual_gain
from perfmodel.validate.engine.fit import check_enough, usable
from perfmodel.validate.engine.metrics_page import page_of
from perfmodel.validate.engine.paste import (
    STANDARD_INPUT,
    PastedText,
    check_stated,
    read_place,
    recognised,
    steps_of,
)
from perfmodel.validate.engine.pastes import form_of
from perfmodel.validate.engine.signs import refused_draft
from perfmodel.validate.engine.sources import BenchFile, sources_of
from perfmodel.validate.engine.timing import GivenFacts, Timing


def pasted_of(q: EngineQuestion, files: tuple[str, ...]) -> tuple[PastedText, GivenFacts] | None:
    """The text to compare with predictions: standard input, or a single file of printed text or counters.
    None for other files, to which a calibration is fitted.
    """
    if any(text.split(",")[0] == STANDARD_INPUT for text in files):
        if len(files) > 1:
            raise refuse("--from", None, "- alone, or files", " ".join(files))
        place = BenchFile.parse(files[0])[0]
        page = page_of(read_place(STANDARD_INPUT))
        return recognised(*page, q.hardware, _given(q, place.facts)), place.facts
    places = sources_of(files)
    if len(places) != 1 or places[0].path.suffix in (".json", ".jsonl", ".yaml", ".yml"):
        return None
    (place,) = places
    pasted = recognised(*read_place(str(place.path)), q.hardware, _given(q, place.facts))
    return pasted, place.facts


def _given(q: EngineQuestion, facts: GivenFacts) -> dict[str, str]:
    """The user's flags for the question about a pasted command."""
    words = further_flags(q.query_of_engine())
    flags = dict(zip(words[::2], words[1::2], strict=True))
    if (context := facts.input or q.mean_context) is not None:
        flags["--context"] = f"{context:.0f}"
    if facts.batch is not None:
        flags["--batch"] = f"{facts.batch:.0f}"
    return flags


def describe(q: EngineQuestion, pasted: PastedText, facts: GivenFacts, out: Path | None) -> None:
    """Prints the format of a text and compares its content with the predictions. If the text is enough for a
    calibration, it is also fitted.
    """
    say(f"read: {pasted.title}")
    if pasted.content == "counters":
        return watch(q, pasted.where, pasted.text)
    if pasted.content == "cache size":
        return compare_cache(q, pasted.text)
    query = q.query_of_engine(pasted.engine)
    facts = facts.over(GivenFacts(input=q.mean_context, gamma=q.gamma))
    timings = _compare_steps(q, query, pasted, facts)
    if not timings:
        return say("missing for a calibration: outputs with their times")
    try:
        check_enough(*usable(timings))
        check_stated(pasted, facts)
    except InputError as error:
        why = one_line(str(error)).removeprefix(f"--from: {pasted.where}: ")
        return say(f"missing for a calibration: {why}")
    if pasted.where == STANDARD_INPUT:
        return say("enough for a calibration: save the text, and give its name to --from")
    engine = q.engine or pasted.engine or None
    calibrate(
        q, q.query(), tuple(facts.after(file) for file in (*q.source, *q.files)), engine, q.version, out
    )


def _compare_steps(q: EngineQuestion, query: Query, pasted: PastedText, facts: GivenFacts) -> list[Timing]:
    """Prints the steps and prompts of a text next to their predictions, and returns the steps. Raises
    InputError if there are neither.

    The order is that in which a reader needs them: assumptions, steps, prompts.
    """
    scenario = resolve_costs(query)
    read = steps_of(pasted, facts, lambda timing: expected_gain(query, scenario, q.acceptance, timing))
    timings = read.timings
    form = form_of(pasted.text)
    prompts = [] if form is None else [*form.prompts(pasted.where, pasted.text)]
    about = "" if form is None else form.note(pasted.text, facts)
    for words in (read.note, about, refused_draft(pasted.text) or uncounted_draft(q.draft, timings)):
        if words:
            say(words)
    steps = []
    for timing in timings:
        usual = usual_gain(query, scenario, q.acceptance, timing)
        steps.append(compared(query, timing, usual))
    for line in _lines_of_steps(steps):
        say(line)
    if not read.assumes_context:
        for line in waits(query, timings):
            say(line)
    if why := reasons(steps, pasted.text):
        say(why)
    for line in compared_prompts(query, prompts, drafts=any(timing.gamma for timing in timings)):
        say(line)
    if not timings and not prompts:
        raise InputError(f"{pasted.where}: holds no decode step and no prompt")
    return timings


def _lines_of_steps(steps: Sequence[ComparedStep]) -> Iterator[str]:
    """The comparison of steps in words: each step by itself, then the gain of drafts."""
    for step in steps:
        yield from step.in_words()
    yield from gained_by_drafts(steps)
