"""``perfmodel explore``: speedup surfaces in one HTML file that opens from disk."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from perfmodel.answers.sweep import Grid
from perfmodel.cli.options import COUNTS, Question, _option, asks
from perfmodel.errors import InputError, refuse

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to: an .html file, replaced.")]
NAMES = "NAME|PATH,..."


@dataclass(frozen=True, kw_only=True)
class Exploration(Question):
    """A question about surfaces: all of it has a default, and acceptance is the page's slider."""

    model: Annotated[str, _option("--model -m", NAMES, "Target models, with commas.")] = (
        "llama-3.1-8b,llama-3.1-70b,qwen3-30b-a3b"
    )
    hardware: Annotated[str, _option("--hardware --gpu --device", NAMES, "Devices, with commas.")] = (
        "a100-sxm-80gb,h100-sxm-80gb,h200-sxm-141gb,mi300x-192gb"
    )
    tp: Annotated[str, _option("--tp --tensor-parallel", "N,...", "Devices of a tensor-parallel group.")] = "8"
    draft_kv: Annotated[str, _option("--draft-kv", "METHOD[:BUDGET],...", "What the draft reads of the cache.")] = (
        "streamingllm:512,snapkv:2k,quest:1k"
    )
    batch: Annotated[str, _option("--batch --batch-size -b", COUNTS, "Rows of the map.")] = "1..256x2,3..192x2"
    context: Annotated[str, _option("--context --context-length -c", COUNTS, "Columns of the map.")] = (
        "1k..128kx2,1536..96kx2"
    )
    alpha: Annotated[str, _option("--alpha --acceptance-rate", "RATE", "Where the acceptance slider starts.")] = "0.8"
    gamma: Annotated[str, _option("--gamma -g", "N|auto", "Where the draft-length slider starts.")] = "auto"

    def grid(self) -> Grid:
        """See `Question.grid`; batch and context rise. Raises InputError for what a page with sliders cannot take."""
        for flag, given in (("--tokens-per-iteration", self.tokens_per_iteration), ("--acceptance", self.acceptance)):
            if given is not None:
                raise InputError(f"{flag}: the page has a slider for acceptance; --alpha says where it starts")
        if self.accounting != Question.accounting:
            raise refuse("--accounting", None, f"{Question.accounting} here", self.accounting)
        grid = super().grid()
        for flag, values in (("--alpha", grid.alpha), ("--gamma", grid.gamma)):
            if len(values) > 1:
                raise refuse(flag, None, "one value, where its slider starts", len(values))
        return replace(grid, batch=_rising(grid.batch), context=_rising(grid.context))


@app.command()
@asks
def explore(question: Exploration, output: Output) -> None:
    """Speedup over batch and context, and what every pass spends its time on, as a page to explore in a browser.

    One HTML file for every combination of --model, --hardware, --tp and --draft-kv: no server, no network. Sliders for
    acceptance and draft length; --batch and --context take lists and ranges and make the map.
    """
    from perfmodel.explorer import page as explorer

    if output.suffix.lower() not in (".html", ".htm"):
        raise refuse("--output", None, "a file name ending in .html", output.name)
    if not output.parent.is_dir():
        raise refuse("--output", None, "in a folder that exists", str(output))
    bar = _Progress()
    try:
        content = explorer.payload(question.grid(), bar)
    finally:
        bar.end()
    text = explorer.page(content)
    explorer.write(output, text)
    size = len(text.encode()) / 1e6
    typer.echo(f"{len(content['cases'])} surfaces, {size:.1f} MB, in {output}", err=True)


def _rising(values: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(sorted(set(values)))


class _Progress:
    """Surfaces so far on stderr, where that is a terminal."""

    def __init__(self) -> None:
        self.shown, self.begun = sys.stderr.isatty(), False

    def __call__(self, done: int, of: int) -> None:
        if self.shown:
            self.begun = True
            print(f"\r{done} of {of} surfaces", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.begun:
            print(file=sys.stderr)
