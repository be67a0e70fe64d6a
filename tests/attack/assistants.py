"""Calls of an assistant with arguments that nobody should send, and with files that it must not repeat."""

import json
from pathlib import Path
from random import Random
from typing import Any

from perfmodel.answers.declaration import arguments
from perfmodel.cli.tool import TOOLS, called
from tests.attack import hostile, watch

SECRET = "hunter2"
FILES = {
    "device.yaml": f"name: {SECRET}\n{SECRET}: {SECRET}\n",
    "config.json": json.dumps({"model_type": SECRET, SECRET: SECRET}),
    "rows.json": json.dumps({"schema_version": 1, "source": "x", "rows": [{SECRET: SECRET}]}),
    "mix.yaml": f"classes: {{{SECRET}: {{share: {SECRET}}}}}\n",
    "trace.csv": f"arrival_s,input_tokens,output_tokens\n{SECRET},1,{SECRET}\n",
    "text": f"{SECRET}\n",
}
"""Files of the folder that an assistant may read; a refusal must not have their words."""
ELSEWHERE = ("/etc/passwd", "/proc/self/environ", "/dev/zero", "..", ".", "~", "/", "\ud800", "a\0b")
LISTS: tuple[Any, ...] = (
    [1] * 100_000,
    list(range(1, 900)),
    "1..1000000",
    {"a": {"b": [1] * 50}},
    [[1, 2], [3]],
)
USUAL: tuple[Any, ...] = (1, 2, 0.5, "2", "4k", "h200", "qwen3-8b", "ngram", [1, 2])
QUESTIONS: dict[str, dict[str, Any]] = {
    "whatif": {"batch": 4, "context": "32k", "gamma": 2, "alpha": 0.8, "draft": "eagle3"},
    "advise": {"context": "16k", "batch": "1..8", "rate": {"eagle": "0.7/0.6", "self@snapkv:1k": 0.8}},
    "schedule": {"context": "4k", "draft": "ngram", "rate": "0.4x3", "max_batch": 8},
    "traffic": {"input_len": "2k", "output_len": 200, "request_rate": 1, "draft": "eagle", "alpha": 0.7},
}


def attack(tally: watch.Tally, folder: Path, seed: int, count: int) -> None:
    """Calls of all tools, a few arguments of each spoiled."""
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    for number in range(count):
        rng = Random(f"{seed}:assistants:{number}")
        tool = rng.choice(list(TOOLS))
        arguments = _spoiled(rng, tool, folder)
        answers: list[dict[str, Any]] = []
        _, fault = watch.read(lambda: answers.append(called(tool, arguments, folder)))  # noqa: B023
        fault = fault or _wrong(answers[0])
        refused = bool(answers) and "answer" not in answers[0]
        tally.count(
            "perfmodel mcp", refused, fault and f"{fault}: {tool} {arguments!r:.300} (seed {seed}, {number})"
        )


def _spoiled(rng: Random, tool: str, folder: Path) -> dict[str, Any]:
    given = {"model": "llama-3.1-8b", "hardware": "h100"} | QUESTIONS[tool]
    names = [*given, *arguments(TOOLS[tool].question), *arguments(TOOLS[tool].question)]
    files = [str(folder / name) for name in FILES]
    for _ in range(rng.choice((1, 1, 2, 3))):
        kinds = (USUAL, USUAL, hostile.VALUES, (*FILES, *files), ELSEWHERE, LISTS, (hostile.value(rng),))
        given[rng.choice(names)] = rng.choice(rng.choice(kinds))
    return given


def _wrong(result: dict[str, Any]) -> str | None:
    """What is wrong with a result."""
    text = result["text"]
    if "answer" in result:
        try:
            json.dumps(result["answer"], allow_nan=False)
        except (TypeError, ValueError) as error:
            return f"not JSON: {error}"
        return None
    if not text.isprintable() or len(text) > watch.LONGEST:
        return f"not one line: {text[:200]!r}"
    return f"repeats a file: {text!r}" if SECRET in text or "root:" in text else None
