"""``perfmodel validate engine``: a calibration of a serving engine, from its benchmark files or its running server."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfmodel.errors import InputError, refuse

if TYPE_CHECKING:
    from perfmodel.answers.query import Query
    from perfmodel.validate.engine.record import Subject
    from perfmodel.validate.engine.timing import Said, Timing

FROM = "FILE[,batch=N,input=N,output=N,gamma=N,accepted=X] of a benchmark, its format seen; repeatable."


def engine(
    model: Annotated[str, typer.Option("--model", "-m", help="Target, by name or config.json.")],
    hardware: Annotated[str, typer.Option("--hardware", "--gpu", "--device", help="Device, by name or path.")],
    source: Annotated[list[str] | None, typer.Option("--from", metavar="FILE", help=FROM)] = None,
    url: Annotated[
        str | None, typer.Option(help="A running OpenAI-compatible server to time, http://HOST:PORT.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print the runs worth making; run nothing.")] = False,
    tp: Annotated[int, typer.Option("--tp", "--tensor-parallel", help="Devices of the tensor-parallel group.")] = 1,
    draft: Annotated[str, typer.Option("--draft", "--draft-model", help="Who drafts: as --draft of whatif.")] = "ngram",
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
        model, hardware, 1, 1, tp=tp, draft=draft, draft_tp=draft_tp, draft_kv=draft_kv, weights=weights,
        kv_dtype=kv_dtype, calibration=calibration, alpha=0.5,
    )  # fmt: skip
    places = parse_counts(batches, "--batches"), parse_counts(prompts, "--prompts")
    if plan:
        _print_plan(query, engine or "vllm", draft_path, places, new_tokens, length)
        return 0
    if not source and url is None:
        raise InputError("--from, --url: one of them must be given; --plan prints the runs worth making")
    records = []
    if url is not None:
        path, engine, version = _drive(
            url, query, engine, version, places, new_tokens, length, machine, results, resume
        )
        typer.echo(f"record: {path}")
        records = [str(path)]
    return _calibrate([*records, *(source or [])], query, engine, version, length, machine, results, out, bool(records))


def _calibrate(
    files: list[str], query: "Query", engine: str | None, version: str | None, gamma: int | None, machine: str,
    results: Path | None, out: Path | None, measured: bool,
) -> int:  # fmt: skip
    """Fit what the files hold; after a measurement, too little of it is a next step and no error."""
    from perfmodel.answers.query import resolve
    from perfmodel.errors import one_line
    from perfmodel.validate.engine.calibrate import calibrate, lines, record_text
    from perfmodel.validate.engine.fit import check_enough
    from perfmodel.validate.harness.micro.write import write_yaml

    timings, seen = _read(files, gamma)
    subject = _subject(query, files, engine, version)
    if measured:
        try:
            check_enough(timings)
        except InputError as error:
            typer.echo(f"next: {one_line(str(error))}; add the record above with --from")
            return 0
    base = resolve(query).machine.calibration
    made = calibrate(timings, query, base, subject, seen)
    path = out or _folder(machine, results) / f"{made.calibration.name}.yaml"
    record = path.with_suffix(".json"), record_text(made, machine, subject, seen)
    write_yaml(made.calibration, path, f"Written by perfmodel validate engine from {', '.join(seen)}", record)
    typer.echo("\n".join(lines(made)))
    typer.echo(f"record: {record[0]}\ncalibration: {path}")
    typer.echo(f"ask: perfmodel whatif --model {query.model} --hardware {query.hardware} --calibration {path} ...")
    return 0


def _read(files: list[str], gamma: int | None) -> tuple[list["Timing"], tuple[str, ...]]:
    from perfmodel.validate.engine.formats import read
    from perfmodel.validate.engine.timing import Said

    timings: list[Timing] = []
    for text in files:
        name, said = _said(text)
        timings += read(Path(name), said.over(Said(gamma=gamma)))
    if not timings:
        raise InputError("--from: must hold decode steps, given files without one")
    return timings, tuple(dict.fromkeys(Path(text.split(",")[0]).name for text in files))


def _said(text: str) -> tuple[str, "Said"]:
    """``FILE,key=value,...``: the file's name and what is said of it."""
    from perfmodel.validate.engine.timing import Said

    name, *pairs = text.split(",")
    values: dict[str, float] = {}
    known = tuple(Said.__dataclass_fields__)
    for pair in pairs:
        key, equals, value = pair.partition("=")
        try:
            values[key] = float(value)
        except ValueError:
            equals = ""
        if not equals or key not in known or not 0 <= values[key] < 1e9:
            raise refuse("--from", name, f"followed by {', '.join(k + '=NUMBER' for k in known)} only", pair)
    length = values.pop("gamma", None)
    if length is not None and length != int(length):
        raise refuse("--from", f"{name}: gamma", "a whole number", length)
    return name, Said(**values, gamma=None if length is None else int(length))


def _subject(query: "Query", files: list[str], engine: str | None, version: str | None) -> "Subject":
    """What was served; a record says its engine itself."""
    from perfmodel.reading import read_text
    from perfmodel.validate.engine.record import Subject, is_record, read_engine_record
    from perfmodel.validate.engine.text import parse_objects

    for text in files:
        path = Path(text.split(",")[0])
        if path.suffix == ".json" and is_record(parse_objects(str(path), read_text(path))):
            told = read_engine_record(path).subject
            engine, version = engine or told.engine, version or told.engine_version
    return Subject.of(query, engine or "vllm", version or "unknown")


def _drive(
    url: str, query: "Query", engine: str | None, version: str | None, places: tuple[tuple[int, ...], tuple[int, ...]],
    new_tokens: int, gamma: int | None, machine: str, results: Path | None, resume: bool,
) -> tuple[Path, str, str]:  # fmt: skip
    from perfmodel.specs.model import load_model
    from perfmodel.validate.engine.client import Server
    from perfmodel.validate.engine.driver import check, served_gamma
    from perfmodel.validate.engine.plan import Asked, loads
    from perfmodel.validate.engine.record import Subject
    from perfmodel.validate.engine.session import run

    server = Server.at(url)
    name = server.model()
    told, number = server.engine()
    engine, version = engine or told, version or number or "unknown"
    served = served_gamma(server)
    if served is not None and gamma is not None and served != gamma:
        raise refuse("--gamma", None, f"{served}, the positions that {url} counts", gamma)
    length = served if served is not None else gamma or 0
    points = loads(Asked(query.model, batches=places[0], prompts=places[1], new_tokens=new_tokens))
    subject = Subject.of(query, engine, version)
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
    from perfmodel.validate.engine.plan import Asked, commands

    word = query.draft.partition(":")[0]
    methods = {"eagle": "eagle3" if "features=" in query.draft else "eagle", "ngram": "ngram", "mtp": "mtp"}
    if word not in methods and word in kinds():
        raise refuse("--draft", None, f"a model's name or one of {', '.join(methods)} for --plan", query.draft)
    lengths = (2, 7) if not gamma else (gamma,)
    served = hub_id(query.model) or query.model
    asked = Asked(
        served, engine, int(query.tp), methods.get(word, "draft_model"), draft_path, lengths, *places, new_tokens
    )
    for line in commands(asked):
        typer.echo(line)
    typer.echo("perfmodel validate engine --model ... --hardware ... --from K*.json   # then")
