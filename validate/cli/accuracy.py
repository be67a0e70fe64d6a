"""``perfmodel validate accuracy``: this repository's gate; for maintainers."""

import json
from importlib.util import find_spec
from typing import Annotated, Any

import click

from perfmodel.answers.declaration import Argument
from perfmodel.cli.commands import Json, flagged
from perfmodel.errors import InputError
from perfmodel.reading import read_text
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
    write: Annotated[bool, Argument("Renew the record and its pages.", group="Output")] = False,
    json: Json = False,
) -> None:
    """For maintainers: replay all published sets and own records, compare them with results/accuracy.json,
    and exit with 1 on FAIL.
    """
    need_studies("accuracy")
    from perfmodel.validate.accuracy.compare import SETS, gated_sets
    from perfmodel.validate.studies import gate, record as module

    if not write:
        gate.read(module.PATH)  # before the work
    found = module.record()
    if write:
        _renew(found)
    if json:
        click.echo(module.render(found), nl=False)
    faults = gate.faults(gate.read(module.PATH), found)
    for line in faults:
        click.echo(line, err=True)
    if not json:
        overall = found["replays"]["held-out"]["overall"]
        click.echo(
            f"accuracy: {'FAIL' if faults else 'PASS'}; mean error {100 * overall['mape']:.2f} % over "
            f"{overall['rows']} held-out figures"
        )
        click.echo(
            f"replayed: published sets and the {len(gated_sets(BUNDLED)) - len(SETS)} own records that come "
            "with it; any others: validate check --results DIR"
        )
    if faults:
        raise click.exceptions.Exit(1)


def _renew(found: dict[str, Any]) -> None:
    """Writes the record and everything derived from it, completely or not at all."""
    from perfmodel.validate.studies import page, record as module

    text = module.render(found)
    pages = {place: page.filled(read_text(place), json.loads(text)) for place in page.PAGES}
    write_all({module.PATH: text, **pages}, "--write")
