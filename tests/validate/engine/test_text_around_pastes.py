"""What a terminal, a container, a quotation or a locale adds to a pasted text changes nothing."""

import json
import re
import textwrap
import time

import pytest

from perfmodel.validate.engine.text import MAX_COUNT, plain
from tests.validate.engine.pasting import NAMES, pasted, sample

LOG_LINES = (
    "(APIServer pid=7) INFO 06-01 10:00:00 [loggers.py:87] Engine 000: Avg prompt throughput: 12.0 tokens/s, "
    "Avg generation throughput: 512.3 tokens/s, Running: 8 reqs, Waiting: 0 reqs, GPU KV cache usage: 3.1%",
    "[2026-01-11 10:00:01 TP0] Decode batch, #running-req: 8, #token: 9216, token usage: 0.02, "
    "accept len: 2.43, accept rate: 0.48, cuda graph: True, gen throughput (token/s): 812.10, #queue-req: 0",
)
PREFIXES = {
    "a quotation": "> ",
    "a container": "vllm-1  | ",
    "a time": "2026-11-02T10:00:00.123Z ",
    "a journal": "Nov 02 10:00:00 host vllm[12]: ",
    "a block of code": "    ",
}
"""What puts it there -> what stands before every line."""


def test_colours_container_names_and_decimal_commas_change_nothing(monkeypatch, capsys) -> None:
    plain = sample("llama_bench")
    german = re.sub(r"(\d)\.(\d+ ±) (\d+)\.(\d)", r"\1,\2 \3,\4", plain)
    coloured = "\n".join(f"bench-1  | \x1b[32m{line}\x1b[0m" for line in plain.splitlines())
    assert "," in german
    _, expected = pasted(monkeypatch, capsys, plain, "--from", "-")
    assert pasted(monkeypatch, capsys, german, "--from", "-")[1] == expected
    assert pasted(monkeypatch, capsys, coloured, "--from", "-")[1] == expected


def test_a_log_line_that_begins_with_a_date_in_brackets_is_no_json(monkeypatch, capsys) -> None:
    status, out = pasted(monkeypatch, capsys, "[2026-01-11 10:00:01] The server is fired up\n", "--from", "-")
    assert status == 2
    assert "is the start of a server" in out


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_what_stands_before_every_line_changes_nothing(name: str, prefix: str) -> None:
    lines = plain(sample(name)).splitlines()
    assert plain("\n".join(f"{prefix}{line}" for line in sample(name).splitlines())).splitlines() == lines
    assert plain(f"```text\n{sample(name)}```").splitlines() == lines


@pytest.mark.parametrize("at_words", [False, True])
@pytest.mark.parametrize("line", LOG_LINES)
def test_a_log_that_a_terminal_or_an_editor_broke_is_read_as_a_whole(line: str, at_words: bool) -> None:
    columns = textwrap.wrap(line, 80) if at_words else [line[i : i + 80] for i in range(0, len(line), 80)]
    assert len(columns) > 2
    broken = "\n".join(["a line of another program", *columns, *columns])
    assert plain(broken).splitlines() == ["a line of another program", line, line]


def test_lines_in_a_log_file_of_docker_are_those_of_the_program() -> None:
    text = sample("llama_server_log")
    records = [json.dumps({"log": f"{line}\n", "stream": "stderr"}) for line in text.splitlines()]
    assert plain("\n".join(records)) == plain(text.rstrip("\n"))
    torn = "\n".join([*records, '{"log": "eval ti'])
    assert plain(torn) == plain(text.rstrip("\n"))
    mixed = "\n".join([records[0], "eval ti", *records])
    assert plain(mixed) == mixed


@pytest.mark.parametrize("sign", ["-", ".", "1", " ", "\n"])
def test_a_long_run_of_one_character_is_read_in_seconds(monkeypatch, capsys, sign: str) -> None:
    _, expected = pasted(monkeypatch, capsys, "vllm serve x", "--from", "-")
    start = time.perf_counter()
    _, out = pasted(monkeypatch, capsys, f"vllm serve x\n{sign * 30_000}\n", "--from", "-")
    assert time.perf_counter() - start < 8
    assert out.split(" --engine ")[0] == expected.split(" --engine ")[0]


def test_a_count_of_hundreds_of_digits_is_not_read_as_a_small_one() -> None:
    """The readers refuse numbers above `MAX_COUNT`."""
    assert float(plain("1" + "0" * 300)) > MAX_COUNT
