"""``perfmodel sweep``: a grid of answers into a file."""

from pathlib import Path
from typing import Annotated

import typer

from perfmodel.answers import sweep as grids
from perfmodel.answers.sweep import Grid
from perfmodel.answers.sweep_files import sink_for
from perfmodel.cli.options import PLAIN, takes
from perfmodel.cli.output import Progress
from perfmodel.errors import InputError

app = typer.Typer(**PLAIN)
Output = Annotated[
    Path, typer.Option("--output", "-o", "--out", metavar="FILE", help="Where to: a .csv or a .parquet file (pyarrow).")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with an interrupted sweep of the same question.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file, or an interrupted one.")]


@app.command()
@takes(Grid)
def sweep(grid: Grid, output: Output, resume: Resume = False, overwrite: Overwrite = False) -> None:
    """Answer every combination of the comma lists into a file, at flat memory.

    --model, --hardware, --tp, --draft-kv, --alpha, --batch, --context and --gamma take lists; counts also take ranges:
    1..16, 1000..64000+1000, 1..256x2. Interrupted, it keeps the rows so far in FILE.part, and --resume goes on.
    """
    if resume and overwrite:
        raise InputError("--resume and --overwrite: only one of them may be given")
    bar = Progress("rows")
    try:
        grids.run(grid, sink_for(output), resume=resume, overwrite=overwrite, progress=bar)
    except OSError as error:
        raise InputError(
            f"--output: {output}: {error.strerror or error}; --resume goes on from the rows so far"
        ) from None
    except KeyboardInterrupt:
        bar.end()
        if Path(f"{output}.part.json").exists():
            typer.echo(f"interrupted; rows so far are in {output}.part, and --resume goes on from there", err=True)
        raise
    finally:
        bar.end()
    typer.echo(f"{grid.rows} rows in {output}", err=True)
