"""Write what the code already knows into the docs: tables of devices, models, methods, calibrations and flags, and the
output under every ``$ perfmodel ...`` of README.md and docs/*.md. ``python docs/generate.py``, or ``make docs``.

A test compares `pages` with the files, so that a page that has gone stale fails.
"""

import contextlib
import dataclasses
import io
import re
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from perfmodel import cli
from perfmodel.cli import calibrations, gpus, kv, models
from perfmodel.cli.catalogue import Catalogue
from perfmodel.cli.options import Question

ROOT = Path(__file__).parents[1]
NOTE = "<!-- Written by docs/generate.py: change the data or the code, then `make docs`. -->"
EXAMPLES = ("README.md", "docs/index.md", "docs/sweep.md", "docs/decisions.md")
"""Pages written by hand whose console blocks show real output."""
CONSOLE = re.compile(
    r"(```console\n\$ perfmodel (?P<arguments>(?:[^\n]*\\\n)*[^\n]*)\n)(?P<output>.*?)(```)", re.DOTALL
)
VERBS = [name for name, (module, _) in cli.COMMANDS.items() if module.startswith("perfmodel.")]
COMPLETE = ("whatif", "advise")
"""Verbs shown with all their flags; the others have those of whatif beside their own."""
OVERRIDDEN = {
    "inflection": ("gamma", "context"),
    "schedule": ("batch", "context", "gamma"),
    "compare": ("batch", "gamma"),
}
DEMO = (
    "whatif --model llama-3.1-8b --hardware a100-sxm-80gb --tp 8 --batch 64 --context 32000 "
    "--draft self --draft-kv streamingllm:512 --gamma 2"
)


def pages() -> dict[str, str]:
    """Path in the repository -> what it must hold."""
    made = {f"docs/{name}.md": text for name, text in _generated()}
    for name in EXAMPLES:
        made[name] = CONSOLE.sub(_with_output, (ROOT / name).read_text(encoding="utf-8"))
    return made


def output_of(arguments: str) -> str:
    """What one command line prints, without trailing blanks. Raises RuntimeError where it fails."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = cli.run(shlex.split(arguments.replace("\\\n", " ")))
    if status:
        raise RuntimeError(f"perfmodel {arguments}: exit status {status}")
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


def _with_output(block: re.Match[str]) -> str:
    return block[1] + output_of(block["arguments"]) + block[4]


CATALOGUES = (
    (
        "gpus",
        "Devices",
        "Dense peaks; `-` where the vendor gives none, and asking for it is refused. GB is 10^9 bytes; a link is one "
        "direction. A file of your own works the same: `--hardware ./mine.yaml`.",
        gpus.CATALOGUE,
    ),
    (
        "models",
        "Models",
        "Parameters are computed from the shape; `active` is what one token uses, without the input embedding. KV "
        "bytes are bf16, of one token in all layers on one device. Any local Hugging Face `config.json` of these "
        "families works the same: `--model ./config.json`.",
        models.CATALOGUE,
    ),
    (
        "kv",
        "KV methods",
        "What a draft reads of the cache: `--draft-kv METHOD[:BUDGET][,option=value...]`; counts take `k` and `m`.",
        kv.CATALOGUE,
    ),
    (
        "calibrations",
        "Calibrations",
        "How far a device and software stack are from the ideal roofline. A device without one of its own borrows "
        "another's; the answer then says `transferred`. `ideal` has every efficiency 1 and no fixed cost.",
        calibrations.CATALOGUE,
    ),
)


def _generated() -> Iterator[tuple[str, str]]:
    for verb, title, text, catalogue in CATALOGUES:
        page = _catalogue(verb, title, text, catalogue)
        yield verb, page + _methods() if verb == "kv" else page
    yield "cli", _cli()


def _catalogue(verb: str, title: str, text: str, catalogue: Catalogue) -> str:
    heads = [column.heading for column in catalogue.columns]
    rule = [":--" if column.left or not number else "--:" for number, column in enumerate(catalogue.columns)]
    rows = [_row(heads), _row(rule), *(_row([f"`{cells[0]}`", *cells[1:]]) for cells in catalogue.cells())]
    more = f"`perfmodel {verb} show NAME` has everything, with sources."
    return f"{NOTE}\n\n# {title}\n\n{text} {more}\n\n" + "\n".join(rows) + "\n"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _methods() -> str:
    kinds = map(kv.load, kv.CATALOGUE.names())
    return "\n## What each does\n\n" + "\n".join(f"**{kind.name}**: {kv.summary(kind)}\n" for kind in kinds)


def _cli() -> str:
    shared = {field.name for field in dataclasses.fields(Question)}
    parts = [
        f"{NOTE}\n\n# Command line\n",
        "Exit status: 0 fine, 1 a check failed, 2 the input was wrong (one line on stderr says what, where and what is "
        "allowed), 130 interrupted. Counts are exact; `32k` is 32768 and `1m` 1048576. Lists take commas "
        "(`1,8,64`) and ranges (`1..16`, `1000..9000+500`, `1..256x2`).\n",
    ]
    for name in VERBS:
        command: Any = typer.main.get_command(import_module(cli.COMMANDS[name][0]).app)
        parts.append(f"## perfmodel {name}\n")
        verbs = getattr(command, "commands", None)
        if verbs is None:
            own = [
                p
                for p in command.params
                if name in COMPLETE or p.name not in shared or p.name in OVERRIDDEN.get(name, ())
            ]
            also = "" if name in COMPLETE else "\nBeside the flags of `perfmodel whatif`:\n"
            parts.append(f"{_paragraphs(command.help)}\n{also}\n{_flags(own)}\n")
            continue
        parts.append(f"{cli.COMMANDS[name][1]}\n")
        for verb, sub in verbs.items():
            arguments = " ".join(p.metavar for p in sub.params if p.param_type_name == "argument")
            parts.append(f"`perfmodel {' '.join(filter(None, (name, verb, arguments)))} [--json]`: {sub.help}\n")
    parts.append(f"## perfmodel validate\n\n{cli.COMMANDS['validate'][1]}\n")
    parts.append(_contract())
    return "\n".join(parts)


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _flags(params: list[Any]) -> str:
    rows = [_row(["flag", "value", "default", "what"]), _row([":--"] * 4)]
    for param in params:
        flags = ", ".join(f"`{flag}`" for flag in param.opts)
        value = f"`{param.metavar}`" if param.metavar else ""
        default = "required" if param.required else "" if param.default in (None, False, "") else f"`{param.default}`"
        rows.append(_row([flags, value, default, param.help or ""]))
    return "\n".join(rows)


def _contract() -> str:
    return (
        "## The answer of `perfmodel whatif --json`\n\n"
        "Names are a contract: fields are added, never renamed. Times (`_s`) are seconds of the whole tensor-parallel "
        "group, and of one pass; bytes are per device; throughput is of the group. What there is none of is null. "
        "`measured` lists published measurements of exactly this question. Several `--batch`, `--context` or `--gamma` "
        f"values give a list of such answers. `perfmodel {DEMO} --json`:\n\n"
        f"```json\n{output_of(DEMO + ' --json')}```\n"
    )


def main() -> None:
    """Rewrite every page that has changed."""
    for name, text in pages().items():
        path = ROOT / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print("wrote", name, file=sys.stderr)


if __name__ == "__main__":
    main()
