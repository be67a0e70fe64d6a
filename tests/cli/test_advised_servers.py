"""The command lines of `advise`: the words before each, and the number of servers to start."""

import pytest

from perfmodel import cli

CLIENTS = "--hardware 8xh200 --clients 32 --input-len 4000 --output-len 500"
ROUTER = "Start 2 of these behind a router:"


def test_each_line_says_what_it_starts_and_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    """The choice is one server, and an alternative has two."""
    cli.run(("advise", *f"-m deepseek-v3.1 {CLIENTS}".split()))
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("Start ") for line in lines) == 1
    choice = lines.index("The choice, without a draft:")
    assert lines[choice + 1].startswith("vllm serve ")
    router = lines.index(ROUTER)
    assert ": 2 x TP 4, " in lines[router - 1]
    assert lines[router + 1].startswith("vllm serve ")
