"""The command line answers: the contract of the JSON, the panel, tables, edges, and every verb."""

import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perfmodel as pm
from perfmodel import cli
from perfmodel.answers.arguments import arguments
from perfmodel.cli.examples import EXAMPLES
from perfmodel.cli.help import HEADING

SUBJECT = ["--model", "llama-3.1-8b", "--hardware", "a100-sxm-80gb", "--tp", "8", "--draft-kv", "streamingllm:512"]
POINT = ["--batch", "64", "--context", "32000"]
Run = Callable[..., str]


@pytest.fixture
def out(capsys: pytest.CaptureFixture[str]) -> Run:
    """What a command prints that must succeed."""

    def run(*arguments: str) -> str:
        status = cli.run(arguments)
        captured = capsys.readouterr()
        assert (status, captured.err) == (0, "")
        return captured.out

    return run


@pytest.fixture
def ask(out: Run) -> Callable[..., Any]:
    """The JSON answer to a what-if about `SUBJECT`."""
    return lambda *flags: json.loads(out("whatif", *SUBJECT, *flags, "--json"))


def test_flags_are_the_arguments_of_python() -> None:
    """Of every verb: a flag for each argument, named after it, and the same defaults."""
    for verb in (name for name in pm.__all__ if name in cli.COMMANDS and name != "sweep"):
        kind = getattr(pm, verb).question
        command = cli.command(verb)
        flags = {param.name: param.opts for param in command.params}
        assert set(arguments(kind)) <= set(flags), verb
        assert all(f"--{name.replace('_', '-')}" in flags[name] for name in arguments(kind))
        needed = {param.name for param in command.params if param.required}
        parameters = inspect.signature(kind).parameters
        assert needed == {name for name in arguments(kind) if parameters[name].default is inspect.Parameter.empty}, verb


def test_the_published_measurement_stands_beside_the_prediction(ask: Callable[..., Any], out: Run) -> None:
    found = ask(*POINT, "--gamma", "2")
    (row,) = found["measured"]
    assert row["set"] == "magicdec"
    assert "2408.11049" in row["source"]
    assert row["figures"]["speedup"]["measured"] == 1.28
    for figure in row["figures"].values():
        assert figure["error"] == pytest.approx(figure["predicted"] / figure["measured"] - 1)
    assert row["fitted_on"] == (row["set"] in found["calibration"]["fitted_on"])
    text = out("whatif", *SUBJECT, *POINT, "--gamma", "2")
    assert ("the calibration was fitted on this set" in " ".join(text.split())) == row["fitted_on"]
    assert "1.28" in text
    assert "2408.11049" in text
    assert "limited by" in text


def test_no_measurement_of_another_question_is_shown(ask: Callable[..., Any]) -> None:
    changes = "--gamma 5, --batch 63, --context 32001, --draft-kv streamingllm:511, --draft-kv snapkv:512, --tp 4, "
    changes += "--hardware h100, --kv-dtype fp8, --draft-tp 4, --draft llama-3.2-1b"
    for changed in changes.split(", "):
        assert ask(*POINT, "--gamma", "2", "--alpha", "0.8", *changed.split())["measured"] == [], changed


def test_the_best_gamma_measured_answers_the_question_for_the_best_gamma(ask: Callable[..., Any]) -> None:
    assert "gamma_optimal" in {row["set"] for row in ask(*POINT)["measured"]}


def test_lists_give_rows_and_a_table(ask: Callable[..., Any], out: Run) -> None:
    both = ask("--batch", "1,64", "--context", "4k,32000", "--gamma", "2,auto")
    assert both["schema_version"] == 2
    found = both["rows"]
    asked = [(a["query"]["batch"], a["query"]["context"]) for a in found]
    assert asked == [(1, 4096)] * 2 + [(1, 32000)] * 2 + [(64, 4096)] * 2 + [(64, 32000)] * 2
    assert {"schema_version": 2, **found[-2]} == ask(*POINT, "--gamma", "2")
    text = out("whatif", *SUBJECT, "--batch", "1,64", "--context", "4k,32000", "--gamma", "2,auto")
    assert sum(line.strip().startswith(("1 ", "64 ")) for line in text.splitlines()) == 8
    assert "1.28x" in text


def test_aliases_of_flags_and_names_resolve(ask: Callable[..., Any], out: Run) -> None:
    other = "--model meta-llama/Llama-3.1-8B --gpu a100 --tensor-parallel 8 --draft-kv streaming:512 "
    other += "--batch-size 64 --context-length 32000 -g 2 --json"
    assert json.loads(out("whatif", *other.split())) == ask(*POINT, "--gamma", "2")


def test_a_budget_above_the_context_is_told(ask: Callable[..., Any]) -> None:
    found = ask("--batch", "8", "--context", "1000", "--gamma", "3", "--alpha", "0.8", "--draft-kv", "streamingllm:4k")
    assert any("budget" in note for note in found["warnings"])


