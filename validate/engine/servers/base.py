"""What a plan of runs needs of an engine: its server, its version, its benchmark and the files to read."""

import json
import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

SYNTHETIC = 0.8
"""Acceptance that is requested from an engine that can simulate it; the time of an iteration does not depend
on it.
"""
OWN = ("ngram", "mtp")
"""Methods without an additional model."""
INSTALLED = """python3 -c 'from importlib.metadata import version; print(version("{}"))'"""
"""Shell command that prints the version of an engine, which its client does not write."""
REPEATED = "one two three four five six seven eight "
"""Words that prompts for an n-gram draft repeat, eight tokens in most vocabularies. Random prompts would
repeat nothing.
"""


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """The runs to make. model, draft: their ids for the engine. question: the names in perfmodel.

    pretends: whether the engine can simulate acceptance at a rate (vLLM's CPU backend cannot).
    """

    model: str
    engine: str
    tp: int
    method: str
    draft: str | None
    gammas: tuple[int, ...]
    batches: tuple[int, ...]
    prompts: tuple[int, ...]
    new_tokens: int
    question: tuple[str, ...]
    records: str
    pretends: bool


class BenchServer(ABC):
    """One engine. word: of ``--engine`` in a plan, if it differs from the file's name.

    client_rounds: prompts per place of a run of the engine's own client; 0 if our driver sends them. files:
    patterns of the files with its results, where RECORDS are those of our driver.
    """

    word: ClassVar[str] = ""
    client_rounds: ClassVar[int] = 0
    files: ClassVar[Sequence[str]] = ("RECORDS",)

    @abstractmethod
    def runs(self, request: BenchRequest, gamma: int, port: int) -> list[str]:
        """Shell lines of one draft length: start the server, measure, stop it."""

    def preparations(self, request: BenchRequest) -> list[str]:
        """Shell lines before all runs: prompts that repeat themselves, if the draft needs such."""
        if not self.repeats(request):
            return []
        return [self._repeating(request, prompt) for prompt in request.prompts]

    def repeats(self, request: BenchRequest) -> bool:
        """Whether prompts must repeat themselves, and come from a file."""
        return request.method == "ngram" and self.client_rounds > 0

    def version_probe(self, engine: str) -> str:
        """Shell command that prints the engine's version; empty where our driver asks the server."""
        return INSTALLED.format(engine) if self.client_rounds else ""

    def results(self, request: BenchRequest) -> list[str]:
        """Patterns of the files with the results."""
        records = f"{request.records}/engine-*-K*.json"
        return [records if pattern == "RECORDS" else pattern for pattern in self.files]

    def _repeating(self, request: BenchRequest, prompt: int) -> str:
        """A line that writes prompts of about this many tokens, all different from the first token on."""
        times = -(-prompt // len(REPEATED.split()))
        most = self.client_rounds * max(request.batches)
        row = {"prompt": "@", "conversations": [{"content": "@"}, {"content": "ok"}]}
        text = f"{json.dumps(json.dumps(row))}.replace('@', f'{{n}} ' + {REPEATED!r} * {times})"
        loop = f"for n in range({most}): print({text})"
        return f"python3 -c {shlex.quote(loop)} > repeating-{prompt}.jsonl"


def with_server(words: list[str], port: int, runs: list[str]) -> list[str]:
    """Lines that start a server, run the clients once it answers, and stop it."""
    return [
        f"{shlex.join(words)} --port {port} & server=$!",
        f"until curl -sf http://127.0.0.1:{port}/health > /dev/null; do",
        "  kill -0 $server || break; sleep 2; done",
        *runs,
        "kill $server; wait $server",
    ]


def simulated_rates(gamma: int) -> list[float]:
    """Shares of iterations that accept the first drafted token, the first two ..., where they are
    pretended.
    """
    return [SYNTHETIC**j for j in range(1, gamma + 1)]


def driven(request: BenchRequest, gamma: int, port: int) -> str:
    """Our own client against the server."""
    words = ["perfmodel", "validate", "engine", *request.question]
    words += ["--batches", ",".join(map(str, request.batches))]
    words += ["--prompts", ",".join(map(str, request.prompts))]
    words += ["--gamma", str(gamma), "--engine", request.engine]
    words += ["--url", f"http://127.0.0.1:{port}"]
    return shlex.join(words)
