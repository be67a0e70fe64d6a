"""``perfmodel explore``: speedup surfaces in one HTML file that opens from disk."""

from pathlib import Path
from typing import Annotated

import typer

from perfmodel.answers.text import size
from perfmodel.cli.help import LLAMA, OUTPUT
from perfmodel.cli.options import App, takes
from perfmodel.cli.output import Progress
from perfmodel.explorer.page import Exploration, page, payload
from perfmodel.writing import destination, write

app = App()
Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        "--out",
        metavar="FILE",
        help="Where to: an .html file, replaced.",
        rich_help_panel=OUTPUT,
    ),
]


@app.command(example=f"{LLAMA} --output map.html")
@takes(Exploration)
def explore(question: Exploration, output: Output) -> None:
    """Speedup over batch and context, and what every pass spends its time on, as a page to explore in a
    browser.

    One HTML file for every combination of --model, --hardware, --tp and --draft-kv: no server, no network.
    Sliders for acceptance and draft length; --batch and --context take lists and ranges and make the map.
    """
    where, bar = destination(output, ".html", ".htm"), Progress("surfaces")
    try:
        content = payload(question, progress=bar)
    finally:
        bar.end()
    text = page(content).encode()
    write(where, text)
    typer.echo(f"{len(content['cases'])} surfaces, {size(len(text))}, in {output}", err=True)
