"""Every command and every option of the command line, with one to three values that nobody should give."""

import contextlib
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import click

from perfmodel import cli
from tests import pinned
from tests.attack import hostile, watch
from tests.scripts import ROOT, of_docs

UNANSWERED = f"""
explore --model llama-3.1-8b --hardware h100 --output out.html
serve --model llama-3.1-8b --hardware h100 --draft eagle3 --gamma 3 --host 127.0.0.1 --port 0
gpus list --json
models list
kv list --json
calibrations list
engines list --json
engines show vllm --json
engines check vllm --json
gpus check h100 --json
models check llama-3.1-8b
kv check quest:512
calibrations check ideal
calibrations import h100.yaml out --gpu h100 --engine vllm --version 0.20.0 --out out.yaml
validate generate --context 64 --draft-kv streamingllm:32 --batch 2 --gamma 3 --alpha 0.8 \
--dtype fp64 --device cpu
validate measure cpu-quick --machine t-1 --hardware h100 --calibration ideal --results .
validate microbench cpu-quick --machine t-1 --hardware h100 --results {ROOT}/results/cpu-1
validate run cpu-quick --machine t-1 --hardware h100 --out out.yaml
validate finish x.journal
validate report cpu-1 --calibration ideal --hardware h100 --results {ROOT}/results
validate plans
validate acceptance --context 64 --draft-kv streamingllm:32 --batch 4 --gamma 3 \
--target llama-3.1-8b --dtype fp32
validate engine --model llama-3.1-8b --hardware h100 --draft-kv full --gamma 3 --out out.yaml \
--from {ROOT}/tests/validate/engine/files/vllm-forward.json
validate engine --model llama-3.1-8b --hardware h100 --draft ngram --new-tokens 12 --engine vllm --url http://127.0.0.1:9
validate compare --set magicdec --row 3c-13 --results {ROOT}/results --plot out.svg
validate calibrate h100-sxm-80gb.magicdec --hardware h100 --from-microbench {ROOT}/results/cpu-1 \
--out out.yaml
validate check --results {ROOT}/results/cpu-1 --baseline out.json --calibration ideal
validate accuracy
"""
"""Command lines of the verbs of which no answer is pinned and no picture is shown."""
RACKS = """
whatif --model deepseek-v3 --hardware h200 --tp 16 --ep 16 --dp 16 --nodes 2x8 --batch 64 --context 4k \
--draft mtp --gamma 1 --alpha 0.8 --redundant-experts 16 --overlap two-batch --all-to-all dispatch \
--moe-imbalance 1.3
whatif --model llama-3.1-405b --hardware h100 --tp 8 --pp 2 --nodes 2x8 --batch 8 --context 8k --draft \
ngram --rate 0.4x3 --gamma 3
tree --model llama-3.1-70b --hardware h200 --tp 8 --nodes 1x8 --batch 4 --context 4k --draft eagle3 \
--rates 0.6,0.15 --size 16
advise --model deepseek-v3 --hardware h200 --gpus 16 --nodes 2x8 --context 4k --batch 64
advise --model deepseek-v3 --hardware h200 --gpus 32 --clients 512 --input-len 4k --output-len 500 \
--max-ttft-ms 2000
traffic --model deepseek-v3 --hardware h200 --tp 16 --ep 16 --dp 16 --nodes 2x8 --input-len 4k \
--output-len 200 --gamma 1 --draft mtp --alpha 0.7 --max-concurrency 8,64 --closed-form
traffic --model deepseek-v3 --hardware h200 --prefill 2x8 --decode 1x16:dp16,ep16 --kv-link 25 \
--decode-draft mtp --request-rate 5 --input-len 4k --output-len 500 --draft mtp --alpha 0.7 --gamma 0,1 \
--price 2
traffic --model qwen3-8b --hardware b200 --prefill 1x1 --decode 2x1 --clients 1,64 --input-len 1k \
--output-len 99 --draft eagle3 --alpha 0.6 --decode-draft ngram --prefill-draft none --slo ttft:500
"""
"""Questions about several nodes and pools, beside those that are pinned."""
FILES = ("rows.json", "trace.csv", "mix.yaml")
"""Files that questions name."""
NAMES = ("h100", "llama-3.1-8b", "ideal", "quest:512", "snapkv")
NEVER = {"--help", "--version"}
"""Not given: they answer whatever else is asked."""
PLACES = {"--output", "--out", "--plot", "--baseline", "--draft-path", "--model-path"}
"""Where something is written: only names of the folder that the suite works in."""
WORK = (
    "harness.side_by_side.compare",
    "harness.acceptance.measure",
    "harness.measure.run_plan",
    "harness.micro.run.run_micro",
    "studies.record.record",
    "studies.engines.make",
    "cli.accuracy.write_all",
    "cli.calibrate.write_all",
    "cli.report.write",
)
"""Calls of perfmodel.validate with which minutes of work begin, or which write into the source tree: a
command that gets as far has accepted all its options, and ends there. What such work leaves behind the suite
of faults attacks.
"""
SERVES = {"mcp", "serve"}
"""Commands that take nothing but what comes over stdin."""
SLOW = {
    **dict.fromkeys(("validate accuracy", "validate calibrate", "validate check", "plot"), 0.2),
    **dict.fromkeys(("explore", "validate compare"), 0.1),
    **dict.fromkeys(("sweep", "compare", "inflection"), 0.5),
}
"""Commands that draw or answer a grid get fewer inputs."""


