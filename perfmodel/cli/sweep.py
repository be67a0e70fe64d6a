"""``perfmodel sweep``: a grid of answers into a file."""

from pathlib import Path
from typing import Annotated

import typer

from perfmodel.answers.grid.sweep import Grid
from perfmodel.answers.grid.sweep_files import write_sweep
from perfmodel.cli.help import LLAMA, OUTPUT
from perfmodel.cli.options import App, takes
from perfmodel.cli.output import Progress

SHOWN = 12
"""Warnings of a grid that are printed."""
app = App()
Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        "--out",
        metavar="FILE",
        help="Where to: a .csv or a .parquet file (pyarrow).",
        rich_help_panel=OUTPUT,
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file.", rich_help_panel=OUTPUT)]


@app.command(example=f"{LLAMA} --batch 1..256x2 --context 4k..128kx2 --alpha 0.8 --output grid.csv")
@takes(Grid)
def sweep(grid: Grid, output: Output, overwrite: Overwrite = False) -> None:
    """Answer every combination of the comma lists into a file, at flat memory.

    --model, --hardware, --tp, --draft-kv, --alpha, --batch, --context and --gamma take lists; counts also
    take ranges: 1..16, 1000..64000+1000, 1..256x2. Interrupted, it leaves no file.
    """
    bar = Progress("rows")
    try:
        doubts = write_sweep(grid, output, overwrite=overwrite, progress=bar)
    finally:
        bar.end()
    for note in doubts[:SHOWN]:
        typer.echo(f"warning: {note}", err=True)
    if more := len(doubts[SHOWN:]):
        typer.echo(f"warning: {more} more", err=True)
    typer.echo(f"{grid.rows} rows in {output}", err=True)
