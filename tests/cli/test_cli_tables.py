"""What is printed for people: on a terminal of 80 columns no number is broken, and what is piped is plain text."""

import re
import shlex
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.cli import output
from perfmodel.cli.output import Column
from tests.commands import read, run

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
SHORT = """
llama-3.1-8b on 8 x a100-sxm-80gb, drafted by itself through streamingllm:512;
batch 64, context 32768, gamma 2
Speculation pays: 2.04x (no interval: this calibration states no scatter)
why         an iteration saves 25.96 ms of baseline decoding (2.44 tokens;
            limited by KV), more than the 3.51 ms it adds, of which draft steps:
            2.89 ms
time        8.83 ms per token, 7,249 tokens/s, 21.54 ms an iteration; baseline
            18.03 ms per token, 3,549 tokens/s
memory      36.91 GB of 73.60 GB a device: fits; the largest batch is 131
best        gamma 5 at this batch (2.41x); highest throughput: 9,413 tokens/s at
            batch 131, gamma 6 (2.58x)
acceptance  0.80, 2.44 tokens per iteration (as given); breaks even at 0.17
engine      none; calibration ideal (ideal); --verbose has each pass and more
warning: draft_kv was not given: the self-draft reads streamingllm:512
""".splitlines()[1:]


def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns that knows no colours."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


def words(text: str) -> set[str]:
    return {word for word in text.split() if set(word) != {"─"}}


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_broken_at_80_columns(command, capsys, monkeypatch) -> None:
    """Every word and number of the narrow output stands whole in the wide one, and no line is too long."""
    piped = run(capsys, *shlex.split(command))
    assert all(line == line.rstrip() for line in piped.splitlines())
    assert "\x1b" not in piped
    narrow(monkeypatch)
    shown = run(capsys, *shlex.split(command))
    *told, left_out = (
        re.split("not shown in 80 columns: (.*(?:\n .*)*)", shown) if "not shown" in shown else [shown, ""]
    )
    assert words("".join(told[::2]) + left_out) <= words(piped)
    assert max(len(line.rstrip()) for line in shown.splitlines() if not line.startswith("vllm serve ")) <= 80


def test_columns_that_do_not_fit_are_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    narrow(monkeypatch)
    text = run(capsys, "gpus", "list")
    assert text.splitlines()[-1] == "not shown in 80 columns: fp32 TFLOP/s, fp4 TFLOP/s, LLC MB, link GB/s"
    assert "fp32" not in text.splitlines()[1]
    assert "tp" in run(capsys, "advise", *A100.split(), "--context", "32k").split()


def test_lengths_at_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    narrow(monkeypatch)
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


def test_an_answer_in_short_at_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line of what is piped is a fact; all of today's panel is a flag away."""
    narrow(monkeypatch)
    text = run(
        capsys, *shlex.split(f"whatif {A100} --batch 64 --context 32k --gamma 2 --alpha 0.8 --calibration ideal")
    )
    assert [line.rstrip() for line in text.splitlines()] == SHORT
    assert len(text.splitlines()) <= 20


def test_verbose_adds_what_there_is_of_the_passes(capsys: pytest.CaptureFixture[str]) -> None:
    asked = f"whatif {A100} --batch 64 --context 32k --draft-kv streamingllm:512 --verbose --gamma"
    rows = {gamma: run(capsys, *shlex.split(f"{asked} {gamma}")) for gamma in ("0", "2", "2 --engine magicdec")}
    named = {gamma: {re.split("  +", line.strip())[0] for line in text.splitlines()} for gamma, text in rows.items()}
    always = {"one pass", "baseline step", "baseline", "memory-bound context", "a device holds", "largest batch"}
    drafting = {"draft step", "verification", "cost ratios", "break-even context", "inflection context", "draft set-up"}
    assert always <= named["0"]
    assert not drafting & named["0"]
    assert always | drafting | {"tokens"} <= named["2"]
    assert named["2 --engine magicdec"] - named["2"] >= {"fitted on"}


def test_what_does_not_fit_says_so_first_and_never_in_green(capsys, monkeypatch) -> None:
    asked = shlex.split("whatif --model llama-3.1-8b --hardware h100 --batch 8 --context 64k --alpha 0.8")
    assert run(capsys, *asked).splitlines()[1] == "Does not fit in memory; would pay: at most batch 6 fits"
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    line = next(line for line in run(capsys, *asked).splitlines() if "Does not fit" in line)
    assert line.startswith("\x1b[1;31m")


def test_a_warning_of_a_table_names_what_it_is_of(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, *shlex.split(f"whatif {A100} --batch 16,256 --context 32k --gamma 2 --alpha 0.8"))
    assert "warning: batch 256, context 32768, gamma 2: batch 256 does not fit in 73.6 GB" in text
    assert "warning: draft_kv was not given" in text  # of all points


def test_advice_shows_the_best_baseline_once_and_one_gain(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where it is the runner-up; a gain is always over the best baseline."""
    arguments = shlex.split("advise --model llama-3.1-8b --hardware h100 --context 32k --draft eagle3")
    found, text = read(capsys, *arguments), run(capsys, *arguments)
    assert found["runner_up"] == found["baseline"]
    rows = [line.split() for line in text.splitlines() if line.endswith("x")]
    gain = found["robustness"]["gain_over_baseline"]
    assert [(row[0], row[-1]) for row in rows] == [("chosen", f"{gain:.2f}x"), ("runner-up", "1.00x")]
    assert f"{gain:.2f} times the best baseline" in text


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
