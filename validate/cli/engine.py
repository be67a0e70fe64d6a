"""``perfmodel validate engine``: a calibration of a serving engine, from its benchmark files or its running
server.
"""

import os
from dataclasses import KW_ONLY, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from perfmodel.answers.declaration import Argument, Question, argument, question
from perfmodel.answers.question import Query, arguments as arg, resolve, resolve_costs
from perfmodel.answers.readers import whole
from perfmodel.cli.commands import takes
from perfmodel.cli.output import say, say_whole
from perfmodel.drafts import kinds
from perfmodel.errors import InputError, one_line, refuse
from perfmodel.specs import DRIFT, ENGINES, hub_id, load_gpu, load_model, served_id, short_name
from perfmodel.validate.cli.arguments import Machine, Out, ResultsFolder, Resume
from perfmodel.validate.engine.fit import check_enough
from perfmodel.validate.records import RESULTS, machine_folder

if TYPE_CHECKING:
    from perfmodel.validate.engine.paste import Pasted
    from perfmodel.validate.engine.timing import GivenFacts


@question
class EngineQuestion(Question):
    """The served configuration, the source of its timings, and the outputs."""

    _: KW_ONLY
    model: arg.Model
    hardware: arg.Hardware
    source: Annotated[
        tuple[str, ...],
        Argument(
            "Benchmark file, log or page of any supported form; - reads standard input. May be repeated.",
            "FILE|-[,batch=N,input=N,output=N,gamma=N,accepted=X]",
            flag="--from",
        ),
    ] = ()
    files: Annotated[tuple[str, ...], Argument("More files of --from.", "FILE", place=True)] = ()
    url: Annotated[
        str | None, Argument("A running OpenAI-compatible server to time.", "http://HOST:PORT")
    ] = None
    plan: Annotated[bool, Argument("Print the benchmark commands without running them.")] = False
    watch: Annotated[
        tuple[str, ...],
        Argument(
            "Check if the served draft length is still the best one. Given twice: by the counts between.",
            "http://HOST:PORT|FILE",
            repeated=True,
        ),
    ] = ()
    acceptance: arg.AcceptanceFile = None
    context: Annotated[
        tuple[int, ...] | None,
        Argument(
            "With --watch: one context, or the ends of the served range.",
            arg.COUNTS,
            default="that of the counters",
        ),
    ] = None
    tp: arg.TP = argument(default=1)
    draft: Annotated[
        str | None,
        Argument(
            "Draft of the runs; needed for files of speculative runs.",
            "self|KIND|NAME|PATH",
            "--draft-model",
            default="none",
            group="Draft",
        ),
    ] = None
    draft_tp: arg.DraftTP = argument(default=None)
    draft_kv: Annotated[
        str, Argument("KV method and budget of the draft.", "METHOD[:BUDGET]", group="Draft")
    ] = "full"
    gamma: Annotated[
        int | None,
        Argument("Draft length, if neither file nor server states it; 0 is the baseline.", "N", "-g", whole),
    ] = None
    weights: arg.Weights = None
    kv_dtype: arg.KVType = None
    engine: Annotated[
        str | None,
        Argument("Name of the engine.", "NAME", default="that of the server, else vllm", group="Engine"),
    ] = None
    version: Annotated[
        str | None,
        Argument(
            "Version of the engine.", "TEXT", default="that of the server, else unknown", group="Engine"
        ),
    ] = None
    calibration: Annotated[
        str | None,
        Argument(
            "Base calibration for all other constants.",
            "NAME|PATH",
            default="the device's own",
            group="Engine",
        ),
    ] = None
    batches: Annotated[tuple[int, ...], Argument("Concurrencies.", arg.COUNTS)] = (1, 4, 16)
    prompts: Annotated[tuple[int, ...], Argument("Prompt tokens.", arg.COUNTS)] = (512, 4096)
    new_tokens: Annotated[int, Argument("Tokens of each answer.", arg.TOKENS, group="Acceptance")] = 256
    draft_path: Annotated[
        str | None,
        Argument(
            "With --plan: path or id of the draft for the engine.",
            "PATH",
            default="the id of --draft or of a published head",
            group="Draft",
        ),
    ] = None
    machine: Machine = "local-1"
    results: ResultsFolder = None
    resume: Resume = False

    def check(self) -> None:
        """See `Question.check`."""
        self.results_folder()
        timed = [
            name for name, value in (("--url", self.url), ("--from", self.source or self.files)) if value
        ]
        if self.watch and (self.plan or timed):
            other = "--plan, which runs nothing" if self.plan else f"{timed[0]}, which calibrates"
            raise InputError(f"--watch: must be left out with {other}")
        if not (self.plan or self.watch or self.source or self.files) and self.url is None:
            raise InputError("--from, --url: one of them must be given; --plan prints the runs worth making")

    def query(self) -> Query:
        """The question whose model, formats and draft the engine serves."""
        names = ("tp", "draft_tp", "draft_kv", "weights", "kv_dtype", "calibration")
        return Query(
            self.model,
            self.hardware,
            batch=1,
            context=1,
            draft=self.draft or "ngram",
            **{name: getattr(self, name) for name in names},
        )

    def results_folder(self) -> Path:
        """The folder for the machine's records. Raises InputError for a label with other characters than
        letters, digits, dots and dashes.
        """
        return machine_folder(self.machine, self.results or RESULTS)


