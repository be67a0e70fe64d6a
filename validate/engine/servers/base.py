"""The base class of engines for which --plan prints commands: how to start the server, print its version, run
its benchmark and find the results.
"""

import json
import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

SYNTHETIC = 0.8
"""The acceptance rate that is requested if an engine can simulate one. The time of an iteration does not
depend on it.
"""
OWN = ("ngram", "mtp")
"""Methods without an additional model."""
INSTALLED = """python3 -c 'from importlib.metadata import version; print(version("{}"))'"""
"""Shell command that prints the version of an engine, which its client does not write."""
REPEATED = "one two three four five six seven eight "
"""Text that the prompts for an n-gram draft repeat; it has eight tokens in most vocabularies. Random prompts
would contain no repetitions.
"""


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """The runs of a plan.

    - model, draft: the ids of the models for the engine.
    - question: the flags of the question for perfmodel.
    - records: the folder of records.
    - pretends: whether the engine can simulate an acceptance rate (vLLM's CPU backend cannot).
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
    """One engine.

    - word: the value of ``--engine`` for it, if this differs from the module's name.
    - client_rounds: prompts per place in the batch that the engine's own client sends; 0 if perfmodel's
      client sends them.
    - files: patterns of the files with the results. ``RECORDS`` means the records of perfmodel's client.
    """

    word: ClassVar[str] = ""
    client_rounds: ClassVar[int] = 0
    files: ClassVar[Sequence[str]] = ("RECORDS",)

    @abstractmethod
    def runs(self, request: BenchRequest, gamma: int, port: int) -> list[str]:
        """The shell lines for one draft length. They start the server, measure it and stop it."""

    def preparations(self, request: BenchRequest) -> list[str]:
        """The shell lines before all runs. They write prompts with repetitions if the draft needs them."""
        if not self.repeats(request):
            return []
        return [self._repeating(request, prompt) for prompt in request.prompts]

    def repeats(self, request: BenchRequest) -> bool:
        """Whether the prompts must contain repetitions and therefore come from a file."""
        return request.method == "ngram" and self.client_rounds > 0

    def version_probe(self, engine: str) -> str:
        """A shell command that prints the engine's version; empty if perfmodel's client asks the server."""
        return INSTALLED.format(engine) if self.client_rounds else ""

    def results(self, request: BenchRequest) -> list[str]:
        """Patterns of the files with the results of a plan."""
        records = f"{request.records}/engine-*-K*.json"
        return [records if pattern == "RECORDS" else pattern for pattern in self.files]

    def _repeating(self, request: BenchRequest, prompt: int) -> str:
        """A shell line that writes prompts of about `prompt` tokens. No two prompts begin with the same
        token.
        """
        times = -(-prompt // len(REPEATED.split()))
        most = self.client_rounds * max(request.batches)
        row = {"prompt": "@", "conversations": [{"content": "@"}, {"content": "ok"}]}
        text = f"{json.dumps(json.dumps(row))}.replace('@', f'{{n}} ' + {REPEATED!r} * {times})"
        loop = f"for n in range({most}): print({text})"
        return f"python3 -c {shlex.quote(loop)} > repeating-{prompt}.jsonl"


def with_server(words: list[str], port: int, runs: list[str]) -> list[str]:
    """Shell lines that start a server, run the clients once it answers, and stop it."""
    return [
        f"{shlex.join(words)} --port {port} & server=$!",
        f"until curl -sf http://127.0.0.1:{port}/health > /dev/null; do",
        "  kill -0 $server || break; sleep 2; done",
        *runs,
        "kill $server; wait $server",
    ]


def simulated_rates(gamma: int) -> list[float]:
    """The simulated acceptance: the share of iterations that accept the first drafted token, the first two
    tokens, and so on.
    """
    return [SYNTHETIC**j for j in range(1, gamma + 1)]


def driven(request: BenchRequest, gamma: int, port: int) -> str:
    """The command that measures a server with perfmodel's client."""
    words = ["perfmodel", "validate", "engine", *request.question]
    words += ["--batches", ",".join(map(str, request.batches))]
    words += ["--prompts", ",".join(map(str, request.prompts))]
    words += ["--gamma", str(gamma), "--engine", request.engine]
    words += ["--url", f"http://127.0.0.1:{port}"]
    return shlex.join(words)
