"""Pinned answers: commands and their answers, a text file per verb, so that a diff shows which answers moved.

``python -m tests.pinned --write`` rewrites the answers that moved, and adds those of commands given after it.
"""

import contextlib
import difflib
import io
import itertools
import json
import math
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

from perfmodel import cli
from perfmodel.cli import output

FOLDER = Path(__file__).parent
ENGINES = FOLDER.parent / "validate/engine/files"
"""Files of serving engines."""
REWRITE = "python -m tests.pinned --write"
REFUSED = "refused"
"""The file of commands that are refused, of all verbs."""
ABSENT = "(absent)"
DIGITS = 5
"""Significant digits that are kept."""
TOLERANCE = 1e-4
"""The relative change that is none: another CPU rounds otherwise."""
WIDTH = 110
"""Of a line."""
NUMBER = re.compile(r"((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?)")
LONG = re.compile(r"\d+\.\d{6,}(?:e[+-]?\d+)?")
"""Numbers of a table that is written for programs."""
LIST = re.compile(r"((?:known|fitted): (?:[^,;]+, ){2})[^;)]+, [^;)\n]+(; \w+: [^;)]+)*")
"""Names of all models, say: one that is added moves no answer."""
VERSIONED = re.compile(re.escape(version("perfmodel")) + "|[0-9a-f]{32}")
"""Parts of a written file that differ from release to release."""
FILES = {
    "rows.json": """{"schema_version": 1, "source": "a file", "rows": [
        {"target": "llama-3.1-8b", "draft": "self", "draft_kv": "streamingllm", "kv_budget_tokens": 512,
         "context_tokens": 2000, "positions": [0.9, 0.8, 0.6]},
        {"target": "llama-3.1-8b", "draft": "self", "draft_kv": "streamingllm", "kv_budget_tokens": 512,
         "context_tokens": 32000, "histogram": [3, 2, 2, 5]}]}""",
    "mine.yaml": "name: mine\nbandwith: 3\n",
    "tag.yaml": "!!python/object/apply:os.system ['true']\n",
    "deep.json": "[" * 100_000,
    "letters.jsonl": '[1]\n[1, "a"]',
    "short.jsonl": "[1, 2, 3]\n[4]",
    "empty.jsonl": "\n",
    **{path.name: path.read_text(encoding="utf-8") for path in ENGINES.iterdir()},
    "x.json": (ENGINES / "vllm-forward.json").read_text(encoding="utf-8"),
    "mix.yaml": (
        "classes:\n"
        "  chat: {share: 3, input_len: 500, output_len: 300, alpha: 0.5, slo: {ttft: 500, tpot: 20}}\n"
        "  code: {share: 1, input_len: 6000, output_len: 800, output_std: 200, alpha: 0.8}\n"
    ),
    "trace.csv": "arrival_s,input_tokens,output_tokens\n0,900,40\n0.5,3000,1\n0.6,100,300\n2,5000,64\n",
}
"""The files that commands may name, in the folder that each runs in."""


def read() -> dict[str, str]:
    """Command -> its answer, of all files."""
    return {command: answer for path in sorted(FOLDER.glob("*.txt")) for command, answer in _of(path).items()}


def refused() -> dict[str, str]:
    """Command -> the line that refuses it."""
    return _of(FOLDER / f"{REFUSED}.txt")


def _of(path: Path) -> dict[str, str]:
    _, *parts = re.split(r"^\$ (.+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {command: answer.strip("\n") for command, answer in zip(parts[::2], parts[1::2], strict=True)}


def tidy(text: str) -> str:
    """The text that a command printed or wrote without empty and drawn lines, its JSON and its long numbers
    rounded."""
    if text.startswith("{\n"):
        return _json(json.loads(text))
    text = LIST.sub(r"\1...", text)
    text = LONG.sub(lambda match: _rounded(float(match[0])), text.strip("\n"))
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip(" ─"))


def _rounded(number: float) -> str:
    return f"{number:.{DIGITS}g}"