@dataclass(frozen=True, eq=False)
class Verb:
    """words: the command. options: flag -> whether it takes a value."""

    words: tuple[str, ...]
    options: dict[str, bool]

    @property
    def name(self) -> str:
        """As it is typed."""
        return " ".join(self.words)

    def read(self, line: str) -> tuple[dict[str, str | None], list[str]]:
        """Flag -> value (None of a switch), and what stands without a flag, of a command line of this
        verb.
        """
        words = iter(line.split()[len(self.words) :])
        values: dict[str, str | None] = {}
        free = []
        for word in words:
            if word.startswith("--"):
                values[word] = next(words) if self.options.get(word, True) else None  # an alias takes a value
            else:
                free.append(word)
        return values, free


@cache
def verbs() -> tuple[Verb, ...]:
    """Every command."""
    names = (name for name in cli.COMMANDS if name not in SERVES)
    return tuple(verb for name in names for verb in _below(cli.command(name), (name,)))


def _below(command: Any, words: tuple[str, ...]) -> Iterator[Verb]:
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from _below(inner, (*words, name))
        return
    yield Verb(words, {p.opts[0]: not p.is_flag for p in command.params if p.opts[0].startswith("--")})


@cache
def read_questions(verb: Verb) -> list[tuple[dict[str, str | None], list[str]]]:
    """Good command lines of a verb, read: pinned questions, pictures of the docs, and those of
    `UNANSWERED`.
    """
    pictures = (
        f"{line} --output out.svg" for line in of_docs("picture").PICTURES.values() if line[:5] == "plot "
    )
    refused = pinned.refused()
    answered = (line for line in pinned.read() if line not in refused)
    lines = [*answered, *pictures, *UNANSWERED.strip().splitlines(), *RACKS.strip().splitlines()]
    return [verb.read(line) for line in lines if f"{line} ".startswith(f"{verb.name} ")]


@cache
def known() -> dict[str, list[str]]:
    """Flag -> values that are given somewhere."""
    values: dict[str, dict[str, None]] = {}
    for given, _ in (line for verb in verbs() for line in read_questions(verb)):
        for flag, value in given.items():
            values.setdefault(flag, {})[value or ""] = None
    return {flag: list(of) for flag, of in values.items()}


def command(rng: Random, verb: Verb) -> list[str]:
    """One command line: a good question with something wrong in it."""
    before, standing = rng.choice(read_questions(verb))
    given = dict(before)
    flags = [flag for flag in verb.options if flag not in NEVER]
    for flag in rng.sample(flags, min(len(flags), rng.choice((1, 1, 1, 2, 3)))):
        good = rng.choice(known().get(flag, ["4", "0.5", "self"]))
        if not verb.options[flag]:
            given[flag] = None
        elif flag in PLACES:
            given[flag] = rng.choice(
                (good, "", "out.txt", "no/out.csv", "a\x00.csv", "x" * 300 + ".csv", ".")
            )
        else:
            given[flag] = rng.choice((hostile.value(rng), hostile.near(rng, good), good))
    if rng.random() < 0.03 and given:
        given.pop(rng.choice(list(given)))
    given |= {flag: None for flag in ("--json", "--overwrite") if flag in verb.options and rng.random() < 0.7}
    free = [rng.choice((hostile.value(rng), word, word, word, rng.choice(NAMES))) for word in standing]
    return [*verb.words, *(word for item in given.items() for word in item if word is not None), *free]


def attack(tally: watch.Tally, seed: int, count: int) -> None:
    """Give each command its share of `count` command lines; all follow from the seed. Run it in a folder to
    lose.
    """
    each = count / sum(_share(verb) for verb in verbs())
    with _no_work():
        for verb in verbs():
            for number in range(max(2, round(each * _share(verb)))):
                for name in FILES:
                    Path(name).write_text(pinned.FILES[name], encoding="utf-8")
                refused, fault = watch.run(command(Random(f"{seed}:{verb.name}:{number}"), verb))
                for left in Path().iterdir():
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
                tally.count(verb.name, refused, fault and f"{fault} (seed {seed}, {number})")


@contextlib.contextmanager
def _no_work() -> Iterator[None]:
    """End a command with status 0 where its work would begin, and let no host be found."""

    def begun(*_: Any, **__: Any) -> None:
        raise click.exceptions.Exit(0)

    def nowhere(host: Any, *_: Any, **__: Any) -> None:
        str(host).encode("idna")
        raise socket.gaierror("no network here")

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch("socket.getaddrinfo", nowhere))
        stack.enter_context(mock.patch("perfmodel.cli.serve.server", begun))
        for name in WORK:
            stack.enter_context(mock.patch(f"perfmodel.validate.{name}", begun))
        yield


def _share(verb: Verb) -> float:
    if len(verb.options) < 2 and not any(free for _, free in read_questions(verb)):
        return 0.1  # nothing to spoil
    return SLOW.get(verb.name, SLOW.get(verb.words[0], 1.0))
