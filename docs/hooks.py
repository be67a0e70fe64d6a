"""What mkdocs adds to the pages: the explorer with its defaults, made anew, the notebooks with their outputs,
and the pictures for a dark page.
"""

import base64
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
from blocks import fitted, flagged
from breaks import broken
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from perfmodel.errors import InputError
from perfmodel.explorer.exploration import Exploration
from perfmodel.explorer.page import page, payload
from perfmodel.specs.acceptance.acceptance_library import acceptance_library

MAGICDEC = Exploration(model="llama-3.1-8b", hardware="a100-sxm-80gb,h100-sxm-80gb", tp=8, engine="magicdec")
"""The stack whose speedups were published: its maps have dots."""
ROOT = Path(__file__).parents[1]
SHOWN = ("image/png", "text/html", "text/plain")
"""Of several forms of an output, the first of these is shown."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Link to the repository where the site is built by its workflow; a clone does not know its address.

    In the footer: the theme's own link in the header asks the host for the number of stars.
    """
    if name := os.environ.get("GITHUB_REPOSITORY"):
        address = f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}"
        link = {"icon": "material/source-repository", "link": address, "name": "Repository"}
        config.extra["social"] = [link]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made to the files of the site."""
    files.append(File.generated(config, "explorer.html", content=page(payload(Exploration(), MAGICDEC))))
    files.append(File.generated(config, "explorer_models.html", content=page(payload(*every_model()))))
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        text, pictures = shown(nbformat.read(path, as_version=4), path.stem)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, picture in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=picture))
    return files


def every_model() -> list[Exploration]:
    """A question for each model with a published acceptance that at most eight H200 can hold and divide."""
    found = []
    for target in sorted({row.target for row in acceptance_library().rows}):
        one = Exploration(
            model=target,
            hardware="h200-sxm-141gb",
            batch="1..256x2",
            context="1k..128kx2",
            max_gamma=8,
        )
        with suppress(InputError):
            list(one.groups())
            found.append(one)
    return found


PICTURE = re.compile(r"!\[(?P<words>[^\]]*)\]\((?P<path>img/[\w-]+)\.svg\)")
"""A picture on a page."""


def on_page_markdown(markdown: str, page: object, config: MkDocsConfig, files: Files) -> str:
    """Show the version of each picture that fits the theme of the site."""

    def both(found: re.Match[str]) -> str:
        words, path = found["words"], found["path"]
        if files.get_file_from_path(f"{path}-dark.svg") is None:
            return found[0]
        return f"![{words}]({path}.svg#only-light)![{words}]({path}-dark.svg#only-dark)"

    return PICTURE.sub(both, markdown)


SEARCH = 'data-md-component="search" role="dialog"'
REACHABLE = """<script>addEventListener("load", () => {
const all = (found, named) => document.querySelectorAll(found).forEach(named);
all(".md-typeset__scrollwrap, .output", (table) => table.tabIndex = 0);
const focusable = (code) => code.insertAdjacentHTML("afterbegin", "<i tabindex=0></i>");
if (!matchMedia("(hover)").matches) all("pre > code", focusable);
all(".md-code__nav", (nav, i) => nav.setAttribute("aria-label", `Code block ${i + 1}`));
})</script>"""
"""Lets the keyboard scroll wide tables, and code on a device without a mouse; names the buttons of blocks."""
WHOLE = """<script>addEventListener("message", ({ data, source }) => {
for (const frame of document.querySelectorAll("iframe.explorer")) {
  if (frame.contentWindow === source && data.explorerHeight) frame.style.height = `${data.explorerHeight}px`;
}
})</script>"""
"""Gives the explorer's frame the height that its page tells."""


FRAME = re.compile(r'<iframe( title="[^"]*") style="[^"]*"')
"""The frame in which a notebook shows the explorer."""
SHORT_CODE = re.compile(r"<code>(--?[a-z][a-z0-9-]*|[^\s<-]{1,14})</code>")
"""A flag, or a word without a hyphen that fits a line of a table on a phone (at most 14 characters)."""


def on_page_content(html: str, **_: object) -> str:
    """Blocks and tables fit the window, and no line ends within a flag or a short word of code."""
    return SHORT_CODE.sub(r'<code class="whole">\1</code>', broken(flagged(fitted(html))))


def on_post_page(output: str, page: object, config: MkDocsConfig) -> str:
    """Name the search dialog, and make wide tables reachable by keyboard, which the theme leaves out."""
    named = output.replace(SEARCH, f'{SEARCH} aria-label="Search"')
    return named.replace("</body>", f"{REACHABLE}{WHOLE}</body>")


def shown(notebook: Any, stem: str) -> tuple[str, dict[str, bytes]]:
    """A notebook that was run as Markdown, and its pictures by file name."""
    parts = []
    pictures = {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        code = "\n".join(line for line in cell.source.splitlines() if not line.startswith("%"))
        parts += [f"```python\n{code.strip()}\n```"] * bool(code.strip())
        for output in cell.outputs:
            data = output.get("data", {"text/plain": output.get("text", "")})
            kind = next((kind for kind in SHOWN if kind in data), None)
            if kind == "image/png":
                name = f"{stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(data[kind])
                width = output.metadata[kind]["width"]
                parts.append(f"![{data['text/plain']}]({name}){{ .drawn width={width} }}")
            elif kind == "text/html" and data[kind].startswith("<iframe"):
                frame = FRAME.sub(r'<iframe class="explorer"\1', data[kind])
                parts.append("&#10;".join(frame.splitlines()))  # a page in a frame keeps its lines
            elif kind == "text/html":
                table = "".join(data[kind].splitlines()).replace("<th></th>", "<td></td>")  # no empty headers
                parts.append(f'<div class="output">{table}</div>')
            elif kind == "text/plain" and data[kind].strip():
                parts.append(f"```text\n{data[kind].rstrip()}\n```")
    return "\n\n".join(parts) + "\n", pictures
