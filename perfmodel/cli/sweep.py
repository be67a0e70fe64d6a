"""``perfmodel sweep``: writes a grid of answers to a file."""

from pathlib import Path
from typing import Annotated

import click

from perfmodel.answers.declaration import Argument
from perfmodel.answers.grid.grid import Grid
from perfmodel.answers.grid.sweep_files import write_sweep
from perfmodel.cli.commands import LLAMA, takes
from perfmodel.cli.grouped_help import OUTPUT, command
from perfmodel.cli.output import progress, warn_some

Output = Annotated[
    Path,
    Argument("Output file: .csv or .parquet (needs pyarrow).", "FILE", "-o --out", group=OUTPUT),
]
Overwrite = Annotated[bool, Argument("Replace the output file if it exists.", group=OUTPUT)]


@command(example=f"{LLAMA} --batch 1..256x2 --context 4k..128kx2 --alpha 0.8 --output grid.csv")
@takes(Grid)
def app(grid: Grid, output: Output = Path("sweep.csv"), overwrite: Overwrite = False) -> None:
    """Answer every combination of the listed values as `whatif` does, and write the answers to a file. Memory
    use is constant.

    --model, --hardware, --tp, --draft-kv, --alpha, --batch, --context and --gamma take lists. Counts also
    take ranges: 1..16, 1000..64000+1000, 1..256x2. An interrupted sweep leaves no file.
    """
    with progress(grid.rows, "rows") as bar:
        doubts = write_sweep(grid, output, overwrite=overwrite, progress=bar.update)
    warn_some(doubts)
    click.echo(f"{grid.rows} rows in {output}", err=True)
