"""What is printed for people: on a terminal of 80 columns no number is broken, and what is piped is plain
text.
"""

import re
import shlex
import sys
from pathlib import Path

import pytest

from perfmodel import cli
from perfmodel.cli import output
from tests.commands import examples, run

LLAMA = "--model llama-3.1-8b --hardware h100"
FILES = ("plot", "validate", "sweep", "explore", "mcp", "serve", "calibrations import")
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


RED = "\x1b[1;31m"
YELLOW = "\x1b[1;33m"
WAITS = "6 of 8 requests run at once, 2 wait; too close to call"
NO_ROOM = "Does not fit in memory: not one sequence fits (with more memory it would likely pay off)"


@pytest.mark.parametrize(
    ("options", "first", "colour"),
    [
        ("--batch 8 --context 64k --alpha 0.8", WAITS, YELLOW),
        ("--batch 8 --context 500k --max-model-len 600k --alpha 0.8", NO_ROOM, RED),
    ],
)
def test_what_does_not_fit_says_so_first_and_never_in_green(
    options, first, colour, capsys, monkeypatch
) -> None:
    arguments = shlex.split(f"whatif --model llama-3.1-8b --hardware h100 {options}")
    assert run(capsys, *arguments).splitlines()[1] == first
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    line = next(line for line in run(capsys, *arguments).splitlines() if first[:20] in line)
    assert line.startswith(colour)


TABLE = (
    "draft",
    output.Column("TPOT", spare=1),
    "",
    output.Column("tokens/s", spare=3),
    output.Column("why it is so", True),
    output.Column("best gamma", spare=2),
)
ROWS = (
    ("eagle3 streamingllm:512", "7.25 ms", "", "1,350", "limited by the KV cache of all requests", "3"),
    ("none", "12.00 ms", "", "94", "", "0"),
)
LAYOUTS = re.split(
    r"^=+ (.+)\n", Path(__file__).with_name("layouts.txt").read_text("utf-8"), flags=re.MULTILINE
)


@pytest.mark.parametrize(("terminal", "layout"), [*zip(LAYOUTS[1::2], LAYOUTS[2::2], strict=True)])
def test_a_layout_for_each_width(terminal, layout, capsys, monkeypatch) -> None:
    """Without its columns if they are missing; in a terminal with colours if it has any."""
    columns, _, colours = terminal.partition(" ")
    for name, value in (("COLUMNS", columns), ("TERM", colours or "dumb"), ("NO_COLOR", "")):
        monkeypatch.setenv(name, value)
    for name, most in (("WIDTH", 112), ("SHOWN", 2)):
        monkeypatch.setattr(output, name, most)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: bool(colours))
    output.table(TABLE, ROWS, bold_last=True)
    output.facts({"why": "an iteration saves 26.34 ms of decoding", "memory": "50.43 GB " * 20})
    output.warn_where([("batch 8", ["it does not fit", "twice"]), ("batch 16", ["twice"])])
    output.warn_some(["one", "two"])
    output.warn_some(["one", "two", "three", "four"])
    shown = capsys.readouterr()
    assert shown.out + shown.err == layout


def test_what_is_assumed_is_noted_and_not_warned_of(capsys) -> None:
    """A head that was not named is a note, after the warnings; a context beyond the model's is a warning."""
    shown = run(capsys, "whatif", *shlex.split(LLAMA), "--batch", "4", "--context", "140k")
    marked = [line.partition(":")[0] for line in shown.splitlines() if re.match("(warning|note): ", line)]
    assert marked == sorted(marked, reverse=True)
    assert "note: no draft was given: eagle3 is assumed" in shown
    assert "warning: no draft" not in shown


def test_the_fastest_layout_is_shown_with_a_smaller_one_that_is_nearly_as_fast(capsys) -> None:
    command = "advise -m gpt-oss-120b --hardware h100 --tp 1,2,4,8 --objective latency"
    assert re.search(
        r"TP 4 is \d+% slower and gives 1\.\d times the tokens per GPU", run(capsys, *shlex.split(command))
    )