@takes(EngineQuestion)
def engine(question: EngineQuestion, out: Out = None) -> None:
    """Calibrate to a serving engine: from its benchmark files (--from), its running server (--url), or both.

    It needs two draft lengths (the baseline counts as one) and two batches or contexts. It fits the constants
    that the rows determine, keeps the others of the base calibration and lists them. A fit without the row
    predicts each row, and these errors set the interval of every answer.
    """
    from perfmodel.validate.harness.micro.write import destination_of

    if out is not None:
        destination_of(out)
    query = question.query()
    if question.plan:
        return _print_plan(question, query)
    if question.watch:
        return _watch_pages(question, query)
    files = (*question.source, *question.files)
    if question.url is None and (paste := _paste_of(files)) is not None:
        return _paste(question, query, *paste, out)
    engine = question.engine
    version = question.version
    driven: tuple[str, ...] = ()
    if question.url is not None:
        path, engine, version = _drive(question, question.url, query)
        click.echo(f"record: {path}")
        driven = (str(path),)
    _calibrate(question, query, (*driven, *files), engine, version, out)


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
    made = calibrate_engine(files, query, draft=q.draft, engine=engine, version=version, gamma=q.gamma)
    path = out or q.results_folder() / f"{made.calibration.name}.yaml"
    record = write_calibration(made, q.machine, path)
    click.echo("\n".join(lines(made)))
    click.echo(f"record: {record}\ncalibration: {path}")
    question = (
        f"--model {query.model} --hardware {query.hardware} --draft {made.subject.draft} --calibration {path}"
    )
    click.echo(f"ask: perfmodel whatif {question} ...")


def _drive(q: EngineQuestion, url: str, query: Query) -> tuple[Path, str, str]:
    """Times a running server. Returns the record's path, the engine and its version."""
    from perfmodel.validate.engine.bench_commands import loads
    from perfmodel.validate.engine.client import Server
    from perfmodel.validate.engine.driver import check, served_gamma
    from perfmodel.validate.engine.record import EngineSubject
    from perfmodel.validate.engine.session import PartialRun, run

    server = Server.at(url)
    name = server.model()
    engine_name, number = server.engine()
    engine = q.engine or engine_name
    version = q.version or number or "unknown"
    served = served_gamma(server)
    if served is not None and q.gamma is not None and served != q.gamma:
        raise refuse("--gamma", None, f"{served}, the positions that {server.shown} counts", q.gamma)
    length = served or q.gamma or 0
    points = loads(q.batches, q.prompts, q.new_tokens)
    subject = EngineSubject.of(query, engine, version)
    vocabulary = load_model(query.model).vocab_size
    check(server, name, vocabulary)
    if served is None and q.gamma is None:
        click.echo("WARNING: no counters of drafts and no --gamma: recorded as K = 0, the baseline", err=True)
    if (load := os.getloadavg()[0]) > (cores := os.cpu_count() or 1):
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
    return path, engine, version