def _json(value: Any, indent: str = "") -> str:
    """JSON, its parts on one line where they fit."""
    if isinstance(value, float):
        return _rounded(value)
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    inner = f"{indent} "
    if isinstance(value, dict):
        parts = [f'"{name}": {_json(part, inner)}' for name, part in value.items()]
        ends = "{}"
    else:
        parts = [_json(part, inner) for part in value]
        ends = "[]"
    line = ", ".join(parts)
    if "\n" not in line and len(indent) + len(line) < WIDTH:
        return ends[0] + line + ends[1]
    return f"{ends[0]}\n{inner}" + f",\n{inner}".join(parts) + ends[1]


def ask(command: str) -> str:
    """The answer of a command, then the files that it wrote."""
    out = io.StringIO()
    columns = {"COLUMNS": str(WIDTH)}
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, columns),
        mock.patch.object(output, "WIDTH", WIDTH),
    ):
        for name, text in FILES.items():
            Path(name).write_text(text, encoding="utf-8")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            status = cli.run(shlex.split(command))
        answer = tidy(out.getvalue())
        for path in sorted(Path().iterdir()):
            if path.name not in FILES:
                answer += f"\n{path.name}:\n{tidy(VERSIONED.sub('', path.read_text(encoding='utf-8')))}"
    if status != (2 if answer.startswith("error: ") else 0):
        answer += f"\nexit status {status}"
    return answer


def changes(before: str, now: str) -> list[str]:
    """Of each part that moved: its place, the old, the new, and by how much its numbers differ."""
    changed = []
    for place, was, is_ in _pairs(before, now):
        moved = _moved(was, is_)
        if moved is None or moved:
            changed.append(f"{place}: {was} -> {is_}" + (f"  ({', '.join(moved)})" if moved else ""))
    return changed


def _pairs(before: str, now: str) -> Iterator[tuple[str, str, str]]:
    """Place, old and new of each leaf of JSON, or of each line that may have moved."""
    try:
        trees = [dict(_leaves(json.loads(text), "")) for text in (before, now)]
        for place in trees[0] | trees[1]:
            yield place, *(tree.get(place, ABSENT) for tree in trees)
    except json.JSONDecodeError:
        old = before.splitlines()
        new = now.splitlines()
        for _, i, end, j, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if old[i:end] != new[j:stop]:
                lines = itertools.zip_longest(old[i:end], new[j:stop], fillvalue=ABSENT)
                yield from ((f"line {number}", *pair) for number, pair in enumerate(lines, i + 1))


def _leaves(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict | list) and value:
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(part, f"{place}.{name}" if place else str(name))
    else:
        yield place, json.dumps(value, ensure_ascii=False)


def _moved(was: str, now: str) -> list[str] | None:
    """By how much the numbers of a text moved; None where its words differ."""
    old = NUMBER.split(" ".join(was.split()))
    new = NUMBER.split(" ".join(now.split()))
    if old[::2] != new[::2]:
        return None
    pairs = [(_value(a), _value(b)) for a, b in zip(old[1::2], new[1::2], strict=True)]
    return [f"{(b / a - 1) * 100:+.3g} %" if a else f"+{b:g}" for a, b in pairs if not _same(a, b)]


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=TOLERANCE)


def write(more: list[str]) -> list[str]:
    """Rewrite the answers that moved, and add more commands; the commands whose answers are new."""
    before = read()
    now = {command: ask(command) for command in dict.fromkeys([*before, *more])}
    kept = {c: a if c not in before or changes(before[c], a) else before[c] for c, a in now.items()}

    def place(command: str) -> str:
        if kept[command].startswith("error: "):
            return REFUSED
        return command.split()[0]

    for path in FOLDER.glob("*.txt"):
        path.unlink()
    for name, commands in itertools.groupby(sorted(kept, key=place), place):
        text = "\n".join(f"$ {command}\n{kept[command]}\n" for command in commands)
        (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")
    return [command for command, answer in kept.items() if answer != before.get(command)]
