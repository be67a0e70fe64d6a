"""Tables on the terminal, as every other verb prints them."""

from collections.abc import Iterable, Sequence

from perfmodel.cli.panel import console, grid


def show(header: Sequence[str], rows: Iterable[Sequence[str]], left: Iterable[str] = ()) -> None:
    """Print a table: its first column and those named in `left` to the left, the others to the right."""
    made = grid(*header, left=tuple(left))
    for row in rows:
        made.add_row(*row)
    console().print(made)
