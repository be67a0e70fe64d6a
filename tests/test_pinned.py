"""Answers stay as they are: a few hundred questions of every verb with all of its options, and what they
gave.

A change that is meant is written down by ``python -m tests.test_pinned``; the tests say before which answers
moved. ``python -m tests.test_pinned "whatif --model ..."`` adds a question.
"""

import contextlib
import io
import json
import math
import re
import shlex
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer

from perfmodel import cli
from perfmodel.answers.answer import Rows
from perfmodel.cli import output
from perfmodel.cli.output import print_json
from tests.attack import verbs

PATH = Path(__file__).with_name("pinned.json")
TOLERANCE = 1e-6
DRAWING = ("plot", "explore", "validate")
"""Verbs that draw or measure."""
VERSIONED = re.compile(re.escape(version("perfmodel")) + "|[0-9a-f]{32}")
"""What a release changes in a report."""
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
    "x.json": (PATH.parent / "validate/engine/files/vllm-forward.json").read_text(encoding="utf-8"),
    "trace.csv": "arrival_s,input_tokens,output_tokens\n0,900,40\n0.5,3000,1\n0.6,100,300\n2,5000,64\n",
}
PINNED: dict[str, dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8"))
"""Question -> what it gave."""


def _shown(answer: Any, json: bool, text: Any) -> None:
    """In place of `output.show`: an answer as text, as a notebook has it, and in JSON."""
    text(answer)
    typer.echo("\n".join(map(repr, answer if isinstance(answer, Rows) else [answer])))
    typer.echo(f"{answer!r}\n{answer._repr_html_()}")
    print_json(answer.as_dict())


def answer(question: Sequence[str]) -> dict[str, Any]:
    """What a command gives: exit status, and of each part of the JSON, and of the text, a sum that any change
    moves.

    Of one that is refused what it says.
    """
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, text in FILES.items():
            Path(name).write_text(text, encoding="utf-8")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            as_it_is = output.show.__code__, output.PIPED, output.WIDTH
            output.show.__code__ = _shown.__code__
            output.PIPED = output.WIDTH = (10_000, 100, 60)[len(question) % 3]
            try:
                status = cli.run(question)
            finally:
                output.show.__code__, output.PIPED, output.WIDTH = as_it_is
        made = [path for path in sorted(Path().iterdir()) if path.name not in FILES]
        written = {path.name: VERSIONED.sub("", path.read_text(encoding="utf-8")) for path in made}
    if status == 2:
        return {"error": out.getvalue() + err.getvalue()} | dict.fromkeys(written, "is left behind")
    said, brace, told = out.getvalue().partition("\n{\n")
    parts = {"text": said} | (json.loads("{" + told) if brace else {})
    parts |= {name: json.loads(text) for name, text in written.items() if name.endswith(".json")}
    parts |= {
        name: list(map(_cells, text.splitlines())) for name, text in written.items() if name.endswith(".csv")
    }
    found = {"status": [float(status), zlib.crc32(err.getvalue().encode())]}
    for name, part in parts.items():
        numbers, words = list(_leaves(part, True)), "\n".join(map(str, _leaves(part, False)))
        total = sum((1 + i / 1000) * (math.log(abs(x)) + (x < 0)) for i, x in enumerate(numbers) if x)
        found[str(name)] = [float(f"{total:.12g}"), zlib.crc32(words.encode())]
    return found


def _cells(line: str) -> list[Any]:
    return [
        float(cell) if re.fullmatch(r"-?\d+(\.\d*)?(e-?\d+)?", cell) else cell
        for cell in line.strip().split(",")
    ]


def _leaves(value: Any, numbers: bool) -> Iterator[Any]:
    """The numbers of a tree, or its keys and everything else."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from () if numbers else (name,)
            yield from _leaves(inner, numbers)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, numbers)
    elif (type(value) in (int, float)) == numbers:
        yield value


@pytest.mark.parametrize("number", range(len(PINNED)))
def test_an_answer_is_what_it_was(number: int) -> None:
    question, before = list(PINNED.items())[number]
    if question.startswith(("validate generate", "validate acceptance")):
        pytest.importorskip("torch")
    now = answer(shlex.split(question))
    assert now.pop("error", None) == before.get("error")
    sums = {name: one for name, one in before.items() if name != "error"}
    moved = [name for name in sums if sums[name] != pytest.approx(now.get(name), rel=1e-9, abs=TOLERANCE)]
    assert (moved, sorted(now)) == ([], sorted(sums)), question


def test_every_verb_that_answers_and_every_option_is_asked() -> None:
    asking = [
        v for v in verbs.verbs() if v.words[0] not in DRAWING and v.words[-1] not in ("check", "import")
    ]
    assert not [
        v.name for v in asking if not any(f"{question} ".startswith(f"{v.name} ") for question in PINNED)
    ]
    asked = {word for question in PINNED for word in question.split() if word.startswith("--")}
    assert {flag for v in asking for flag in v.options} - verbs.NEVER - verbs.PLACES <= asked


if __name__ == "__main__":
    every = PINNED | {question: answer(shlex.split(question)) for question in sys.argv[1:] or PINNED}
    lines = (f"{json.dumps(q)}: {json.dumps(given, separators=(',', ':'))}" for q, given in every.items())
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