def _paste_of(files: tuple[str, ...]) -> "tuple[Pasted, GivenFacts] | None":
    """The text to describe instead of a fit: standard input, or a single file of printed text or counters."""
    from perfmodel.validate.engine.paste import STANDARD_INPUT, read_place, recognised
    from perfmodel.validate.engine.sources import BenchFile, sources_of
    from perfmodel.validate.engine.watch import page_of

    if any(text.split(",")[0] == STANDARD_INPUT for text in files):
        if len(files) > 1:
            raise refuse("--from", None, "- alone, or files", " ".join(files))
        place = BenchFile.parse(files[0])[0]
        return recognised(*page_of(*read_place(STANDARD_INPUT))), place.given
    places = sources_of(files)
    if len(places) != 1 or places[0].path.suffix in (".json", ".jsonl", ".yaml", ".yml"):
        return None
    pasted = recognised(*read_place(str(places[0].path)))
    return pasted, places[0].given


def _paste(q: EngineQuestion, query: Query, pasted: "Pasted", given: "GivenFacts", out: Path | None) -> None:
    """Prints what a text is, what was taken from it, how it compares, and what a calibration needs."""
    from perfmodel.validate.engine.paste import STANDARD_INPUT, compared, compared_prompts, steps_of
    from perfmodel.validate.engine.pastes import form_of
    from perfmodel.validate.engine.timing import GivenFacts
    from perfmodel.validate.engine.watch import expected_gain

    say(f"read: {pasted.title}")
    if pasted.counters:
        return _watch(q, query, pasted.where, pasted.text)
    query = _of_engine(q, query, pasted.engine)
    given = given.over(GivenFacts(gamma=q.gamma))
    scenario = resolve_costs(query)
    timings, note = steps_of(
        pasted, given, lambda timing: expected_gain(query, scenario, q.acceptance, timing)
    )
    form = form_of(pasted.text)
    prompts = [] if form is None else [*form.prompts(pasted.where, pasted.text)]
    if note:
        say(note)
    for timing in timings:
        say(compared(query, timing))
    for line in compared_prompts(query, prompts, drafts=any(timing.gamma for timing in timings)):
        say(line)
    if not timings and not prompts:
        raise InputError(f"{pasted.where}: holds no decode step and no prompt")
    try:
        check_enough(timings)
    except InputError as error:
        why = one_line(str(error)).removeprefix(f"--from: {pasted.where}: ")
        say(f"missing for a calibration: {why}")
    else:
        if pasted.where == STANDARD_INPUT:
            return say("enough for a calibration: save the text, and give its name to --from")
        _calibrate(q, query, (*q.source, *q.files), q.engine, q.version, out)


def _of_engine(q: EngineQuestion, query: Query, printed_by: str = "") -> Query:
    """The question about the engine that is named, or that prints a text."""
    name = q.engine or printed_by
    if name not in ENGINES or q.calibration is not None:
        return query
    return replace(query, engine=f"{name}{DRIFT}{q.version}" if q.version else name)


def _watch_pages(q: EngineQuestion, query: Query) -> None:
    """`_watch` for a page, or for the counts between two."""
    from perfmodel.validate.engine.acceptance.prometheus import since
    from perfmodel.validate.engine.watch import read_page

    if len(q.watch) > 2:
        raise refuse("--watch", None, "given once, or twice: an earlier page and a later one", len(q.watch))
    (where, text), *earlier = [read_page(place) for place in reversed(q.watch)]
    if earlier:
        text = since(earlier[0][1], text)
    _watch(q, query, where, text)