def test_the_engines_own_degrees_are_said(capsys) -> None:
    command = "whatif -m deepseek-v3 --hardware h200 --tp 8 --dp 8 --ep 8 -b 64 -c 4k"
    shown = " ".join(run(capsys, *shlex.split(command)).split())
    assert "--tensor-parallel-size 1 --data-parallel-size 8, which multiply there" in shown


def test_no_smaller_throughput_is_called_the_highest(capsys) -> None:
    """A batch beyond those searched serves more than the best of these."""
    command = "whatif -m deepseek-v3 --hardware h200 --tp 8 --dp 8 --ep 8 -c 8k -b"
    assert "highest throughput" not in run(capsys, *shlex.split(command), "440")
    assert "highest throughput" in run(capsys, *shlex.split(command), "64")


def test_a_table_says_that_an_older_version_has_another_verdict(capsys) -> None:
    """sgl-project/sglang#14824: EAGLE-3 lost with SGLang 0.5.5."""
    words = "whatif -m qwen3-30b-a3b --hardware h100 --tp 2 --engine sglang -b 1,4 -c 500 --draft eagle3"
    words += " --gamma 3 --tokens-per-iteration 1.86"
    assert cli.run(words.split()) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "version at batch 1, context 500, gamma 3: SGLang 0.5.13, newest fitted version; 0.5.5: 0.7" in out


def test_a_table_without_an_acceptance_has_the_range_of_a_typical_draft(capsys) -> None:
    out = run(
        capsys, *shlex.split("whatif -m qwen3-next-80b-a3b --hardware h200 --tp 2 -b 1,32 -c 4k --draft mtp")
    )
    ranges = re.findall(r"unknown +(\d\.\dx to \d\.\dx) ", out)
    assert len(ranges) == 2
    assert ranges[0] != ranges[1]
    assert "a range of speedups is that with a typical mtp draft (first token accepted at" in out


def test_a_simpler_layout_that_is_nearly_as_good_is_named(capsys) -> None:
    command = "advise -m qwen3-235b-a22b-2507 --hardware 4xh200 --weights fp8-block -c 32k --max-tpot-ms 25"
    text = " ".join(run(capsys, *shlex.split(command)).split())
    point = r"TP 4, eagle3, gamma \d, batch \d+"
    assert re.search(point + r" is simpler to run and gives \d% fewer tokens per second:", text)


def test_a_layout_with_earlier_first_tokens_is_named(capsys) -> None:
    command = (
        "advise -m llama-3.3-70b --weights fp8 --hardware 2xh200 --clients 44 --input-len 8k --output-len 800"
    )
    text = " ".join(run(capsys, *shlex.split(command)).split())
    sooner = r"first token after \S+ s instead of \S+ s, for \d+% more time per request:"
    assert re.search(r"TP 2 with eagle3, gamma \d: " + sooner, text)


def test_a_layout_whose_requests_wait_for_a_seat_is_named_in_the_reason(capsys) -> None:
    """Two servers have room for some of 32 requests each, which end sooner and begin much later."""
    command = "advise -m kimi-k2.5 --hardware 8xb200 --clients 64 --input-len 16k --output-len 950"
    text = " ".join(run(capsys, *shlex.split(command)).split())
    waits = r"\(2 x TP 2 DP 2 takes \d+% less time, but its requests wait \d+ s for the first token\)"
    assert re.search(waits, text)


def test_a_line_without_the_draft_that_pays_says_so(capsys) -> None:
    """mlx_lm has no MTP, though other servers on MLX do."""
    command = "advise -m qwen3.6-27b --hardware m4-max-128gb --engine mlx --weights 4bit -c 16k"
    text = " ".join(run(capsys, *shlex.split(command)).split())
    assert "Likely speculate: mtp" in text
    assert "mlx_lm.server has no mtp draft; mlx-vlm and mlx-dspark have one" in text