def test_ops_add_up(out: Run) -> None:
    for which, gamma in (("target", "0"), ("draft", "2"), ("verify", "3")):
        found = json.loads(out("ops", *SUBJECT, *POINT, "--gamma", gamma, "--stage", which, "--json"))
        total = found["total"]
        assert sum(row["lower_s"] for row in found["ops"]) == pytest.approx(total["lower_s"], rel=1e-9)
        assert sum(row["predicted_s"] for row in found["ops"]) <= total["predicted_s"] * (1 + 1e-12)
        assert all(row["lower_s"] <= row["predicted_s"] for row in found["ops"])
        text = out("ops", *SUBJECT, *POINT, "--gamma", gamma, "--pass", which)
        assert all(row["name"] in text for row in found["ops"])


def test_inflection_and_inverse_agree_with_whatif(ask: Callable[..., Any], out: Run) -> None:
    found = ask(*POINT, "--gamma", "2")
    (lengths,) = json.loads(out("inflection", *SUBJECT, *POINT, "--gamma", "2", "--json"))["rows"]
    assert {name: lengths[name] for name in found["inflection"]} == found["inflection"]
    (needed,) = json.loads(out("inverse", *SUBJECT, *POINT, "--gamma", "2", "--speedup", "1.2", "--json"))["rows"]
    assert needed["speedup"] == pytest.approx(found["speedup"], rel=1e-12)


def test_gamma_zero_says_what_a_draft_would_do(ask: Callable[..., Any], out: Run) -> None:
    # asked without an acceptance: the published one still tells what the best gamma would give
    stack = ("--engine", "magicdec")
    assert [ask(*POINT, *stack, "--gamma", gamma)["gamma_optimal"] for gamma in ("0", "2")] == [2, 2]
    assert "Baseline (no speculation), as asked" in out("whatif", *SUBJECT, *POINT, "--gamma", "0")
    unknown = ask(*POINT, "--gamma", "0", "--draft-kv", "snapkv:77")
    assert "such as an alpha" in unknown["reason"]
    alone = out("whatif", *SUBJECT, *POINT, "--gamma", "0", "--draft-kv", "snapkv:77")
    assert "Baseline (no speculation), as asked" in alone  # nothing was asked of speculation
    assert "pay:" not in alone
    assert not any(line.startswith("best ") for line in alone.splitlines())
    # and where no draft pays, which term decides at gamma 1
    short = ask("--batch", "64", "--context", "1k", "--alpha", "0.8", *stack)
    assert short["query"]["gamma"] == 0
    assert "at gamma 1 an iteration saves" in short["reason"]
    assert "of which draft steps" in short["reason"]


def test_sensitivity_ranks_what_the_verdict_hangs_on(ask: Callable[..., Any], out: Run) -> None:
    assert ask(*POINT, "--gamma", "2")["sensitivity"] is None
    found = ask(*POINT, "--gamma", "2", "--sensitivity")
    swings = [row["swing"] for row in found["sensitivity"]]
    assert swings == sorted(swings, reverse=True)
    assert {"acceptance alpha", "memory bandwidth"} <= {row["input"] for row in found["sensitivity"]}
    for row in found["sensitivity"]:
        low, high = sorted((row["speedup_low"], row["speedup_high"]))
        assert low <= found["speedup"] <= high
    text = out("whatif", *SUBJECT, *POINT, "--gamma", "2", "--sensitivity")
    assert all(row["input"] in text for row in found["sensitivity"])
    several = out("whatif", *SUBJECT, *POINT, "--gamma", "1,2", "--sensitivity")
    assert several.count("if only this moves") == several.count("acceptance alpha") == 2
    assert several.index("gamma 1\n") < several.index("gamma 2\n")


@pytest.mark.parametrize("kind", ["gpus", "models", "kv", "calibrations"])
def test_catalogues(kind: str, out: Run) -> None:
    rows = json.loads(out(kind, "list", "--json"))["rows"]
    assert len(rows) >= {"gpus": 20, "models": 25, "kv": 11, "calibrations": 5}[kind]
    text = out(kind, "list")
    assert all(row["name"] in text for row in rows)
    checked = json.loads(out(kind, "check", "--json"))["rows"]
    assert [row["name"] for row in checked] == [row["name"] for row in rows]
    for row in rows[:3]:
        assert row["name"] in out(kind, "show", row["name"])
        assert json.loads(out(kind, "show", row["name"], "--json"))["name"] == row["name"]


def test_check_of_a_file_that_contradicts_itself_is_1(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from perfmodel.specs.files import data_directory

    text = (data_directory("gpus") / "a100-sxm-80gb.yaml").read_text(encoding="utf-8")
    path = tmp_path / "mine.yaml"
    path.write_text(re.sub(r"(?m)^calibration: .*", "calibration: mine.nowhere", text), encoding="utf-8")
    assert cli.run(["gpus", "check", str(path)]) == 1
    assert "mine.nowhere" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["gpus", "models", "kv", "calibrations"])
def test_a_group_by_itself_lists_its_verbs(kind: str, out: Run) -> None:
    text = out(kind)
    assert all(f"  {verb} " in text for verb in ("list", "show", "check"))
    assert text == out(kind, "--help")


