"""``perfmodel explore``: speedup surfaces in one HTML file that opens from disk."""

from pathlib import Path
from typing import Annotated

import click

from perfmodel.answers.question.arguments import Argument
from perfmodel.answers.text import size
from perfmodel.cli.help import LLAMA, OUTPUT, command
from perfmodel.cli.options import takes
from perfmodel.cli.output import Progress
from perfmodel.explorer.page import Exploration, page, payload
from perfmodel.writing import destination, write

Output = Annotated[Path, Argument("Where to: an .html file, replaced.", "FILE", "-o --out", group=OUTPUT)]


@command(example=f"{LLAMA} --output map.html")
@takes(Exploration)
def app(question: Exploration, output: Output) -> None:
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
    click.echo(f"{len(content['cases'])} surfaces, {size(len(text))}, in {output}", err=True)
