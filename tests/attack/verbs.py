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

import typer

from perfmodel import cli
from tests.attack import hostile, watch

ROOT = Path(__file__).parents[2]
_VALUES = f"""
--model llama-3.1-8b qwen3-30b-a3b deepseek-v2-lite qwen3-next-80b-a3b
--hardware h100 a100-sxm-80gb h200 mi300x
--batch 4 64 1,8,64 | 1 1000000 1..256 1..1000000 1,2,3,5,8
--context 16k 1000,32k | 1 1000000000 1..1000 128k
--gamma 3 auto 1..4 | 0 1 64 512 0..20
--tp 1 8 | 2 4 1,2,4,8
--alpha 0.8 | 0 1 1e-12 0.999999 0,0.5,1
--draft self llama-3.2-1b eagle ngram mtp medusa
--draft-kv streamingllm:512 quest:1024,page=32 snapkv:2k full | full streamingllm:1e9 quest:1,page=1 topk:1
--small llama-68m
--rates 0.7,0.1,0.05 | 1 0 1e-9,1e-10 0.5,0.5
--rate 0.8/0.7/0.6 self@snapkv:2k=0.8
--small-rate 0.7
--output out.csv out.parquet
--from {ROOT}/tests/validate/engine/files/vllm-forward.json
--out out.yaml
--plot out.svg
--weights fp8 int4-g128 | nvfp4 bf16,experts=mxfp4 int8-wo
--kv-dtype fp8
--calibration ideal h100-sxm-80gb.magicdec
--target 1.5 | 1 1e-9 100 1e9
--batch-range 32..64 | 1..1 1..1000000
--max-batch 64 | 1 100000
--baseline out.json
--results {ROOT}/results/cpu-1 .
--from-microbench {ROOT}/results/cpu-1
--url http://127.0.0.1:9
--machine t-1
--draft-tp 1 | 2 8
--acceptance-rate 0.5 | 0 1
--task code chat | none
--draft-weights fp8 int4-g128
--draft-kv-dtype fp8 int8
--ep 2 8 | 1
--dp 2 | 1 4
--context-std 1000 4k | 0
--stage target draft verify
--speedup 1.5 | 1 0.5 5
--hysteresis 0.01 | 0 0.2
--shares octaves equal
--missed 64 | 0
--dynamic-price 0.02 | 0
--small-kv streamingllm:256 full
--gamma-1 2 auto
--gamma-2 4 auto
--routing-independence 0.5 | 0 1
--fewer-experts 0.2 | 0
--fewer-experts-at 8
--request-rate 1 0.5,2
--max-concurrency 8,64 | 1 1000
--input-len 8k 1k
--output-len 500 64
--slo tpot:30 ttft:2000,tpot:30
--acceptance-std 0.1 | 0
--input-std 500 | 0
--output-std 100 | 0
--burstiness 0.5 | 4
--max-num-seqs 32 | 1
--max-num-batched-tokens 2048
--num-prompts 200
--seed 1
--engine vllm sglang trtllm
--tree 2x1 auto
--dtype fp32 fp64
--device cpu
--kv-reread | 1 1.5 4
--memory-fraction | 1e-9 0.01 1
--topk-reuse | 0 1
--max-gamma | 0 1 1000
--new-tokens | 1 100000 1000000000
--tokens-per-iteration | 1 2.5 4
--kv-page | 1 1000000
--price | 0 1e300 2.5
--max-tpot-ms | 1e-9 1e9
--objective | latency cost
--size | 1 2 4096
--levels | 1 2 64
--state-rollback | keep replay
"""
_PARTS = [line.partition(" | ")[::2] for line in _VALUES.strip().splitlines()]
GOOD = {good.split()[0]: tuple(good.split()[1:]) for good, _ in _PARTS if len(good.split()) > 1}
EDGES = {good.split()[0]: tuple(edges.split()) for good, edges in _PARTS if edges}
"""Flag -> good values, and such as are allowed at the ends of what is."""
OWN: dict[str, dict[str, str]] = {
    "explore": {"--output": "out.html"},
    "plot": {"--output": "out.svg"},
    "moe": {"--model": "qwen3-30b-a3b"},
    "plot surface": {"--batch": "1..64", "--context": "1k..64k"},
    "plot ratios": {"--context": "1k..64k"},
    "validate engine": {"--from": GOOD["--from"][0], "--draft-kv": "full", "--gamma": "3"},
    "validate check": {"--results": GOOD["--results"][0]},
    "validate acceptance": {"--context": "64", "--draft-kv": "streamingllm:32"},
    "validate generate": {"--context": "64", "--draft-kv": "streamingllm:32", "--batch": "2", "--gamma": "3"},
}
"""What a command or a group of them takes that others do not."""
NAMES = ("h100", "llama-3.1-8b", "ideal", "quest:512", "snapkv")
STANDING = {
    **dict.fromkeys(("validate measure", "validate microbench", "validate run"), "cpu-quick"),
    "validate report": "cpu-1",
    "validate calibrate": "h100-sxm-80gb.magicdec",
}
"""What stands without a flag, where it is of a kind of its own."""
ASK = ("--model", "--hardware", "--batch", "--context", "--draft-kv", "--alpha", "--gamma")
"""Given to every command that has them, so that it has something to answer."""
UNASKED = {"validate generate": ("--model", "--rates")}
"""But to these, which have a model of their own, or need another flag beside it."""
NEEDED = ("--output", "--small", "--small-rate", "--rates", "--target")
NEVER = {"--help", "--version"}
"""Not given: they answer whatever else is asked."""
PLACES = {"--output", "--out", "--plot", "--baseline", "--draft-path", "--model-path"}
"""Where something is written: only names of the folder that the suite works in."""
WORK = (
    "harness.side_by_side.compare", "harness.acceptance.measure", "harness.measure.run_plan",
    "harness.micro.run.run_micro", "studies.record.record", "studies.engines.make", "cli.trees.planned",
    "cli.accuracy.write_all", "cli.calibrate.write_all", "cli.measure.write",
)  # fmt: skip
"""Calls of perfmodel.validate with which minutes of work begin, or which write into the source tree: a command that
gets as far has accepted all its options, and ends there. What such work leaves behind the suite of faults attacks."""
SLOW = {
    **dict.fromkeys(("validate accuracy", "validate calibrate", "validate check", "plot"), 0.2),
    **dict.fromkeys(("explore", "validate compare"), 0.1),
    **dict.fromkeys(("sweep", "compare", "inflection"), 0.5),
}
"""Commands that draw or answer a grid get fewer inputs."""


