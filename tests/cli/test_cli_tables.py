"""What is printed for people: on a terminal of 80 columns no number is broken, and what is piped is plain text."""

import shlex
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.cli import output
from perfmodel.cli.output import Column
from tests.commands import run

A100 = "--model llama-3.1-8b --hardware a100 --tp 8"
COMMANDS = [
    "gpus list",
    "models list",
    "calibrations list",
    "kv list",
    f"ops {A100} --batch 64 --context 32k",
    "ops --model qwen3-30b-a3b --hardware h100 --batch 64 --context 32k",
    f"whatif {A100} --batch 64 --context 32k --sensitivity",
    f"whatif {A100} --batch 64 --context 32k --verbose",
    f"whatif {A100} --batch 16,64,256 --context 32k,128k --alpha 0.8",
    f"inflection {A100} --batch 16,64,256 --gamma 2,3 --alpha 0.8",
    f"inverse {A100} --batch 64 --context 32k --alpha 0.8",
    f"advise {A100} --context 32k --verbose",
    f"schedule {A100} --context 32k --draft eagle --alpha 0.7",
    f"tree {A100} --batch 1,8 --context 4k,64k --draft llama-3.2-1b --rates 0.6,0.2,0.1",
    "moe --model qwen3-30b-a3b --hardware h100 --tp 4 --context 4k --gamma 3 --draft eagle --alpha 0.8",
    "serving --model llama-3.1-8b --hardware h100 --batch 20 --context 2k,16k,40k --alpha 0.85,0.5 --gamma 3",
    "compare --model llama-3.1-70b --hardware h100 --tp 8 --context 128k --gamma 4 --alpha 0.76 --draft eagle",
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
    assert max(len(line.rstrip()) for line in shown.splitlines() if not line.startswith("vllm serve ")) <= 80


def test_a_table_at_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    narrow(monkeypatch)
    text = run(capsys, "gpus", "list")
    assert text.splitlines()[-1] == "not shown in 80 columns: fp32 TFLOP/s, fp4 TFLOP/s, LLC MB, link GB/s"
    assert "fp32" not in text.splitlines()[1]
    lines = run(capsys, *shlex.split(f"inflection {A100} --batch 16 --gamma 2 --alpha 0.8 --calibration ideal"))
    assert [line.rstrip() for line in lines.splitlines()] == [
        "",
        " " * 68 + "inflection",
        " batch   gamma   calibration   memory-bound from   breaks even at           at",
        " " + "─" * 77,
        " 16          2   ideal                         1            4,393        4,507",
        "",
        "drafted by self through streamingllm:512",
    ]


def test_what_does_not_fit_says_so_first_and_never_in_green(capsys, monkeypatch) -> None:
    asked = shlex.split("whatif --model llama-3.1-8b --hardware h100 --batch 8 --context 64k --alpha 0.8")
    assert run(capsys, *asked).splitlines()[1] == "Does not fit in memory; would pay: at most batch 6 fits"
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    line = next(line for line in run(capsys, *asked).splitlines() if "Does not fit" in line)
    assert line.startswith("\x1b[1;31m")


@given(st.data())
def test_columns_are_never_narrower_than_what_cannot_be_broken(data: st.DataObject) -> None:
    """And use the room there is: as wide as the whole cells where these fit, never wider than cells and heading."""
    cell = st.text("ab1 .", max_size=30)
    count = data.draw(st.integers(1, 6))
    columns = [Column(data.draw(cell), data.draw(st.booleans())) for _ in range(count)]
    cells = [data.draw(st.lists(cell, max_size=4)) for _ in range(count)]
    sizes = [output._Sizes.of(*pair) for pair in zip(columns, cells, strict=True)]
    room = data.draw(st.integers(0, 200))
    widths = output._widths(sizes, room)
    for column, size, width, lines in zip(columns, sizes, widths, cells, strict=True):
        assert size.least <= width <= size.heading
        assert column.left or width >= max(map(len, lines), default=0)
    assert sum(widths) <= max(room, sum(s.least for s in sizes))
    if sum(s.heading for s in sizes) <= room:
        assert widths == [s.heading for s in sizes]
