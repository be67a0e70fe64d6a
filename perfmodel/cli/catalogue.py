"""The commands ``list``, ``show`` and ``check`` of one kind of data file. Each kind declares its columns and
checks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import click

from perfmodel.answers.answer import SCHEMA_VERSION
from perfmodel.answers.declaration import Argument
from perfmodel.cli import output
from perfmodel.cli.commands import Json, flagged
from perfmodel.cli.grouped_help import App
from perfmodel.errors import InputError


@dataclass(frozen=True)
class Fact:
    """One column of a table.

    - key: the name in JSON.
    - value: a function that returns the value of a loaded file.
    - show: a function that formats the value.
    - left: whether the column is aligned to the left.
    - spare: if not 0, a narrow terminal may drop the column (see `output.Column`).
    """

    key: str
    heading: str
    value: Callable[[Any], Any]
    show: Callable[[Any], str] = str
    left: bool = False
    spare: int = 0

    def text(self, spec: Any) -> str:
        """The value of one loaded file as text; ``-`` if the file has no value."""
        value = self.value(spec)
        return "-" if value is None else self.show(value)


@dataclass(frozen=True)
class Catalogue:
    """One kind of data file: how to list, load, show and check the files of this kind."""

    verb: str
    noun: str
    example: str
    """The name of one file, for the examples of ``--help``."""
    names: Callable[[], Sequence[str]]
    load: Callable[[str, str], Any]
    """Loads a file by name or path. The second argument names the first one in error messages."""
    columns: tuple[Fact, ...]
    describe: Callable[[Any], dict[str, Any]]
    faults: Callable[[Any], list[str]]
    argument: str = "NAME|PATH"
    """Placeholder for the name of a file in help and errors."""

    def members(self) -> list[Any]:
        """All bundled files, loaded."""
        return [self.load(name, self.argument) for name in self.names()]

    def rows(self) -> list[dict[str, Any]]:
        """The values of every bundled file, in JSON types."""
        return [{c.key: c.value(spec) for c in self.columns} for spec in self.members()]

    def cells(self) -> list[list[str]]:
        """The formatted cells of every bundled file."""
        return [[c.text(spec) for c in self.columns] for spec in self.members()]


def app_of(catalogue: Catalogue) -> App:
    """The commands `list`, `show` and `check` of one kind of data file."""
    argument = catalogue.argument
    app = App(f"The {catalogue.noun}s: list, show, check.")

    @app.command("list", help=f"List all bundled {catalogue.noun}s, one per line.", example="")
    @flagged
    def listed(json: Json = False) -> None:
        if json:
            return output.print_json({"schema_version": SCHEMA_VERSION, "rows": catalogue.rows()})
        output.table(
            [output.Column(c.heading, c.left, c.spare) for c in catalogue.columns], catalogue.cells()
        )

    @app.command(help=f"Show all data of one {catalogue.noun}, with sources.", example=catalogue.example)
    @flagged
    def show(
        name: Annotated[
            str,
            Argument(
                "A name of the list, an alias, or a path.",
                argument,
                place=True,
                listed=catalogue.verb,
            ),
        ],
        json: Json = False,
    ) -> None:
        described = catalogue.describe(catalogue.load(name, argument))
        if json:
            return output.print_json({"schema_version": SCHEMA_VERSION} | _finite(described))
        for key, text in flat(described):
            click.echo(f"{key}: {text}")

    @app.command(
        help=f"Check {catalogue.noun} files. The exit status is 0 if all are correct, 1 if a file "
        "contradicts itself, and 2 if a file cannot be read.",
        example=catalogue.example,
    )
    @flagged
    def check(
        names: Annotated[tuple[str, ...], Argument("All bundled ones if none.", argument, place=True)] = (),
        json: Json = False,
    ) -> None:
        if not all(names):
            raise InputError(f"check: must be given the name or path of a {catalogue.noun}, given ''")
        checked = [
            {"name": name, "faults": catalogue.faults(catalogue.load(name, argument))}
            for name in names or catalogue.names()
        ]
        if json:
            output.print_json({"schema_version": SCHEMA_VERSION, "rows": checked})
        else:
            for row in checked:
                click.echo(f"{row['name']}: {'; '.join(row['faults']) or 'ok'}")
        if any(row["faults"] for row in checked):
            raise click.exceptions.Exit(1)

    return app


def _finite(value: Any) -> Any:
    """Replaces infinity, which JSON does not have, with the word of YAML files for it."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    return ".inf" if value == float("inf") else value


def flat(tree: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Dotted key and text of every leaf that has a value. A quantity (a mapping with a value and a source)
    counts as one leaf.
    """
    lines: list[tuple[str, str]] = []
    for key, value in tree.items():
        if isinstance(value, dict) and "value" in value and "source" in value:
            number = " ".join(str(part) for part in (value["value"], value.get("unit")) if part is not None)
            error = f" +- {value['stderr']:g}" if value.get("stderr") is not None else ""
            evidence = f"{value['evidence']}: " if value.get("evidence", "published") != "published" else ""
            lines.append((prefix + key, f"{number}{error}  [{evidence}{value['source']}]"))
        elif isinstance(value, dict):
            lines += flat(value, f"{prefix}{key}.")
        elif value not in (None, "", [], ()):
            lines.append(
                (prefix + key, ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
            )
    return lines