def command(text: str) -> "subprocess.CompletedProcess[str]":
    line = f"{shlex.quote(sys.executable)} -m perfmodel whatif {shlex.join([*SUBJECT, *POINT])} {text}"
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_one_line() -> None:
    done = command("--gamma 2 > /dev/full")
    assert (done.returncode, done.stderr) == (2, "error: the output: No space left on device\n")


def test_a_closed_stdout_is_no_mistake() -> None:
    done = command("--gamma 2 >&-")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("raised", "status"), [(KeyboardInterrupt, 130), (BrokenPipeError, 1), (MemoryError, 2)])
def test_what_ends_a_command_has_a_status(raised, status, monkeypatch) -> None:
    def app(**_: Any) -> None:
        raise raised

    monkeypatch.setattr(cli, "app", app)
    assert cli.run(["whatif"]) == status


@pytest.mark.parametrize("torch", [False, True])
def test_a_process_ends_at_once_unless_torch_has_to_be_taken_apart(torch, monkeypatch) -> None:
    ended = []
    monkeypatch.setattr(cli, "run", len)
    monkeypatch.setattr(cli.os, "_exit", lambda status: ended.append(("os", status)))
    monkeypatch.setattr(cli.sys, "exit", lambda status: ended.append(("sys", status)))
    monkeypatch.setattr(cli.sys, "argv", ["perfmodel", "a", "b", "c"])
    monkeypatch.setattr(cli.sys, "modules", {"torch": cli} if torch else {})
    cli.main()
    cli.main(["a"])
    assert ended[0] == ("sys" if torch else "os", 3)
    assert ended[-1] == ("os", 1)


LOADED = """
import sys
from perfmodel.cli import run
run(sys.argv[1:])
print(sorted({"rich", "scipy", "pandas", "matplotlib", "torch", "pyarrow"} & set(sys.modules)), file=sys.stderr)
"""


def test_a_json_answer_loads_nothing_it_does_not_need() -> None:
    command = [sys.executable, "-c", LOADED, "whatif", *SUBJECT, *POINT, "--gamma", "2", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_every_verb_stands_below_one_heading_of_the_help(out: Run) -> None:
    assert out("-h") == out("--help")
    assert all(f"\n{heading}:\n" in out("-h") for heading in cli.HEADINGS)
    assert out("whatif", "-h") == out("whatif", "--help")


def test_inflection_seeks_gamma_where_none_is_given(ask: Callable[..., Any], out: Run) -> None:
    asked = ("inflection", *SUBJECT, "--batch", "64", "--alpha", "0.8", "--json")
    (found,) = json.loads(out(*asked))["rows"]
    best = ask("--batch", "64", "--context", "32k", "--alpha", "0.8")["gamma_optimal"]
    assert found["gamma"] == best
    (named,) = json.loads(out(*asked, "--gamma", str(best)))["rows"]
    assert found == named
    (short,) = json.loads(out(*asked, "--context", "64"))["rows"]
    assert short["gamma"] == 1  # where none pays, the shortest


def test_a_share_of_accepted_tokens_is_turned_into_alpha(ask: Callable[..., Any], out: Run) -> None:
    """Of 3 drafted tokens 66 % are accepted: 1 + 3 x 0.66 = 2.98 tokens an iteration, which is alpha 0.81, not 0.66."""
    answer = ask(*POINT, "--gamma", "3", "--acceptance-rate", "0.66")
    alpha = answer["acceptance"]["alpha"]
    assert answer["acceptance"]["tokens_per_iteration"] == pytest.approx(2.98)
    assert 1 + alpha + alpha**2 + alpha**3 == pytest.approx(2.98)
    assert round(alpha, 2) == 0.81
    for wrong in (("--gamma", "auto"), ("--gamma", "3", "--alpha", "0.8")):
        assert cli.run(["whatif", *SUBJECT, *POINT, "--acceptance-rate", "0.66", *wrong]) == 2


@pytest.mark.parametrize("verb", [verb for verb in EXAMPLES if not verb.startswith("validate")])
def test_the_example_of_a_verb_runs(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: Run) -> None:
    assert f"perfmodel {verb} " in " ".join(out(*verb.split(), "--help").split()) + " "
    if verb in ("calibrations import", "plot pareto"):  # another's wheel; what `advise` answers
        return
    monkeypatch.chdir(tmp_path)
    assert cli.run([*verb.split(), *shlex.split(EXAMPLES[verb])]) == 0


def test_headings_of_help_hold_flags_that_exist() -> None:
    names = set()
    for verb in cli.COMMANDS:
        command = cli.command(verb)
        for one in getattr(command, "commands", {"": command}).values():
            names |= {param.name for param in one.params}
    assert set(HEADING) <= names | {"help"}


def test_completion_knows_the_verbs() -> None:
    env = os.environ | {"COMP_WORDS": "perfmodel wh", "COMP_CWORD": "1", "_PERFMODEL_COMPLETE": "complete_bash"}
    line = [sys.executable, "-c", "from perfmodel.cli import main; main()"]
    assert subprocess.run(line, capture_output=True, text=True, check=True, env=env).stdout.split() == ["whatif"]