def test_a_second_line_that_is_the_first_one_is_not_printed(capsys) -> None:
    """mlx_lm has no flag for the MTP layer that should be measured."""
    command = "advise -m minimax-m2 --hardware m3-ultra-512gb --engine mlx --weights 4bit -c 32k"
    assert cli.run(shlex.split(command)) == 1, "nothing is decided"
    text = capsys.readouterr().out
    assert text.count("mlx_lm.server --model") == 1
    assert "To measure" not in text


def test_an_engine_whose_line_is_unknown_is_said_to_have_none(capsys) -> None:
    command = "advise -m qwen3-8b --hardware m4-max --engine mlx-dspark -b 1 -c 4k --rate dspark=0.9"
    text = run(capsys, *shlex.split(command))
    assert "No command line is known for mlx-dspark; its name for the draft is dspark" in text
    ours = run(capsys, *shlex.split(f"advise {LLAMA}"))
    assert "No command line" not in ours


def test_the_line_to_measure_a_named_draft_says_from_where_it_pays(capsys) -> None:
    question = "-m llama-3.3-70b --hardware m2-ultra --engine llamacpp --weights q4_k_m -c 8k"
    assert cli.run(("advise", *question.split(), "--draft", "llama-3.2-1b")) == 1  # undecided
    text = capsys.readouterr().out
    assert re.search(
        r"To measure llama-3.2-1b, which pays off from alpha 0\.\d\d:\nllama-server .* -md ", text
    )


def test_the_line_of_a_baseline_has_no_draft(capsys: pytest.CaptureFixture[str]) -> None:
    question = "-m qwen3-32b --weights q4_k_m --hardware rtx-4090 -b 1 -c 4k -g 0"
    last = run(capsys, "whatif", *question.split()).splitlines()[-1]
    assert last.startswith("llama-server -m ")
    assert "--spec" not in last


def test_a_version_of_an_engine_with_constants_for_it_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    flags = "--model llama-3.1-8b --weights 4bit --hardware m1-pro --batch 1 --context 300 --alpha 0.6"
    assert cli.run(shlex.split(f"whatif {flags} --engine mlx@0.31.2 --draft llama-3.2-1b --gamma 2")) == 0
    assert "engine      MLX 0.31.2; " in capsys.readouterr().out


def test_without_a_draft_the_energy_is_that_of_the_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    question = "whatif --model llama-3.1-8b --hardware rtx-5090 --batch 4 --context 4k --gamma"
    baseline, drafted = (run(capsys, *question.split(), gamma, "-v") for gamma in ("0", "2"))
    assert re.search(r"energy +baseline \d+\.\d\d J per token; \d+ W per device", baseline)
    assert re.search(r"energy +\d+\.\d\d J per token; baseline \d", drafted)


SERVED = "--model deepseek-r1 --hardware 8xh200 --clients 32 --input-len 2k --output-len 512 --draft mtp"


def test_a_printed_layout_can_be_asked_for(capsys) -> None:
    """The table names a group's devices, as engines do, and says once that `--tp` counts all of a server."""
    printed = run(capsys, "advise", *shlex.split(SERVED))
    said = re.search(r"For this tool, (TP \d+ )?DP \d+( EP \d+)? is (.*): --tp counts all", printed)
    again = run(capsys, "advise", *shlex.split(SERVED), *said[3].split())
    assert re.search(rf"chosen +{said[1] or ''}DP", again)


@pytest.mark.parametrize(
    "verb", ["whatif --batch 8 --context 4k", "advise --clients 8 --input-len 2k --output-len 300"]
)
def test_degrees_as_engines_count_them_are_refused_with_those_to_type(verb: str, capsys) -> None:
    degrees = "--model deepseek-r1 --hardware h200 --tp 4 --dp 2 --ep 8"
    cli.run([*shlex.split(verb), *degrees.split()])
    out, err = capsys.readouterr()
    assert "TP 4 DP 2 EP 8 is --tp 8 --dp 2 --ep 8" in " ".join((out + err).split())


def test_a_price_that_is_asked_for_is_shown_at_80_columns(capsys, monkeypatch) -> None:
    narrow(monkeypatch)
    assert "$/Mtok" in run(capsys, "advise", *shlex.split(SERVED), "--price", "3")
