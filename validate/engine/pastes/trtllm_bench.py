"""The report that ``trtllm-bench throughput`` prints about a run: mean lengths, times and tokens per
iteration.
"""

import re

from perfmodel.errors import InputError
from perfmodel.validate.engine.formats.fields import of_client
from perfmodel.validate.engine.pastes.base import TextForm, number
from perfmodel.validate.engine.timing import GivenFacts, RequestLengths, Timing, needed, speculation

_TITLE = re.compile(r"Average time-per-output-token \[TPOT\]|Total Output Throughput \(tokens/sec\)")
FIGURES = {
    "prompt": r"Average Input Length \(tokens\)",
    "output": r"Average Output Length \(tokens\)",
    "requests": r"Number of requests",
    "batch": r"Number of concurrent requests",
    "tpot_ms": r"Average time-per-output-token \[TPOT\] \(ms\)",
    "ttft_ms": r"Average time-to-first-token \[TTFT\] \(ms\)",
    "gained": r"\[AR\] AVERAGE",
}
"""Figure -> the words before it. The report calls the tokens per iteration AR."""


class TrtllmBench(TextForm):
    """A report is one run. Its concurrency is the mean number of concurrent requests."""

    title = "report of trtllm-bench"
    engine = "trtllm"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return _TITLE.search(text) is not None

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`. Reports of runs without streaming have no TPOT and are refused."""
        figures = {name: _figure(where, text, name) for name in FIGURES}
        tpot_ms = figures["tpot_ms"]
        if not tpot_ms:
            raise InputError(f"{where}: holds no TPOT: run trtllm-bench with --streaming")
        requests = figures["requests"]
        if requests is None:
            raise InputError(f"{where}: Number of requests: must stand in the report: paste all of it")
        ttft_ms = figures["ttft_ms"]
        lengths = RequestLengths(
            needed(where, "input", facts.input or figures["prompt"]),
            needed(where, "output", facts.output or figures["output"]),
        )
        batch = needed(where, "batch", facts.batch or figures["batch"])
        drafted = speculation(where, facts, figures["gained"], None)
        ttft_s = None if ttft_ms is None else ttft_ms / 1e3
        return [of_client(where, tpot_ms / 1e3, drafted, batch, lengths, ttft_s, requests)]


def _figure(where: str, text: str, name: str) -> float | None:
    """One figure of the report; None if it is not printed."""
    printed = re.search(rf"{FIGURES[name]}:\s+(\S+)", text)
    return number(where, name, printed[1]) if printed else None
