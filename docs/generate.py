"""Write what the code already knows into the docs: tables of devices, models, methods, calibrations and flags, and the
output under every command of README.md and docs/*.md. ``python docs/generate.py``, or ``make docs``.

The commands of a page run in order in a folder of their own, which holds nothing but the page's files:

- a fenced block with a title is a file of that name;
- a ``console`` block is one command after ``$`` and what it prints;
- an ``sh`` block is commands whose output the page does not show;
- ``<!-- timed -->`` before a block: a clock decides what it prints, which therefore stays as it was recorded.

A page with a file inside one of the `TREE` folders runs in a copy of the source tree. A test compares `page` with the
files, so that a page that has gone stale fails.
"""

import contextlib
import functools
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import typer
from pydantic import BaseModel

from perfmodel import cli
from perfmodel.cli import calibrations, gpus, kv, models
from perfmodel.cli.catalogue import Catalogue
from perfmodel.cli.output import WIDEST
from perfmodel.specs.calibration import CONSTANTS, Calibration
from perfmodel.specs.huggingface import SUPPORTED
from perfmodel.validate.accuracy.markdown import table
from perfmodel.validate.records import plan, schema

ROOT = Path(__file__).parents[1]
NOTE = "<!-- Written by docs/generate.py: change the data or the code, then `make docs`. -->"
TREE = ("perfmodel", "hardware", "validate", "results", "tests")
FENCE = re.compile(
    r'(?P<mark><!-- timed -->\n)?^```(?P<language>\w*)(?: title="(?P<file>[^"\n]+)")?\n(?P<body>.*?)^```$',
    re.DOTALL | re.MULTILINE,
)
COMMAND = re.compile(r"\$ (?P<line>(?:[^\n]*\\\n)*[^\n]*)\n")
VERBS = [name for name in cli.COMMANDS if name != "validate"]
COMPLETE = ("whatif", "advise")
"""Verbs shown with all their flags; the others have those of whatif beside their own."""
DEMO = (
    "whatif --model llama-3.1-8b --hardware a100-sxm-80gb --tp 8 --batch 64 --context 32000 "
    "--draft self --draft-kv streamingllm:512 --gamma 2"
)


def pages() -> dict[str, str]:
    """Path in the repository -> what it must hold."""
    return {name: page(name) for name in names()}


def names() -> list[str]:
    """Every page that this program writes, wholly or in part."""
    return [*(f"docs/{name}.md" for name in GENERATED), *by_hand()]


def by_hand() -> list[str]:
    """Pages written by hand with commands in them."""
    found = []
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        blocks = FENCE.finditer(path.read_text(encoding="utf-8"))
        if path.stem not in GENERATED and any(b["language"] in ("console", "sh") for b in blocks):
            found.append(path.relative_to(ROOT).as_posix())
    return found


def page(name: str) -> str:
    """What one page must hold."""
    stem = Path(name).stem
    return GENERATED[stem]() if stem in GENERATED else filled((ROOT / name).read_text(encoding="utf-8"))


def filled(text: str, timed: bool = False) -> str:
    """A page with the output under each command; with `timed`, under the commands that a clock decides too."""
    blocks = list(FENCE.finditer(text))
    in_tree = any(b["file"] and Path(b["file"]).parts[0] in TREE for b in blocks)
    wide = mock.patch.dict(os.environ, COLUMNS=str(WIDEST))  # sentences are wrapped as on a wide terminal
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), wide:
        if in_tree:
            copy_tree(Path(folder))
        return FENCE.sub(lambda block: _replaced(block, in_tree, timed), text)


def copy_tree(folder: Path) -> None:
    """The packages, their tests and the settings of both, without what was made from them."""
    for name in TREE:
        shutil.copytree(
            ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "local-*")
        )
    shutil.copy(ROOT / "pyproject.toml", folder)


