"""The tables that GuideLLM (0.2 to 0.8) prints, each with one row per concurrency."""

import re
from collections.abc import Iterator, Mapping

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import of_client
from perfmodel.validate.engine.pastes.base import TextForm, number
from perfmodel.validate.engine.timing import GivenFacts, RequestLengths, Timing, needed, speculation

_COLUMNS = {
    "tpot": ("ITL (ms) median", "ITL ms Mdn"),
    "ttft": ("TTFT (ms) median", "TTFT ms Mdn"),
    "prompt": ("Prompt Tok/Req Comp", "Input Tok Per Req Mdn"),
    "output": ("Output Tok/Req Comp", "Output Tok Per Req Mdn"),
    "concurrency": ("Request Stats Concurrency", "Requests Concurrency Mean"),
    "prompts": ("Requests Made Comp", "Requests Comp Tot"),
    "failed": ("Requests Made Err", "Requests Err Tot"),
}
"""Figure -> its column heading in 0.2 and 0.3, and from 0.4 on."""
_RULE = re.compile(r"^[|\s]*[-=][-=|\s]*$")
_STREAMS = re.compile(r"concurrent@(\d+)")
_NUMBER = re.compile(r"[\d.]+")
"""The number at the start of a cell. A margin (``3.2 ± 0.1``) or a mark (``3.3*``) may follow."""
Cells = list[str]


class GuideLLMTable(TextForm):
    """Rows with the same first cell belong to one benchmark. A table may be missing if the command line
    states its figures.
    """

    title = "tables of guidellm"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        titles = ("Benchmarks Stats:", "Benchmarks Info:", "Request Latency Statistics", "Run Summary Info")
        return any(title in text for title in titles)

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        benchmarks: dict[str, dict[str, str]] = {}
        for name, row in _rows(text):
            benchmarks.setdefault(name, {}).update(row)
        if not any(set(_COLUMNS["tpot"]) & set(row) for row in benchmarks.values()):
            raise refuse(where, "ITL (ms)", "in the tables: copy those of latencies and tokens", None)
        return [_step(f"{where}: {name}", name, row, facts) for name, row in benchmarks.items()]


def _step(where: str, name: str, row: Mapping[str, str], facts: GivenFacts) -> Timing:
    """The step of one benchmark.

    - row: heading of a column -> cell, over all tables.
    """

    def figure(name: str) -> float | None:
        heads = _COLUMNS[name]
        cell = next((row[head] for head in heads if head in row), None)
        if cell is None:
            return None
        printed = _NUMBER.match(cell)
        return number(where, heads[0], printed[0] if printed else cell)

    failed = figure("failed")
    if failed:
        raise refuse(where, "Err", "0 failed requests (the others shared a smaller batch)", int(failed))
    streams = _STREAMS.match(name)
    concurrency = float(streams[1]) if streams else facts.batch or figure("concurrency")
    prompt = needed(where, "input", figure("prompt") or facts.input)
    output = needed(where, "output", figure("output") or facts.output)
    batch = needed(where, "batch", concurrency)
    tpot_ms = figure("tpot")
    if not tpot_ms:
        raise refuse(where, "ITL (ms)", "a time above 0", tpot_ms)
    ttft_ms = figure("ttft")
    ttft_s = None if ttft_ms is None else ttft_ms / 1e3
    prompts = figure("prompts") or batch
    drafted = speculation(where, facts, None, None)
    return of_client(where, tpot_ms / 1e3, drafted, batch, RequestLengths(prompt, output), ttft_s, prompts)


def _rows(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The first cell of each row of all tables, and its other cells by heading.

    A table begins with several heading lines between two rules. Its rows end at a third rule.
    """
    head_lines: list[Cells] = []
    heads: Cells = []
    for line in text.splitlines():
        if _RULE.match(line):
            heads = [] if heads else _joined(head_lines)
            head_lines = []
        elif "|" not in line:
            heads = []
            head_lines = []
        elif heads:
            cells = [cell.strip() for cell in _cells(line)]
            if len(cells) == len(heads):
                yield cells[0], dict(zip(heads[1:], cells[1:], strict=True))
        else:
            head_lines.append(_cells(line))


def _cells(line: str) -> Cells:
    """The cells of a line, with or without bars at its ends."""
    bare = line.strip()
    framed = bare.startswith("|")
    return bare.removeprefix("|").removesuffix("|").split("|") if framed else bare.split("|")


def _joined(lines: list[Cells]) -> Cells:
    """The heading of each column. A cell without any width continues the cell before it. There are no
    headings if the lines have different numbers of cells.
    """
    if not lines or len({len(cells) for cells in lines}) > 1:
        return []
    filled = []
    for cells in lines:
        last = ""
        row = []
        for cell in cells:
            last = cell.strip() if cell else last
            row.append(last)
        filled.append(row)
    return [" ".join(filter(None, column)) for column in zip(*filled, strict=True)]
