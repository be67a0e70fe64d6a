"""``perfmodel validate engine``: a calibration of a serving engine, from its benchmark files or its running
server.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from perfmodel.answers.question import Query, resolve_costs
from perfmodel.cli.commands import takes
from perfmodel.cli.output import say
from perfmodel.errors import InputError, one_line, refuse
from perfmodel.specs import load_model
from perfmodel.validate.cli.arguments import Out
from perfmodel.validate.cli.engine_question import EngineQuestion
from perfmodel.validate.engine.fit import check_enough

if TYPE_CHECKING:
    from perfmodel.validate.engine.paste import PastedText
    from perfmodel.validate.engine.timing import GivenFacts, Timing


@takes(EngineQuestion)
def engine(question: EngineQuestion, out: Out = None) -> None:
    """Calibrate to a serving engine from its benchmark files (--from), its running server (--url), or both.

    The fit needs two draft lengths (the baseline counts as one) and two batches or contexts. The fit finds
    the constants that the rows determine. The other constants keep the values of the base calibration; the
    output lists these constants. Each row is also predicted by a fit that leaves this row out; the errors of
    these predictions determine the intervals of all answers.
    """
    from perfmodel.validate.harness.micro.write import destination_of

    if out is not None:
        destination_of(out)
    if question.plan:
        from perfmodel.validate.cli.engine_plan import print_plan

        return print_plan(question)
    if question.watch:
        from perfmodel.validate.cli.engine_watch import watch_pages

        return watch_pages(question)
    files = (*question.source, *question.files)
    if question.url is not None:
        path, engine, version = _drive(question, question.url)
        click.echo(f"record: {path}")
        return _calibrate(question, question.query(), (str(path), *files), engine, version, out)
    pasted = _pasted(files, question.hardware)
    if pasted is not None:
        return _describe(question, *pasted, out)
    _calibrate(question, question.query(), files, question.engine, question.version, out)


def _calibrate(
    q: EngineQuestion,
    query: Query,
    files: tuple[str, ...],
    engine: str | None,
    version: str | None,
    out: Path | None,
) -> None:
    """Fits the timings of the files; after a measurement, too few timings are reported as a next step instead
    of an error.
    """
    from perfmodel.validate.engine.calibrate import lines
    from perfmodel.validate.engine.sources import (
        calibrate_engine,
        read_sources,
        sources_of,
        write_calibration,
    )

    if q.url is not None:
        try:
            check_enough(read_sources(sources_of(files), q.gamma))
        except InputError as error:
            return click.echo(f"next: {one_line(str(error))}; add the record above with --from")
    calibrated = calibrate_engine(files, query, draft=q.draft, engine=engine, version=version, gamma=q.gamma)
    path = out or q.results_folder() / f"{calibrated.calibration.name}.yaml"
    record = write_calibration(calibrated, q.machine, path)
    click.echo("\n".join(lines(calibrated)))
    click.echo(f"record: {record}\ncalibration: {path}")
    served = f"--model {query.model} --hardware {query.hardware} --draft {calibrated.subject.draft}"
    click.echo(f"ask: perfmodel whatif {served} --calibration {path} ...")


class DrivenServer(NamedTuple):
    """The record of a timed server, and the name and version of its engine."""

    record: Path
    engine: str
    version: str


def _drive(q: EngineQuestion, url: str) -> DrivenServer:
    """Times a running server. Exits with 1 if some points failed."""
    from perfmodel.validate.engine.bench_commands import loads
    from perfmodel.validate.engine.client import LiveServer
    from perfmodel.validate.engine.driver import check, served_gamma
    from perfmodel.validate.engine.record import EngineSubject
    from perfmodel.validate.engine.session import PartialRun, run

    server = LiveServer.at(url)
    name = server.model()
    stated = server.engine()
    engine = q.engine or stated.name
    version = q.version or stated.version or "unknown"
    served = served_gamma(server)
    if served is not None and q.gamma is not None and served != q.gamma:
        raise refuse("--gamma", None, f"{served}, the positions that {server.shown} counts", q.gamma)
    length = served or q.gamma or 0
    points = loads(q.batches, q.prompts, q.new_tokens)
    query = q.query()
    subject = EngineSubject.of(query, engine, version)
    vocabulary = load_model(query.model).vocab_size
    check(server, name, vocabulary)
    if served is None and q.gamma is None:
        click.echo("WARNING: no counters of drafts and no --gamma: recorded as K = 0, the baseline", err=True)
    load, _, _ = os.getloadavg()
    cores = os.cpu_count() or 1
    if load > cores:
        click.echo(f"WARNING: load {load:.1f} on {cores} CPUs: measure again on a quiet machine", err=True)
    try:
        path = run(server, name, subject, vocabulary, points, length, q.results_folder(), q.resume)
    except PartialRun as failed:
        click.echo(f"record (partial): {failed.path}")
        click.echo(f"error: {failed}; --resume measures them again", err=True)
        raise click.exceptions.Exit(1) from None
    except KeyboardInterrupt:
        click.echo("\ninterrupted: every finished point is kept; go on with --resume", err=True)
        raise
    return DrivenServer(path, engine, version)


def _pasted(files: tuple[str, ...], hardware: str) -> "tuple[PastedText, GivenFacts] | None":
    """The text to compare with predictions: standard input, or a single file of printed text or counters.
    None for other files, to which a calibration is fitted.
    """
    from perfmodel.validate.engine.paste import STANDARD_INPUT, read_place, recognised
    from perfmodel.validate.engine.sources import BenchFile, sources_of
    from perfmodel.validate.engine.watch import page_of

    if any(text.split(",")[0] == STANDARD_INPUT for text in files):
        if len(files) > 1:
            raise refuse("--from", None, "- alone, or files", " ".join(files))
        place = BenchFile.parse(files[0])[0]
        return recognised(*page_of(read_place(STANDARD_INPUT)), hardware), place.facts
    places = sources_of(files)
    if len(places) != 1 or places[0].path.suffix in (".json", ".jsonl", ".yaml", ".yml"):
        return None
    pasted = recognised(*read_place(str(places[0].path)), hardware)
    return pasted, places[0].facts


def _describe(q: EngineQuestion, pasted: "PastedText", facts: "GivenFacts", out: Path | None) -> None:
    """Prints the format of a text and compares its content with the predictions. If the text is enough for a
    calibration, it is also fitted.
    """
    from perfmodel.validate.engine.cache_size import TITLE
    from perfmodel.validate.engine.paste import STANDARD_INPUT

    say(f"read: {pasted.title}")
    if pasted.counters:
        from perfmodel.validate.cli.engine_watch import watch

        return watch(q, pasted.where, pasted.text)
    if pasted.title == TITLE:
        from perfmodel.validate.cli.engine_watch import compare_cache

        return compare_cache(q, pasted.text)
    query = q.query_of_engine(pasted.engine)
    timings = _compare_steps(q, query, pasted, facts)
    try:
        check_enough(timings)
    except InputError as error:
        why = one_line(str(error)).removeprefix(f"--from: {pasted.where}: ")
        return say(f"missing for a calibration: {why}")
    if pasted.where == STANDARD_INPUT:
        return say("enough for a calibration: save the text, and give its name to --from")
    _calibrate(q, query, (*q.source, *q.files), q.engine, q.version, out)


def _compare_steps(
    q: EngineQuestion, query: Query, pasted: "PastedText", facts: "GivenFacts"
) -> "list[Timing]":
    """Prints the steps and prompts of a text next to their predictions, and returns the steps. Raises
    InputError if there are neither.
    """
    from perfmodel.validate.engine.compared import (
        compared,
        compared_prompts,
        gained_by_drafts,
        reasons,
        uncounted_draft,
        waits,
    )
    from perfmodel.validate.engine.paste import steps_of
    from perfmodel.validate.engine.pastes import form_of
    from perfmodel.validate.engine.signs import refused_draft
    from perfmodel.validate.engine.timing import GivenFacts
    from perfmodel.validate.engine.watch import expected_gain, usual_gain

    scenario = resolve_costs(query)
    facts = facts.over(GivenFacts(input=q.mean_context, gamma=q.gamma))
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
    for step in steps:
        for line in step.in_words():
            say(line)
    for line in (*gained_by_drafts(steps), *waits(query, timings)):
        say(line)
    if why := reasons(steps, pasted.text):
        say(why)
    for line in compared_prompts(query, prompts, drafts=any(timing.gamma for timing in timings)):
        say(line)
    if not timings and not prompts:
        raise InputError(f"{pasted.where}: holds no decode step and no prompt")
    return timings
