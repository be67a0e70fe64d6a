"""``perfmodel validate report``: the Markdown page of a machine's measurements and predictions."""

from typing import Annotated

import click

from perfmodel.answers.declaration import Argument
from perfmodel.cli.commands import flagged
from perfmodel.reading import read_text
from perfmodel.validate.accuracy import report as page
from perfmodel.validate.cli import arguments as arg
from perfmodel.validate.records import RESULTS, machine_folder
from perfmodel.writing import write


@flagged
def report(
    machine: Annotated[str, Argument("Label of the machine: a folder of results/.", "MACHINE", place=True)],
    hardware: arg.ForHardware = None,
    calibration: arg.WithCalibration = None,
    results: arg.ResultsFolder = None,
    check: Annotated[bool, Argument("Fail if the report is out of date.")] = False,
) -> int:
    """Write the report of a machine, with every predicted and measured figure."""
    where = machine_folder(machine, results or RESULTS) / "report.md"
    text = page.text(machine, results or RESULTS, hardware, calibration)
    if check:
        if where.is_file() and read_text(where) == text:
            click.echo(f"{where}: up to date")
            return 0
        click.echo(f"{where}: stale: run perfmodel validate report {machine}")
        return 1
    write(where, text, "--results")
    click.echo(f"wrote {where}")
    return 0
