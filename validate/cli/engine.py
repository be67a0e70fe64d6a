"""``perfmodel validate engine``: a calibration of a serving engine, from its benchmark files or its running server."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfmodel.errors import InputError, refuse

if TYPE_CHECKING:
    from perfmodel.answers.query import Query

FROM = "FILE[,batch=N,input=N,output=N,gamma=N,accepted=X] of a benchmark, its format seen; repeatable."


def engine(
    model: Annotated[str, typer.Option("--model", "-m", help="Target, by name or config.json.")],
    hardware: Annotated[str, typer.Option("--hardware", "--gpu", "--device", help="Device, by name or path.")],
    files: Annotated[list[str] | None, typer.Argument(metavar="[FILE]...", help="More files of --from.")] = None,
    source: Annotated[list[str] | None, typer.Option("--from", metavar="FILE", help=FROM)] = None,
    url: Annotated[
        str | None, typer.Option(help="A running OpenAI-compatible server to time, http://HOST:PORT.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print the runs worth making; run nothing.")] = False,
    tp: Annotated[int, typer.Option("--tp", "--tensor-parallel", help="Devices of the tensor-parallel group.")] = 1,
    draft: Annotated[
        str | None,
        typer.Option("--draft", "--draft-model", help="Who drafts, as --draft of whatif; needed beside drafts."),
    ] = None,
    draft_tp: Annotated[int | None, typer.Option(help="Devices of the draft [as --tp].")] = None,
    draft_kv: Annotated[str, typer.Option(help="METHOD[:BUDGET] of the draft's cache.")] = "full",
    gamma: Annotated[
        str | None,
        typer.Option("--gamma", "-g", help="Draft length where neither file nor server says; 0 is the baseline."),
    ] = None,
    weights: Annotated[str | None, typer.Option("--weights", "--dtype", help="Weights [the checkpoint's].")] = None,
    kv_dtype: Annotated[
        str | None, typer.Option("--kv-dtype", "--kv-cache-dtype", help="KV-cache format [the checkpoint's].")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="Engine's name [as the server says, else vllm].")] = None,
    version: Annotated[str | None, typer.Option(help="Engine's version [as the server says, else unknown].")] = None,
    calibration: Annotated[str | None, typer.Option(help="Where all else comes from [the device's own].")] = None,
    batches: Annotated[str, typer.Option(help="Of --url and --plan: concurrencies.")] = "1,4,16",
    prompts: Annotated[str, typer.Option(help="Of --url and --plan: prompt tokens.")] = "512,4k",
    new_tokens: Annotated[int, typer.Option(help="Of --url and --plan: tokens of each answer.")] = 256,
    draft_path: Annotated[str, typer.Option(help="Of --plan: where the engine finds the draft.")] = "DRAFT",
    machine: Annotated[str, typer.Option(help="Label of the machine: the folder of the records.")] = "local-1",
    results: Annotated[Path | None, typer.Option(help="Folder of all results [results/ of the source tree].")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "--output", help="The calibration's file [the machine's folder].")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Of --url: go on with the latest interrupted run.")] = False,
) -> int:
    """Calibrate to a serving engine: from its benchmark files (--from), its running server (--url), or both.

    Two draft lengths (the baseline counts) and two batches or contexts are needed. What the rows determine is fitted,
    the rest is left as in the base calibration and named; every row is predicted by a fit without it, and that error
    becomes the interval of every answer.
    """
    from perfmodel.answers.query import Query
    from perfmodel.parse import parse_count, parse_counts
    from perfmodel.validate.harness.micro.write import destination_of

    _check_label(machine)
    if out is not None:
        destination_of(out)
    length = None if gamma is None else parse_count(gamma, "--gamma", least=0)
    query = Query(
        model, hardware, 1, 1, tp=tp, draft=draft or "ngram", draft_tp=draft_tp, draft_kv=draft_kv, weights=weights,
        kv_dtype=kv_dtype, calibration=calibration, alpha=0.5,
    )  # fmt: skip
    places = parse_counts(batches, "--batches"), parse_counts(prompts, "--prompts")
    if plan:
        _print_plan(query, engine or "vllm", draft_path, places, new_tokens, length)
        return 0
    sources = [*(source or []), *(files or [])]
    if not sources and url is None:
        raise InputError("--from, --url: one of them must be given; --plan prints the runs worth making")
    records = []
    if url is not None:
        path, engine, version = _drive(
            url, query, engine, version, places, new_tokens, length, machine, results, resume
        )
        typer.echo(f"record: {path}")
        records = [str(path)]
    files = [*records, *sources]
    return _calibrate(files, query, draft, engine, version, length, machine, results, out, bool(records))


def _calibrate(
    files: list[str], query: "Query", draft: str | None, engine: str | None, version: str | None, gamma: int | None,
    machine: str, results: Path | None, out: Path | None, measured: bool,
) -> int:  # fmt: skip
    """Fit what the files hold; after a measurement, too little of it is a next step and no error."""
    from perfmodel.errors import one_line
    from perfmodel.validate.engine.calibrate import lines
    from perfmodel.validate.engine.fit import check_enough
    from perfmodel.validate.engine.sources import calibrate_engine, read_sources, sources_of, write_calibration

    if measured:
        try:
            check_enough(read_sources(sources_of(files), gamma))
        except InputError as error:
            typer.echo(f"next: {one_line(str(error))}; add the record above with --from")
            return 0
    made = calibrate_engine(files, query, draft=draft, engine=engine, version=version, gamma=gamma)
    path = out or _folder(machine, results) / f"{made.calibration.name}.yaml"
    record = write_calibration(made, made.subject, machine, path)
    typer.echo("\n".join(lines(made)))
    typer.echo(f"record: {record}\ncalibration: {path}")
    drafted = (
        f"--draft {made.subject.draft} " if made.calibration.measured and made.calibration.measured.gamma[1] else ""
    )
    question = f"--model {query.model} --hardware {query.hardware} {drafted}--calibration {path}"
    typer.echo(f"ask: perfmodel whatif {question} ...")
    return 0


def _drive(
    url: str, query: "Query", engine: str | None, version: str | None, places: tuple[tuple[int, ...], tuple[int, ...]],
    new_tokens: int, gamma: int | None, machine: str, results: Path | None, resume: bool,
) -> tuple[Path, str, str]:  # fmt: skip
    from perfmodel.specs.model import load_model
    from perfmodel.validate.engine.client import Server
    from perfmodel.validate.engine.driver import check, served_gamma
    from perfmodel.validate.engine.plan import PlanRequest, loads
    from perfmodel.validate.engine.record import EngineSubject
    from perfmodel.validate.engine.session import run

    server = Server.at(url)
    name = server.model()
    told, number = server.engine()
    engine, version = engine or told, version or number or "unknown"
    served = served_gamma(server)
    if served is not None and gamma is not None and served != gamma:
        raise refuse("--gamma", None, f"{served}, the positions that {url} counts", gamma)
    length = served if served is not None else gamma or 0
    points = loads(PlanRequest(query.model, batches=places[0], prompts=places[1], new_tokens=new_tokens))
    subject = EngineSubject.of(query, engine, version)
    vocabulary = load_model(query.model).vocab_size
    check(server, name, vocabulary)
    try:
        path = run(server, name, subject, vocabulary, points, length, _folder(machine, results), resume)
    except KeyboardInterrupt:
        typer.echo("\ninterrupted: every finished point is kept; go on with --resume", err=True)
        raise
    return path, engine, version


def _folder(machine: str, results: Path | None) -> Path:
    """The machine's folder of results, made where it is missing."""
    from perfmodel.specs import PACKAGE

    folder = (results or (PACKAGE / "results").resolve()) / machine
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--results: {folder}: {error.strerror or error}") from None
    return folder