@dataclass(frozen=True)
class Verb:
    """words: the command. options: flag -> whether it takes a value. arguments: how many stand without a flag."""

    words: tuple[str, ...]
    options: dict[str, bool]
    arguments: int

    @property
    def name(self) -> str:
        """As it is typed."""
        return " ".join(self.words)


@cache
def verbs() -> tuple[Verb, ...]:
    """Every command."""
    root: Any = typer.main.get_command(cli.app)
    return tuple(verb for name in cli.COMMANDS for verb in _below(root.get_command(None, name), (name,)))


def _below(command: Any, words: tuple[str, ...]) -> Iterator[Verb]:
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from _below(inner, (*words, name))
        return
    options = {p.opts[0]: not p.is_flag for p in command.params if p.opts[0].startswith("--")}
    yield Verb(words, options, sum(not p.opts[0].startswith("--") for p in command.params))


def command(rng: Random, verb: Verb) -> list[str]:
    """One command line: a good question with something wrong in it."""
    given = {flag: rng.choice((GOOD[flag][0], GOOD[flag][0], *GOOD[flag])) for flag in ASK if flag in verb.options}
    given |= {flag: GOOD[flag][0] for flag in NEEDED if flag in verb.options}
    given |= OWN.get(verb.words[0], {}) | OWN.get(verb.name, {})
    for flag in UNASKED.get(verb.name, ()):
        given.pop(flag)
    flags = [flag for flag in verb.options if flag not in NEVER]
    switches: list[str] = []
    for flag in rng.sample(flags, min(len(flags), rng.choice((1, 1, 1, 2, 3)))):
        known, edges = GOOD.get(flag, ("4", "0.5", "self")), EDGES.get(flag, ())
        if not verb.options[flag]:
            switches.append(flag)
        elif flag in PLACES:
            given[flag] = rng.choice((*known, "", "out.txt", "no/out.csv", "a\x00.csv", "x" * 300 + ".csv", "."))
        else:
            some = (*rng.sample(edges, min(2, len(edges))), rng.choice(known))
            given[flag] = rng.choice((hostile.value(rng), hostile.near(rng, rng.choice(known)), *some))
    if rng.random() < 0.03 and given:
        given.pop(rng.choice(list(given)))
    if "--json" in verb.options and rng.random() < 0.7:
        switches.append("--json")
    if "--overwrite" in verb.options:
        switches.append("--overwrite")
    free = [hostile.value(rng) for _ in range(verb.arguments)]
    known_names = (STANDING[verb.name],) * 9 if verb.name in STANDING else NAMES
    free = [rng.choice((text, *known_names)) for text in free]
    return [*verb.words, *(part for item in given.items() for part in item), *switches, *free]


def attack(tally: watch.Tally, seed: int, count: int) -> None:
    """Give each command its share of `count` command lines; all follow from the seed. Run it in a folder to lose."""
    each = count / sum(_share(verb) for verb in verbs())
    with _no_work():
        for verb in verbs():
            for number in range(max(2, round(each * _share(verb)))):
                refused, fault = watch.run(command(Random(f"{seed}:{verb.name}:{number}"), verb))
                for left in Path().iterdir():
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
                tally.count(verb.name, refused, fault and f"{fault} (seed {seed}, {number})")


@contextlib.contextmanager
def _no_work() -> Iterator[None]:
    """End a command with status 0 where its work would begin, and let no host be found."""

    def begun(*_: Any, **__: Any) -> None:
        raise typer.Exit(0)

    def nowhere(host: Any, *_: Any, **__: Any) -> None:
        str(host).encode("idna")
        raise socket.gaierror("no network here")

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch("socket.getaddrinfo", nowhere))
        for name in WORK:
            stack.enter_context(mock.patch(f"perfmodel.validate.{name}", begun))
        yield


def _share(verb: Verb) -> float:
    if not verb.arguments and len(verb.options) < 2:
        return 0.1  # nothing to spoil
    return SLOW.get(verb.name, SLOW.get(verb.words[0], 1.0))
