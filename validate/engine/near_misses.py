"""Says what a text lacks that has no format known here, but is about a run of an engine."""

import re

from perfmodel.validate.engine.pastes.base import RATE_HEADING

TWO_LINES = "'without: 33 tok/s' and 'with MTP (n=3): 52 tok/s, accept rate 0.7'"
BY_LOAD = "'concurrency=8: TPOT 9.9 ms', below a line 'Baseline' or 'MTP (n=3), accept length 2.4'"

_TIMES = re.compile(r"\b(?:tpot|time per output token|itl)\b", re.I)
_RATE = re.compile(r"\d\s*(?:tokens?|toks?|t)/s", re.I)
_RATIO = re.compile(r"\d\s?(?:x|×|times)(?![a-z])|\d ?% (?:faster|slower|speedup)|\bspeedup\b", re.I)
_LACKING = (
    (
        re.compile(r"CUDA out of memory|OutOfMemoryError|failed to allocate|Traceback \(most recent call"),
        "is an error of the engine, without a speed: whether a server fits in memory is in the answer of "
        "`perfmodel whatif`",
    ),
    (
        re.compile(r"(?:Mean|Median|P99) (?:E2EL?|TTFT|End-to-End)|Output token throughput \(tok/s\)", re.I),
        "is a part of a benchmark's result without the TPOT: paste the part with 'Median TPOT (ms)' too",
    ),
    (
        re.compile(r"Starting (?:main )?benchmark|Maximum request concurrency|Traffic request rate"),
        "is a benchmark without its result: paste the block 'Serving Benchmark Result' at its end",
    ),
    (
        re.compile(r"NVIDIA-SMI|rocm-smi|Volatile GPU-Util"),
        "is the state of the device, without a speed: paste the server's log or its page of metrics",
    ),
    (
        re.compile(
            r"Application startup complete|Uvicorn running|server is (?:listening|fired up)|model loaded"
        ),
        "is the start of a server: send requests, and paste the log lines that state tokens per second",
    ),
)
"""A pattern of a text, and what this text lacks."""


def lacking(text: str) -> str:
    """What a text lacks, in words; empty for a text about something else."""
    for pattern, words in _LACKING:
        if pattern.search(text):
            return words
    if _TIMES.search(text) and len(re.findall(r"\d ?ms\b", text)) > 2:
        return f"states more than two times: write one line for each load, {BY_LOAD}"
    if len(_RATE.findall(text)) > 1:
        return f"states several speeds, but not which one has a draft: write {TWO_LINES}"
    if _RATIO.search(text) and not RATE_HEADING.search(text):
        return (
            f"states a ratio without speeds: write {TWO_LINES}; the predicted ratio is in the answer of "
            "`perfmodel whatif`"
        )
    return ""
