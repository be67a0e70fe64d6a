"""The table that ``genai-perf profile`` and ``aiperf profile`` print, with one row per metric and one column
per statistic.
"""

import re
from collections.abc import Mapping

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import of_client
from perfmodel.validate.engine.pastes.base import TextForm, number
from perfmodel.validate.engine.timing import GivenFacts, RequestLengths, Timing, needed, speculation

_EDGE = re.compile("[┃│|]")
_TITLE = re.compile(r"(?:GenAI-Perf|AIPerf) \| LLM Metrics", re.I)
_UNIT = re.compile(r"\s*\(.*\)$")
MIDDLE = ("p50", "avg")
"""Columns of the typical value. The first one that is printed is used."""
Metrics = Mapping[str, Mapping[str, str]]


class GenAIPerf(TextForm):
    """A table is one run. It does not have the concurrency. The user gives it with ``batch=N``, or it is
    requests per second times latency.
    """

    title = "table of genai-perf or aiperf"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return _TITLE.search(text) is not None

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        metrics = _metrics(text)
        tpot_ms = _value(where, metrics, "inter token latency")
        if not tpot_ms:
            raise refuse(where, "inter token latency", "printed, and above 0", tpot_ms)
        ttft_ms = _value(where, metrics, "time to first token")
        prompt = _value(where, metrics, "input sequence length") or facts.input
        output = _value(where, metrics, "output sequence length") or facts.output
        lengths = RequestLengths(needed(where, "input", prompt), needed(where, "output", output))
        batch = needed(where, "batch", facts.batch or _in_flight(where, metrics))
        prompts = _value(where, metrics, "request count") or batch
        drafted = speculation(where, facts, None, None)
        ttft_s = None if ttft_ms is None else ttft_ms / 1e3
        return [of_client(where, tpot_ms / 1e3, drafted, batch, lengths, ttft_s, prompts)]


def _metrics(text: str) -> Metrics:
    """Metric in small letters without its unit -> column -> cell. In a narrow terminal, a long name continues
    in the next row, whose other cells are empty.
    """
    columns: list[str] = []
    names: list[str] = []
    figures: list[list[str]] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in _EDGE.split(line)[1:-1]]
        if len(cells) < 2:
            continue
        name, *row = cells
        if not columns:
            columns = [cell.lower() for cell in row]
        elif names and not any(row):
            names[-1] += f" {name}"
        else:
            names.append(name)
            figures.append(row)
    metrics: dict[str, dict[str, str]] = {}
    for name, row in zip(names, figures, strict=True):
        metrics.setdefault(_UNIT.sub("", name).lower(), dict(zip(columns, row, strict=False)))
    return metrics


def _value(where: str, metrics: Metrics, name: str, columns: tuple[str, ...] = MIDDLE) -> float | None:
    """The figure of a metric; None if the table has none."""
    row = metrics.get(name, {})
    cell = next((row[column] for column in columns if row.get(column, "N/A") not in ("N/A", "")), None)
    return None if cell is None else number(where, name, cell.replace(",", ""))


def _in_flight(where: str, metrics: Metrics) -> float | None:
    """The mean number of concurrent requests, by Little's law; None if a figure for it is missing."""
    rate = _value(where, metrics, "request throughput", ("avg",))
    latency_ms = _value(where, metrics, "request latency", ("avg",))
    return None if rate is None or latency_ms is None else round(rate * latency_ms / 1e3, 1)
