"""``perfmodel validate check``: a check of your own records, for the CI of any repository."""

from pathlib import Path
from typing import Annotated

import click

from perfmodel.answers.declaration import TINY, Argument
from perfmodel.cli.commands import Json, flagged
from perfmodel.cli.output import print_json
from perfmodel.validate.accuracy import check as rules
from perfmodel.validate.cli import checked_words
from perfmodel.validate.cli.arguments import SHOWN_FOLDER
from perfmodel.validate.records import RESULTS

SHARES = (TINY, 10.0)


@flagged
def check(
    results: Annotated[
        Path | None,
        Argument("Folder with records, at any depth.", "FOLDER", default=SHOWN_FOLDER, group="Run"),
    ] = None,
    max_error: Annotated[
        float | None,
        Argument(
            "Largest allowed mean error of each predicted quantity, such as 10%.",
            "SHARE",
            limits=SHARES,
            default="10% without --baseline",
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        Argument(
            "File with an earlier state: fail if errors have grown, or if predictions or measurements have "
            "changed since.",
            "FILE",
        ),
    ] = None,
    max_drift: Annotated[
        float | None,
        Argument(
            "For each quantity: largest mean change of its measurements since --baseline that still passes.",
            "SHARE",
            limits=SHARES,
            default="3%",
        ),
    ] = None,
    write: Annotated[
        bool, Argument("Write the current state to the --baseline file.", group="Output")
    ] = False,
    calibration: Annotated[
        str | None,
        Argument("Calibration for all records.", "NAME|PATH", default="each record's own", group="Engine"),
    ] = None,
    figure: Annotated[
        tuple[str, ...],
        Argument(
            "Check only this quantity, such as speedup or sd_tpot_s; may be repeated.", "NAME", default="all"
        ),
    ] = (),
    json: Json = False,
) -> None:
    """Compare predictions with the records of a folder; exit status 1 if errors are too large, or if errors
    or measurements have changed since a baseline."""
    folder = results or RESULTS
    checked = rules.check(
        folder,
        max_error=max_error,
        baseline=baseline,
        max_drift=max_drift or rules.MAX_DRIFT,
        calibration=calibration,
        figure=figure,
        write=write,
    )
    if json:
        print_json(checked_words.content(checked))
    else:
        checked_words.show(checked)
        if write:
            click.echo(f"wrote {baseline}")
        click.echo(checked_words.summary(checked, folder, baseline))
    for line in checked_words.complaints(checked, has_rule=bool(max_error or baseline)):
        click.echo(line, err=True)
    if not checked.passes:
        raise click.exceptions.Exit(1)
