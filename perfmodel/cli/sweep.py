"""``perfmodel sweep``: a grid of answers into a file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from perfmodel.answers import sweep as grids
from perfmodel.answers.sweep_files import sink_for
from perfmodel.cli.options import Question, asks
from perfmodel.errors import InputError

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="Where to: a .csv or a .parquet file (pyarrow).")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with an interrupted sweep of the same question.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file, or an interrupted one.")]


@app.command()
@asks
def sweep(question: Question, output: Output, resume: Resume = False, overwrite: Overwrite = False) -> None:
    """Answer every combination of the comma lists into a file, at flat memory.

    --model, --hardware, --tp, --draft-kv, --alpha, --batch, --context and --gamma take lists; counts also take ranges:
    1..16, 1000..64000+1000, 1..256x2. Interrupted, it keeps the rows so far in FILE.part, and --resume goes on.
    """
    if resume and overwrite:
        raise InputError("--resume and --overwrite: only one of them may be given")
    grid = question.grid()
    bar = _Progress(grid.rows)
    try:
        grids.run(grid, sink_for(output), resume=resume, overwrite=overwrite, progress=bar)
    except OSError as error:
        raise InputError(f"--output: {output}: {error.strerror or error}") from None
    finally:
        bar.end()
    typer.echo(f"{grid.rows} rows in {output}", err=True)


class _Progress:
    """Rows so far on stderr, where that is a terminal."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.shown = total, 0, sys.stderr.isatty()

    def __call__(self, rows: int) -> None:
        self.done += rows
        if self.shown:
            print(f"\r{self.done:,} of {self.total:,} rows", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.shown and self.done:
            print(file=sys.stderr)
