"""``perfmodel validate accuracy``: the accuracy check of this repository, for maintainers."""

from importlib.util import find_spec
from typing import Annotated, Any

import click

from perfmodel.answers.declaration import Argument
from perfmodel.cli.commands import Json, flagged
from perfmodel.errors import InputError
from perfmodel.validate.records import BUNDLED
from perfmodel.writing import write_all


def need_studies(verb: str) -> None:
    """Raises InputError in an installed package, which has no ``validate/studies``."""
    if find_spec("perfmodel.validate.studies") is None:
        raise InputError(
            f"perfmodel validate {verb}: is for maintainers, in a checkout of this project; "
            "your own records: perfmodel validate check --results DIR"
        )


@flagged
def accuracy(
    write: Annotated[
        bool, Argument("Write results/accuracy.json and the tables made from it.", group="Output")
    ] = False,
    json: Json = False,
) -> None:
    """For maintainers: predict all published measurements and your own records again, and compare the errors
    with results/accuracy.json. The exit status is 1 if they differ.
    """
    need_studies("accuracy")
    from perfmodel.validate.studies import gate, page, record as module

    if not write:
        gate.read(module.PATH)  # raises InputError before the long work
    record = module.record()
    if write:
        write_all(page.files(record), "--write")
    if json:
        click.echo(module.render(record), nl=False)
    conclude(gate.read(module.PATH), record, json)


def conclude(recorded: dict[str, Any], now: dict[str, Any], json: bool) -> None:
    """Prints the mean error and all differences from the recorded errors. Exits with 1 if a figure or an
    input differs.
    """
    from perfmodel.validate.accuracy.sets import SETS, gated_sets
    from perfmodel.validate.studies import gate

    faults = gate.faults(recorded, now)
    for line in faults:
        click.echo(line, err=True)
    if not json:
        overall = now["replays"]["held-out"]["overall"]
        verdict = "FAIL" if faults else "PASS"
        error = f"{100 * overall['mape']:.2f} % over {overall['rows']} held-out figures"
        click.echo(f"accuracy: {verdict}; mean error {error}")
        own_records = len(gated_sets(BUNDLED)) - len(SETS)
        click.echo(
            f"replayed: published sets and the {own_records} own records that come with it; any others: "
            "validate check --results DIR"
        )
    if faults:
        raise click.exceptions.Exit(1)
