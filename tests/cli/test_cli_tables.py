"""What is printed for people: on a terminal of 80 columns no number is broken, and what is piped is plain
text.
"""

import shlex
import sys
from collections.abc import Callable

import pytest

from tests.commands import examples, run

LLAMA = "--model llama-3.1-8b --hardware h100"
FILES = ("plot", "validate", "sweep", "explore", "mcp", "calibrations import")
COMMANDS = [
    *(
        f"{verb} {flags}"
        for verb, flags in examples().items()
        if not verb.startswith(FILES) and " show" not in verb
    ),
    f"whatif {LLAMA} --batch 16,64,256 --context 32k,128k --alpha 0.8 --sensitivity",
    f"whatif {LLAMA} --batch 64 --context 32k --verbose",
    f"advise {LLAMA} --context 32k --verbose",
]


def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns that knows no colours."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


def words(text: str) -> set[str]:
    return {word.rstrip(",") for word in text.split() if set(word) != {"─"}}


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_broken_at_80_columns(command, capsys, monkeypatch) -> None:
    """Every word and number of the narrow output stands whole in the wide one, and no line is too long."""
    piped = run(capsys, *shlex.split(command))
    assert all(line == line.rstrip() for line in piped.splitlines())
    assert "\x1b" not in piped
    narrow(monkeypatch)
    shown = run(capsys, *shlex.split(command))
    assert words(shown.replace("not shown in 80 columns:", "")) <= words(piped)
    pasted = ("vllm serve ", "python -m sglang.", "proposed [bs_lo")
    assert max(len(line.rstrip()) for line in shown.splitlines() if not line.startswith(pasted)) <= 80


def test_what_does_not_fit_says_so_first_and_never_in_green(capsys, monkeypatch) -> None:
    arguments = shlex.split("whatif --model llama-3.1-8b --hardware h100 --batch 8 --context 64k --alpha 0.8")
    assert (
        run(capsys, *arguments).splitlines()[1] == "Does not fit in memory; would pay: at most batch 6 fits"
    )
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    line = next(line for line in run(capsys, *arguments).splitlines() if "Does not fit" in line)
    assert line.startswith("\x1b[1;31m")


# What stands beside the numbers: what they rest on, what to know, and what to type instead.

Out = Callable[[str], str]


@pytest.fixture
def out(capsys: pytest.CaptureFixture[str]) -> Out:
    return lambda line: run(capsys, *shlex.split(line))


def test_lines_are_whole_where_no_terminal_is(out: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    command = f"whatif {LLAMA} --batch 8 --context 32k --gamma 3 --alpha 0.8"
    whole = out(command)
    monkeypatch.setenv("COLUMNS", "60")
    narrow = out(command)
    assert max(map(len, narrow.splitlines())) <= 60 < 112 < max(map(len, whole.splitlines()))
    assert narrow.split() == whole.split()