def _replaced(block: re.Match[str], in_tree: bool, timed: bool) -> str:
    if block["file"]:
        path = Path(block["file"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block["body"], encoding="utf-8")
    elif block["mark"] and not timed:
        pass
    elif block["language"] == "sh":
        for line in block["body"].replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                output_of(words, in_tree)
    elif block["language"] == "console":
        command = COMMAND.match(block["body"])
        if command is None or block["body"].count("\n$ "):
            raise RuntimeError(f"a console block must hold one command, after '$ ':\n{block[0]}")
        words = shlex.split(command["line"].replace("\\\n", " "))
        return f"{block['mark'] or ''}```console\n{command[0]}{output_of(words, in_tree)}```"
    return block[0]


def output_of(words: list[str], in_tree: bool = False) -> str:
    """What one command prints, without trailing blanks. Raises RuntimeError where it fails, or is not `perfmodel`.

    in_tree: run what lies in the current folder, as a process, where ``python -m pytest`` may be run too.
    """
    out, err, status = io.StringIO(), io.StringIO(), 0
    if in_tree and words[0] in ("perfmodel", "python"):
        arguments = ["-m", *words] if words[0] == "perfmodel" else words[1:]
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
        out.write(done.stdout)
        err.write(done.stderr)
        status = done.returncode
    elif words[0] == "perfmodel":
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.run(words[1:])
    else:
        raise RuntimeError(f"{shlex.join(words)}: only perfmodel is run here")
    if status:
        said = (out.getvalue() + err.getvalue())[-2000:]
        raise RuntimeError(f"{shlex.join(words)}: exit status {status}\n{said}")
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


CATALOGUES = (
    (
        "gpus",
        "Devices",
        "Dense peaks; `-` where the vendor gives none, and asking for it is refused. GB is 10^9 bytes; a link is one "
        "direction; `calibration` is what answers where neither `--engine` nor `--calibration` is given. A file of "
        "your own works the same: `--hardware ./mine.yaml`.",
        gpus.CATALOGUE,
    ),
    (
        "models",
        "Models",
        "Parameters are computed from the shape; `active` is what one token uses, without the input embedding. KV "
        "bytes are bf16, of one token in all layers on one device; `weights` is what the checkpoint comes in. A "
        "Hugging Face id works as a name, with what it was tuned for: `Qwen/Qwen2.5-7B-Instruct`. Any local "
        f"`config.json` works the same, `--model ./config.json`, of the `model_type`s {', '.join(SUPPORTED)}.",
        models.CATALOGUE,
    ),
    (
        "kv",
        "KV methods",
        "What a draft reads of the cache: `--draft-kv METHOD[:BUDGET][,option=value...]`; counts take `k` and `m`. The "
        "decoder of `perfmodel validate` runs those that are not marked `predicted only`.",
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


def _catalogue(verb: str, title: str, text: str, catalogue: Catalogue) -> str:
    heads = [column.heading for column in catalogue.columns]
    left = [number for number, column in enumerate(catalogue.columns) if column.left or not number]
    rows = table(heads, ([f"`{cells[0]}`", *cells[1:]] for cells in catalogue.cells()), left)
    more = f"`perfmodel {verb} show NAME` has everything, with sources."
    return f"{NOTE}\n\n# {title}\n\n{text} {more}\n\n" + "\n".join(rows) + "\n"


def _methods() -> str:
    kinds = kv.CATALOGUE.members()
    return "\n## What each does\n\n" + "\n".join(f"**{kind.name}**: {kv.summary(kind)}\n" for kind in kinds)


def _constants() -> str:
    """Every constant of a calibration, from its declaration."""
    rows = []
    for name, c in CONSTANTS.items():
        optional = "" if Calibration.model_fields[name].is_required() else " (optional)"
        rows.append([f"`{name}`", c.unit, c.bounds, c.work, c.term or "-", c.meaning + optional])
    head = ["constant", "unit", "possible", "of", "time it enters", "meaning"]
    return (
        "\n## Constants\n\n"
        "Each is one key of the file, `{value: ..., stderr: ..., source: ...}`, in the order of this table; without an "
        "optional one nothing is counted for it. How they make a time is in "
        "[the model](model.md#2-from-counts-to-seconds); how to add one, in "
        "[contributing](contributing.md#a-constant).\n\n" + "\n".join(table(head, rows, text_columns=range(6))) + "\n"
    )


def _cli() -> str:
    commands = {name: _command(name) for name in VERBS}
    shared = {
        param.name: _cells(param) for param in commands["whatif"].params if param.name not in ("json", "sensitivity")
    }
    parts = [
        f"{NOTE}\n\n# Command line\n",
        "Exit status: 0 fine, 1 a check failed, 2 the input was wrong (one line on stderr says what, where and what is "
        "allowed), 130 interrupted. Counts are exact; `32k` is 32768 and `1m` 1048576. Lists take commas "
        "(`1,8,64`) and ranges (`1..16`, `1000..9000+500`, `1..256x2`). `perfmodel --install-completion` "
        "teaches the shell to complete verbs and flags with the tab key.\n",
    ]
    for name, command in commands.items():
        parts.append(f"## perfmodel {name}\n")
        verbs = getattr(command, "commands", None)
        if verbs is None:
            known = {} if name in COMPLETE else shared
            parts.append(f"{_paragraphs(command.help)}\n\n{_beside(command, known)}{_flags(_own(command, known))}\n")
            continue
        parts += [f"{cli.COMMANDS[name][1]}\n", *_verbs(name, verbs, shared)]
    validate = _command("validate")
    common = _common(validate.commands.values())
    parts += [f"## perfmodel validate\n\n{cli.COMMANDS['validate'][1]} Flags of several verbs:\n"]
    parts += [f"{_table_of(common.values())}\n", *_verbs("validate", validate.commands, common)]
    parts.append(_contract())
    return "\n".join(parts)


def _common(commands: Iterable[Any]) -> dict[str, list[str]]:
    """The options that several commands have alike, by name."""
    cells = [(p.name, _cells(p)) for c in commands for p in c.params if p.param_type_name == "option"]
    return {name: found for name, found in cells if cells.count((name, found)) > 1}


def _command(name: str) -> Any:
    return typer.main.get_command(import_module(cli.COMMANDS[name][0]).app)


def _own(command: Any, shared: dict[str, list[str]]) -> list[Any]:
    """The options of a command that are not just those of whatif."""
    options = [p for p in command.params if p.param_type_name == "option"]
    return [p for p in options if shared.get(p.name) != _cells(p)]


def _beside(command: Any, shared: dict[str, list[str]]) -> str:
    """Which flags of whatif a command has beside its own."""
    names = {param.name for param in command.params}
    if not shared or not names & set(shared):
        return ""
    missing = ", ".join(f"`--{name.replace('_', '-')}`" for name in shared if name not in names)
    return f"Beside the flags of `perfmodel whatif`{f', without {missing}' if missing else ''}:\n\n"


def _verbs(name: str, verbs: dict[str, Any], shared: dict[str, list[str]]) -> Iterator[str]:
    """A paragraph for each verb of a group, and the flags that are its own."""
    for verb, command in verbs.items():
        arguments = [p.metavar or p.name.upper() for p in command.params if p.param_type_name == "argument"]
        own = _own(command, shared)
        also = ["[--json]"] if any(p.name == "json" for p in own) else []
        yield f"`perfmodel {' '.join((name, verb, *arguments, *also))}`: {_paragraphs(command.help)}\n"
        also = [f"`{p.opts[0]}`" for p in command.params if shared.get(p.name) == _cells(p) and name == "validate"]
        if also:
            yield f"Also: {', '.join(also)}.\n"
        if own := [p for p in own if p.name != "json"]:
            yield f"{_flags(own)}\n"


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _flags(params: list[Any]) -> str:
    return _table_of(map(_cells, params))


def _table_of(cells: Iterable[list[str]]) -> str:
    return "\n".join(table(["flag", "value", "default", "what"], cells, text_columns=range(4)))


def _cells(param: Any) -> list[str]:
    flags = ", ".join(f"`{flag}`" for flag in param.opts)
    value = _code(param.metavar) if param.metavar else ""
    shown = param.show_default if isinstance(param.show_default, str) else param.default
    default = "required" if param.required else "" if shown in (None, False, "") else _code(str(shown))
    return [flags, value, default, param.help or ""]


def _code(text: str) -> str:
    """Code in a cell of a table: within back ticks a bar would end the cell, or be printed with its escape."""
    return f"<code>{text.replace('|', '&#124;')}</code>" if "|" in text else f"`{text}`"


def _contract() -> str:
    return (
        "## The answer of `perfmodel whatif --json`\n\n"
        "Names are a contract: fields are added, never renamed. `schema_version` is 2 in the JSON of every verb; where "
        "there can be several answers, they are `rows`. In Python an answer's `as_dict()` is the same.\n\nTimes (`_s`) "
        "are seconds of the whole tensor-parallel group, of one pass; bytes are per device, throughput is the group's. "
        "What there is none of is null. `verdict` is `pays`, `does_not_pay`, `too_close_to_call` or `does_not_fit`. "
        "`measured` lists published measurements of exactly this question. Several `--batch`, `--context` or `--gamma` "
        f"values give such answers as `rows`. `perfmodel {DEMO} --json`:\n\n"
        f"```json\n{_short(json.loads(output_of(shlex.split(f'perfmodel {DEMO} --json'))))}\n```\n"
    )


def _short(answer: dict[str, Any]) -> str:
    """JSON with a line for each field of the answer, folded where it is long; numbers to six digits."""
    rounded = json.loads(json.dumps(answer), parse_float=lambda text: float(f"{float(text):.6g}"))
    lines: list[str] = []
    for name, value in rounded.items():
        first, *more = re.split(r', (?=")', json.dumps({name: value}, ensure_ascii=False)[1:-1])
        lines.append(f"  {first}")
        for part in more:
            if len(lines[-1]) + len(part) > 116:
                lines.append(f"    {part}")
            else:
                lines[-1] += f", {part}"
    return "{\n" + ",\n".join(lines) + "\n}"


def _table(verb: str, title: str, text: str, catalogue: Catalogue) -> str:
    made = _catalogue(verb, title, text, catalogue)
    return made + {"kv": _methods, "calibrations": _constants}.get(verb, str)()


RECORDS = """# Records of measurements

`perfmodel validate measure`, `microbench` and `run` write one JSON file a run, `results/MACHINE/UTC-COMMIT-PLAN.json`.
A file is never changed; `results/withdrawn.yaml` lists those that count no longer, each with its reason. Times are raw
samples in seconds; statistics are made on reading: a point's figures are medians. Units are in the names. A field that
is not required may be missing, and a reader ignores fields that it does not know.

Version {version} is the newest. A file of version 1 is left as it is and read under the new names:

{renamed}
"""
SECTIONS: dict[type[BaseModel], type[BaseModel] | None] = {
    schema.PointRecord: None,
    schema.PointRow: None,
    schema.KernelRecord: schema.PointRecord,
    schema.KernelRow: None,
    schema.RecordedProtocol: None,
    schema.Environment: None,
    schema.Device: None,
    schema.RecordedPlan: None,
    plan.Block: None,
    plan.Protocol: None,
    plan.Precisions: None,
    plan.Micro: None,
}
"""Parts of a record -> the part whose fields they have too."""


def _records() -> str:
    """The schema of records and plans, from the models that read them."""
    old = [[f"`{a}`", f"`{b}`", where] for where, names in schema.RENAMED_IN_2.items() for a, b in names.items()]
    renamed = "\n".join(table(["in version 1", "since version 2", "where"], old, text_columns=range(3)))
    parts = [NOTE, "", RECORDS.format(version=schema.SCHEMA_VERSION, renamed=renamed)]
    for model, like in SECTIONS.items():
        described = model.model_json_schema()
        known = like.model_json_schema()["properties"] if like else {}
        also = f" It has the fields of [{like.__name__}](#{like.__name__.lower()}), and:" if like else ""
        rows = [
            [
                f"`{name}`",
                _type(field),
                _default(field, name in described.get("required", ())),
                field.get("description", ""),
            ]
            for name, field in described["properties"].items()
            if field != known.get(name)
        ]
        fields = table(["field", "type", "default", "meaning"], rows, text_columns=range(4))
        parts += [f"## {model.__name__}", "", described["description"] + also, "", *fields, ""]
    parts += ["## Samples", "", "Each a list of seconds, by the mode of its row; `kernel` is of a microbenchmark.", ""]
    rows = [[f"`{name}`", mode, what] for mode, names in schema.SAMPLES.items() for name, what in names.items()]
    return "\n".join([*parts, *table(["sample", "mode", "what was timed"], rows, text_columns=range(3))]) + "\n"


def _default(field: dict[str, Any], required: bool) -> str:
    default = field.get("default")
    if required or default is None or isinstance(default, dict):
        return "required" if required else ""
    return f"`{json.dumps(default)}`"


def _type(field: dict[str, Any]) -> str:
    """A JSON schema's type in words."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})" if name in [model.__name__ for model in SECTIONS] else f"`{name}`"
    if "anyOf" in field:
        return " or ".join(_type(one) for one in field["anyOf"] if one.get("type") != "null")
    if "const" in field or "enum" in field:
        return " or ".join(f"`{value}`" for value in field.get("enum", [field.get("const")]))
    if "items" in field:
        return f"list of {_type(field['items'])}"
    if isinstance(field.get("additionalProperties"), dict):
        return f"name: {_type(field['additionalProperties'])}"
    limits = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤"}
    said = "".join(f" {sign} {field[key]:g}" for key, sign in limits.items() if key in field)
    return f"{field['type']}{said}"


GENERATED = {entry[0]: functools.partial(_table, *entry) for entry in CATALOGUES} | {"cli": _cli, "records": _records}
"""Page -> what writes all of it."""


def main() -> None:
    """Rewrite every page that has changed, and draw the pictures."""
    import picture  # beside this file

    for name, text in pages().items():
        path = ROOT / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print("wrote", name, file=sys.stderr)
    picture.main()


if __name__ == "__main__":
    main()