def _check_label(machine: str) -> None:
    import re

    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,40}", machine) or machine == "published":
        raise refuse("--machine", None, "a label of a-z, 0-9 and -, such as h200-1 (never a host name)", machine)


def _print_plan(
    query: "Query", engine: str, draft_path: str, places: tuple[tuple[int, ...], tuple[int, ...]], new_tokens: int,
    gamma: int | None,
) -> None:  # fmt: skip
    from perfmodel.drafts import kinds
    from perfmodel.specs.model import hub_id
    from perfmodel.validate.engine.plan import PlanRequest, commands

    word = query.draft.partition(":")[0]
    methods = {"eagle": "eagle3" if "features=" in query.draft else "eagle", "ngram": "ngram", "mtp": "mtp"}
    if word not in methods and word in kinds():
        raise refuse("--draft", None, f"a model's name or one of {', '.join(methods)} for --plan", query.draft)
    lengths = (2, 7) if not gamma else (gamma,)
    served = hub_id(query.model) or query.model
    asked = PlanRequest(
        served, engine, int(query.tp), methods.get(word, "draft_model"), draft_path, lengths, *places, new_tokens
    )
    for line in commands(asked):
        typer.echo(line)
    typer.echo("perfmodel validate engine --model ... --hardware ... --from K*.json   # then")
