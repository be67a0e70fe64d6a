"""Answers stay as they are: a few hundred questions of every verb, each drawn from its options, and what they gave.

A change that is meant is written down by ``python -m tests.test_pinned``; the commit then shows which answers moved.
"""

import contextlib
import io
import json
import math
import re
import tempfile
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from perfmodel import cli
from perfmodel.cli import output
from tests.attack import verbs

PATH = Path(__file__).with_name("pinned.json")
EACH, TOLERANCE = 20, 1e-6
DRAWN = {
    "models show": 4,
    "gpus show": 4,
    "kv show": 4,
    "calibrations show": 2,
    "advise": 10,
    "compare": 10,
    "sweep": 12,
}
UNASKED = {*verbs.NEVER, *verbs.PLACES, "--json", "--results"}
NAMED = {
    "models show": ("qwen3-30b-a3b", "deepseek-v3.2", "gpt-oss-120b", "qwen3-next-80b-a3b"),
    "gpus show": ("h100", "mi300x", "l40s", "b200"),
    "kv show": ("quest:512", "snapkv:1k", "pqcache:64,subvectors=2", "streamingllm:512,copy=false"),
    "calibrations show": ("ideal", "h100-sxm-80gb.vllm"),
}
LISTS = ("inverse", "tree", "traffic", "sweep")
MUST = {
    "schedule": {"--tp": "8"},
    "moe": {"--model": "qwen3-30b-a3b", "--gamma": "3"},
    "compare": {"--gamma": "3"},
    "serving": {"--gamma": "4"},
    "sweep": {"--output": "out.csv"},
}
EITHER = (
    {"--alpha", "--acceptance-rate", "--tokens-per-iteration", "--rate", "--task"},
    {"--request-rate", "--max-concurrency"},
)
"""Of these one is asked."""
OTHER = {
    "--model": (
        *("llama-3.1-8b", "gpt-oss-120b", "deepseek-r1", "qwen3-32b", "gemma-3-27b", "deepseek-v3.2"),
        "qwen3-next-80b-a3b",
    ),
    "--draft": ("self", "llama-3.2-1b", "eagle", "ngram", "mtp", "medusa", "self", "dflash"),
}


@cache
def questions() -> tuple[tuple[str, ...], ...]:
    """Command lines of all verbs that answer at once; the same in every run."""
    return tuple(
        tuple(_question(Random(f"{verb.name}:{number}"), verb, number))
        for verb in verbs.verbs()
        if verb.words[0] not in ("plot", "explore", "validate") and verb.words[-1] not in ("check", "import")
        for number in range(DRAWN.get(verb.name, EACH) if len(verb.options) > 1 or verb.arguments else 1)
    )


def _question(rng: Random, verb: verbs.Verb, number: int) -> Iterator[str]:
    known = {
        flag: [v for v in values if _one(v) or verb.name in LISTS] for flag, values in (verbs.GOOD | OTHER).items()
    }
    needed = (
        *verbs.ASK,
        *verbs.NEEDED,
        *(("--request-rate", "--input-len", "--output-len") * (verb.name == "traffic")),
    )
    asked = {flag: rng.choice(known[flag]) for flag in needed if flag in verb.options} | MUST.get(verb.name, {})
    free = [flag for flag in verb.options if flag not in UNASKED]
    for flag in rng.sample(free, min(len(free), rng.choice((0, 1, 2, 3, 4)))):
        values = [*known.get(flag, ()), *filter(_one, verbs.EDGES.get(flag, ()))]
        if not verb.options[flag]:
            asked[flag] = ""
        elif values:
            asked = {other: text for other, text in asked.items() if not any({flag, other} <= one for one in EITHER)}
            asked |= {flag: rng.choice(values)} | ({"--tp": "8"} if flag in ("--ep", "--dp") else {})
    yield from verb.words
    yield from (part for item in asked.items() for part in item if part)
    yield from NAMED.get(verb.name, ())[number : number + 1]
    if "--json" in verb.options and number % 4:
        yield "--json"


def _one(value: str) -> bool:
    """No list of numbers."""
    return re.match(r"\d[\d.]*k?(,|\.\.)", value) is None


def answer(question: tuple[str, ...]) -> dict[str, list[float]]:
    """What a command gives: exit status, and of each part of the JSON, or of the text, a sum that any change moves."""
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.run(question)
        written = {path.name: path.read_text(encoding="utf-8").splitlines() for path in Path().glob("*.csv")}
    tables = {name: [_cells(line) for line in lines] for name, lines in written.items()}
    found = {"status": [float(status), zlib.crc32(err.getvalue().encode())]}
    parts = json.loads(out.getvalue()) if out.getvalue().startswith(("{", "[")) else {"text": out.getvalue()}
    for name, part in (parts | tables).items() if isinstance(parts, dict) else enumerate(parts):
        numbers, words = list(_leaves(part, True)), "\n".join(map(str, _leaves(part, False)))
        total = sum((1 + i / 1000) * (math.log(abs(x)) + (x < 0)) for i, x in enumerate(numbers) if x)
        found[str(name)] = [float(f"{total:.12g}"), zlib.crc32(words.encode())]
    return found


def _cells(line: str) -> list[Any]:
    return [float(cell) if re.fullmatch(r"-?\d+(\.\d*)?(e-?\d+)?", cell) else cell for cell in line.strip().split(",")]


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


@pytest.mark.parametrize("number", range(len(questions())))
def test_an_answer_is_what_it_was(number: int) -> None:
    question = questions()[number]
    before, now = json.loads(PATH.read_text(encoding="utf-8"))[" ".join(question)], answer(question)
    moved = [name for name in before if before[name] != pytest.approx(now.get(name), rel=1e-9, abs=TOLERANCE)]
    assert (moved, sorted(now)) == ([], sorted(before)), " ".join(question)


if __name__ == "__main__":
    output.PIPED = output.WIDTH = 10_000  # as in all tests
    lines = (f"{json.dumps(' '.join(q))}: {json.dumps(answer(q))}" for q in dict.fromkeys(questions()))
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
