"""``perfmodel explore``: speedup surfaces in one HTML file that opens from disk."""

from pathlib import Path
from typing import Annotated

import click

from perfmodel.answers.declaration import Argument
from perfmodel.answers.text import size
from perfmodel.cli.commands import LLAMA, takes
from perfmodel.cli.grouped_help import OUTPUT, command
from perfmodel.cli.output import progress, warn_some
from perfmodel.explorer.exploration import Exploration
from perfmodel.explorer.page import page, payload
from perfmodel.writing import destination, write

Output = Annotated[
    Path, Argument("Output file (.html); an existing file is replaced.", "FILE", "-o --out", group=OUTPUT)
]


@command(example=f"{LLAMA} --output map.html")
@takes(Exploration)
def app(question: Exploration, output: Output = Path("explore.html")) -> None:
    """Write a web page that shows the speedup over batch and context, and what each pass spends its time on.

    One HTML file covers every combination of --model, --hardware, --tp and --draft-kv. The page works
    offline, and has sliders for acceptance and draft length. --batch and --context take lists and ranges,
    which become the axes of the map.
    """
    where = destination(output, ".html", ".htm")
    with progress(question.rows // question.points, "surfaces") as bar:
        content = payload(question, progress=bar.update)
    text = page(content).encode()
    write(where, text)
    warn_some(question.doubts())
    click.echo(f"{len(content['cases'])} surfaces, {size(len(text))}, in {output}", err=True)