def _watch(q: EngineQuestion, query: Query, where: str, text: str) -> None:
    """Prints whether the served draft length is still good, and exits with 1 if it is not."""
    from perfmodel.validate.engine.acceptance import AcceptanceSubject, draft_length, import_text
    from perfmodel.validate.engine.client import without_words
    from perfmodel.validate.engine.watch import (
        Served,
        check_health,
        command,
        drift,
        expected,
        running,
    )

    query = _of_engine(q, query)
    scenario = resolve_costs(query)
    longest = scenario.target.max_position_embeddings
    if q.context and max(q.context) > longest:
        raise refuse(
            "--context", None, f"at most {longest}, the longest of {scenario.target.name}", q.context[-1]
        )
    gamma = q.gamma or draft_length(text)
    subject = AcceptanceSubject(
        query.model, query.draft or "self", q.draft_kv, q.context or (), gamma or 1, gamma is not None
    )
    try:
        rows = import_text(where, text, None, subject).rows
        busy = running(where, text)
    except InputError as error:
        raise without_words(error) from None
    served = [Served.of(row, gamma, busy) for row in rows]
    known = [expected(query, scenario, each.context, q.acceptance) for each in served]
    found = [drift(query, each, usual) for each, usual in zip(served, known, strict=True)]
    for line in (line for each in found for line in each.lines):
        say(line)
    state = check_health(query, served[-1], known[-1], where, text)
    for line in state.lines if state else ():
        say(line)
    if state is not None and not state.healthy:
        say("mend this before the draft length: the figures above hold for a server as fast as predicted")
        raise click.exceptions.Exit(1)
    if all(each.holds for each in found):
        return say(f"keep K = {served[0].gamma}")
    flags = {
        "--tp": query.tp if query.tp > 1 else None,
        "--weights": q.weights,
        "--kv-dtype": q.kv_dtype,
        "--draft-tp": q.draft_tp,
        "--engine": query.engine,
        "--calibration": query.calibration,
    }
    extra = [word for flag, value in flags.items() if value is not None for word in (flag, str(value))]
    say_whole(f"run instead: {command(query, served[-1], extra)}")
    raise click.exceptions.Exit(1)


def _print_plan(q: EngineQuestion, query: Query) -> None:
    from perfmodel.validate.engine.bench_commands import GAMMAS, BenchRequest, commands

    resolve(replace(query, alpha=0.5))  # refuses a word that means nothing; any acceptance will do
    draft = q.draft or "ngram"
    word = draft.partition(":")[0]
    eagle = "eagle3" if "features=" in draft else "eagle"
    methods = {"eagle": eagle} | {name: name for name in ("eagle3", "dflash", "dspark", "ngram", "mtp")}
    if word not in methods and word in kinds():
        raise refuse("--draft", None, f"a model's name or one of {', '.join(methods)} for --plan", draft)
    question = ["--model", query.model, "--hardware", query.hardware, "--draft", draft]
    if query.tp != EngineQuestion.tp:
        question += ["--tp", str(query.tp)]
    optional = {"--weights": q.weights, "--kv-dtype": q.kv_dtype, "--results": q.results}
    for flag, value in optional.items():
        if value is not None:
            question += [flag, str(value)]
    head = q.draft_path or _found(query.model, draft, methods.get(word))
    device = load_gpu(query.hardware)
    request = BenchRequest(
        model=served_id(query.model) or query.model,
        engine=q.engine or "vllm",
        tp=query.tp,
        method=methods.get(word, "draft_model"),
        draft=head,
        gammas=(q.gamma,) if q.gamma else GAMMAS,
        batches=q.batches,
        prompts=q.prompts,
        new_tokens=q.new_tokens,
        question=tuple(question),
        records=os.path.relpath(q.results_folder()),
        pretends=device.kind != "cpu",
    )
    for line in commands(request):
        click.echo(line)


def _found(model: str, draft: str, method: str | None) -> str | None:
    """The engine's path of a draft: the id of a model, or of the published head for the target."""
    from perfmodel.specs.acceptance.acceptance_library import find_published
    from perfmodel.validate.engine.servers import OWN

    if method is None:
        return hub_id(draft, "--draft") or draft
    head = find_published(short_name(model), method)
    if method not in OWN and not (head and head.head):
        raise InputError(f"--draft-path: must say where the engine finds the {method} head")
    return head.head if head else None
