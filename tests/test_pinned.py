"""Answers stay as they are: a few hundred questions of every verb, each drawn from its options, and what they gave.

A change that is meant is written down by ``python -m tests.test_pinned``; the tests say before which answers moved.
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
from importlib.metadata import version
from pathlib import Path
from random import Random
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
DRAWN = {
    "whatif": 90, "schedule": 120, "traffic": 110, "advise": 80, "sweep": 30, "serving": 40, "compare": 30, "tree": 20,
    "inflection": 20, "inverse": 20, "hierarchy": 12, "moe": 24, "ops": 24, "models show": 4, "gpus show": 4,
    "kv show": 4,
}  # fmt: skip
"""Questions of a verb; 2 of all others."""
VERSIONED = re.compile(re.escape(version("perfmodel")) + "|[0-9a-f]{32}")
"""What a release changes in a report."""
UNASKED = {*verbs.NEVER, *verbs.PLACES, "--json", "--results"} - {"--draft-path", "--model-path"}
NAMED = {
    "models show": ("qwen3-30b-a3b", "deepseek-v3.2", "gpt-oss-120b", "qwen3-next-80b-a3b"),
    "gpus show": ("h100", "mi300x", "l40s", "b200"),
    "kv show": ("quest:512", "snapkv:1k", "pqcache:64,subvectors=2", "streamingllm:512,copy=false"),
    "calibrations show": ("ideal", "h100-sxm-80gb.vllm"),
}
LISTS = {
    **dict.fromkeys(("inverse", "tree", "hierarchy", "advise"), ("--batch",)),
    **dict.fromkeys(("schedule", "compare"), ("--context",)),
    "whatif": ("--batch", "--context"),
    "sweep": ("--batch", "--context", "--alpha"),
    "traffic": ("--request-rate", "--max-concurrency"),
}
"""Options that may be lists."""
NEEDED = {
    "traffic": ("--request-rate", "--input-len", "--output-len", "--draft", "--tp"), "schedule": ("--draft", "--tp"),
    "advise": ("--tp",), "serving": ("--draft",),
}  # fmt: skip
EITHER = (
    {"--alpha", "--acceptance-rate", "--tokens-per-iteration", "--rate", "--task", "--acceptance"},
    {"--request-rate", "--max-concurrency", "--report"}, {"--engine", "--calibration"}, {"--draft", "--draft-kv"},
    {"--draft-tp", "--tp"}, {"--gamma", "--tokens-per-iteration"}, {"--gamma", "--acceptance-rate"},
    {"--fewer-experts", "--routing-independence"},
)  # fmt: skip
"""Of these one is asked."""
FILES = {
    "rows.json": """{"schema_version": 1, "source": "a file", "rows": [
        {"target": "llama-3.1-8b", "draft": "self", "draft_kv": "streamingllm", "kv_budget_tokens": 512,
         "context_tokens": 2000, "positions": [0.9, 0.8, 0.6]},
        {"target": "llama-3.1-8b", "draft": "self", "draft_kv": "streamingllm", "kv_budget_tokens": 512,
         "context_tokens": 32000, "histogram": [3, 2, 2, 5]}]}""",
    "trace.csv": "arrival_s,input_tokens,output_tokens\n0,900,40\n0.5,3000,1\n0.6,100,300\n2,5000,64\n",
}
_VALUES = """
--model: llama-3.1-8b | gpt-oss-120b | deepseek-r1 | qwen3-32b | gemma-3-27b | deepseek-v3.2 | qwen3-next-80b-a3b \
| llama-3.1-8b | llama-3.1-70b | qwen3-8b
--hardware: h100 | a100-sxm-80gb | h200 | mi300x | b200 | h100 | l40s
--batch: 1 | 4 | 16 | 64 | 200 | 1,8,64 | 4,300
--context: 1k | 4k | 16k | 32k | 100k | 1000,32k | 8k,20k,100k
--alpha: 0.3 | 0.6 | 0.8 | 0.8 | 0.95 | 0.5,0.9
--gamma: 1 | 2 | 3 | 5 | auto | auto | 0
--tp: 1 | 2 | 8
--draft-kv: full | full | streamingllm:512 | quest:1024,page=32 | snapkv:2k
--draft: self --draft-kv streamingllm:512 | self --draft-kv quest:1024,page=32 | self --draft-kv snapkv:2k \
| llama-3.2-1b | eagle | ngram | mtp | medusa | dflash | eagle3 | eagle3 | suffix | dspark | parallel:llama-3.2-1b \
| eagle3 --draft-kv streamingllm:512 | eagle --draft-kv streamingllm:512
--draft-tp: 2 --tp 2 | 1 --tp 2
--tokens-per-iteration: 1.5 --gamma 2 | 2.5 --gamma 4
--acceptance-rate: 0.5 --gamma 3 | 0.9 --gamma 2
--rate: 0.7 | 0.8/0.7/0.6 | 0.5x3
--context-std: 100 | 500
--kv-reread: 1 | 1.5
--size: 16 | 64
--task: code | chat
--max-gamma: 1 | 4 | 12
--max-batch: 40 | 100
--objective: latency | cost --price 2
--engine: vllm | sglang | trtllm | sglang | sglang@0.5.9 | vllm@0.10.2 | magicdec
--draft-path: some/head
--model-path: some/model
--acceptance: rows.json
--trace: trace.csv
--report: report.json --request-rate 1 | report.json --max-concurrency 8
--max-concurrency: 8,64 | 1 | 300
--request-rate: 1 | 0.5,2 | 0.1,4,20
--slo: tpot:30 | ttft:2000,tpot:30 | e2e:20000,tpot:50 | ttft:400
--max-tpot-ms: 8 | 20 | 40
--price: 2.5 | 10
--input-std: 500 | 100
--output-std: 30
--max-num-seqs: 32 | 8
--num-prompts: 50 | 200
advise --rate: eagle=0.7 | self@streamingllm:512=0.85 --rate ngram=0.4x3 | ngram=0.2x2 \
| eagle3=0.8/0.7/0.6 --rate self@quest:1024=0.9 | llama-3.2-1b=tree:0.6/0.12/0.05 --rate eagle=0.3
advise --draft: eagle3 | self | ngram --draft mtp
moe --model: qwen3-30b-a3b | deepseek-r1 | gpt-oss-120b
moe --gamma: 3 | 1
serving --gamma: 4 | 2 | auto
schedule --gamma: auto
schedule --tp: 8 --draft-path some/head | 8 --max-batch 40 | 2 --max-batch 100 --draft-path some/head
schedule --request-rate: 1 | 8
compare --gamma: 3 | 2,5
compare --max-gamma: 8
inverse --gamma: 1 | 3 | auto
tree --kv-reread: 1
hierarchy --draft-kv: streamingllm:512 | quest:1024,page=32
hierarchy --tokens-per-iteration: 2.5 --gamma-2 3 | 2 --gamma-2 2,3
traffic --gamma: auto | table | 3 | 0,2,5 | table,1
sweep --output: out.csv
sweep --gamma: 0,2 | 3 | auto
"""
ASKED = {flag: values.split(" | ") for flag, _, values in (v.partition(": ") for v in _VALUES.strip().splitlines())}
"""Flag, or verb and flag -> what is asked; of others what `verbs` knows."""
COMMON = {flag for verb in verbs.verbs() if verb.name == "ops" for flag in verb.options} - {"--stage"}


@cache
def questions() -> tuple[tuple[str, ...], ...]:
    """Command lines of all verbs that answer at once; the same in every run."""
    return tuple(
        tuple(_question(Random(f"{verb.name}:{number}"), verb, number))
        for verb in verbs.verbs()
        if verb.words[0] not in ("plot", "explore", "validate") and verb.words[-1] not in ("check", "import")
        for number in range(DRAWN.get(verb.name, 2))
    )


def _question(rng: Random, verb: verbs.Verb, number: int) -> Iterator[str]:
    may = LISTS.get(verb.name, ())

    def values(flag: str) -> list[str]:
        known = ASKED.get(flag) or (*verbs.GOOD.get(flag, ()), *verbs.EDGES.get(flag, ()))
        return ASKED.get(f"{verb.name} {flag}") or [value for value in known if flag in may or _one(value)]

    asked: dict[str, str] = {}
    needed = [flag for flag in (*verbs.ASK, *verbs.NEEDED, *NEEDED.get(verb.name, ())) if flag in verb.options]
    free = [flag for flag in verb.options if flag not in {*UNASKED, *needed}]
    own = [flag for flag in free if flag not in COMMON]
    more = [*rng.sample(free, min(len(free), rng.choice((0, 1, 2)))), *rng.sample(own, min(len(own), number % 3))]
    for flag in (*needed, *more):
        if not verb.options[flag]:
            asked[flag] = ""
        elif found := values(flag):
            asked = {other: text for other, text in asked.items() if not any({flag, other} <= one for one in EITHER)}
            asked |= {flag: rng.choice(found)} | (
                {"--tp": "8", "--model": "gpt-oss-120b"} if flag in ("--ep", "--dp") else {}
            )
    if not number % 4 and verb.name not in ("schedule", "serving", "hierarchy"):
        asked.pop("--alpha", None)  # that is looked up then
    yield from verb.words
    yield from (part for flag, text in asked.items() for part in f"{flag} {text}".split())
    yield from NAMED.get(verb.name, ())[number : number + 1]
    yield from ["--json"] * (len(verb.words) > 1 and number % 2)


def _one(value: str) -> bool:
    """No list of numbers."""
    return re.match(r"\d[\d.]*k?(,|\.\.)", value) is None


def _shown(answer: Any, json: bool, text: Any) -> None:
    """In place of `output.show`: an answer as text, as a notebook has it, and in JSON."""
    text(answer)
    typer.echo("\n".join(map(repr, answer if isinstance(answer, Rows) else [answer])))
    typer.echo(f"{answer!r}\n{answer._repr_html_()}")
    print_json(answer.as_dict())


def answer(question: tuple[str, ...]) -> dict[str, list[float]]:
    """What a command gives: exit status, and of each part of the JSON, and of the text, a sum that any change moves."""
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
    said, brace, told = out.getvalue().partition("\n{\n")
    parts = {"text": said} | (json.loads("{" + told) if brace else {})
    parts |= {name: json.loads(text) for name, text in written.items() if name.endswith(".json")}
    parts |= {name: list(map(_cells, text.splitlines())) for name, text in written.items() if name.endswith(".csv")}
    found = {"status": [float(status), zlib.crc32(err.getvalue().encode())]}
    for name, part in parts.items():
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


@cache
def _pinned() -> dict[str, Any]:
    return json.loads(PATH.read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", range(len(questions())))
def test_an_answer_is_what_it_was(number: int) -> None:
    question = questions()[number]
    before, now = _pinned()[" ".join(question)], answer(question)
    moved = [name for name in before if before[name] != pytest.approx(now.get(name), rel=1e-9, abs=TOLERANCE)]
    assert (moved, sorted(now)) == ([], sorted(before)), " ".join(question)


if __name__ == "__main__":
    lines = (f"{json.dumps(' '.join(q))}: {json.dumps(answer(q), separators=(',', ':'))}" for q in questions())
    PATH.write_text("{\n" + ",\n".join(dict.fromkeys(lines)) + "\n}\n", encoding="utf-8")
