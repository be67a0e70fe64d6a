"""``perfmodel validate accuracy | history``: the gate, and how accuracy moved."""

import datetime
from pathlib import Path
from typing import Annotated

import typer

from perfmodel.errors import InputError

CHECK_FAILED = 1
MOVED_SHOWN = 5


def accuracy(
    write: Annotated[
        bool, typer.Option("--write", help="Renew the record, its page, golden grid and history.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The record as it is now.")] = False,
) -> None:
    """Replay every published set and own record and compare with results/accuracy.json; exit status 1 on FAIL."""
    from perfmodel.validate.accuracy import gate, golden, page
    from perfmodel.validate.accuracy import history as trend
    from perfmodel.validate.accuracy import record as module

    found = module.record()
    if write:
        module.path().write_text(module.render(found), encoding="utf-8")
        golden.path().write_text(golden.render(golden.grid()), encoding="utf-8")
        today = datetime.datetime.now(datetime.UTC).date()
        trend.append(trend.path(), trend.lines_of(found, trend.commit(), str(today)))
        if page.path().is_file():
            text = page.path().read_text(encoding="utf-8")
            page.path().write_text(page.filled(text, gate.read(module.path())), encoding="utf-8")
    if as_json:
        typer.echo(module.render(found), nl=False)
    faults = gate.faults(gate.read(module.path()), found)
    moved = golden.drift(golden.read(golden.path()), golden.grid())
    if moved:
        faults += [f"golden: {len(moved)} predictions moved; `perfmodel validate accuracy --write` renews them"]
        faults += [f"  {line}" for line in moved[:MOVED_SHOWN]]
    for line in faults:
        typer.echo(line, err=True)
    if not as_json:
        overall = found["replays"]["held-out"]["overall"]
        mean = f"{100 * overall['mape']:.2f} % over {overall['rows']} held-out figures"
        typer.echo(f"accuracy: {'FAIL' if faults else 'PASS'}; mean error {mean}")
    if faults:
        raise typer.Exit(CHECK_FAILED)


def history(
    plot: Annotated[Path | None, typer.Option(help="Draw the trend here (.png or .svg).")] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Append the summary to this file instead of printing it.")
    ] = None,
) -> None:
    """How accuracy moved from record to record: a Markdown summary, and a picture."""
    from perfmodel.validate.accuracy import history as module

    lines = module.read(module.path())
    if not lines:
        raise InputError(f"{module.path()}: must exist; write it with `perfmodel validate accuracy --write`")
    if plot:
        from perfmodel import plots

        plots.save(module.plot(lines), plot)
    if markdown:
        with markdown.open("a", encoding="utf-8") as stream:
            stream.write(module.summary(lines))
    else:
        typer.echo(module.summary(lines), nl=False)
