"""The command line answers: the contract of the JSON, the panel, tables, edges, and every verb."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perfmodel import cli
from perfmodel.cli.grouped_help import COMMON, GROUPS, MARK
from perfmodel.specs.boundary.files import data_directory
from tests.commands import examples, run

EXAMPLES = examples()
SUBJECT = [
    "--model",
    "llama-3.1-8b",
    "--hardware",
    "a100-sxm-80gb",
    "--tp",
    "8",
    "--draft-kv",
    "streamingllm:512",
]
POINT = ["--batch", "64", "--context", "32000"]
Run = Callable[..., str]


@pytest.fixture
def out(capsys: pytest.CaptureFixture[str]) -> Run:
    """What a command prints that must succeed."""
    return lambda *arguments: run(capsys, *arguments)


def test_what_most_questions_need_is_marked(out: Run) -> None:
    shown = out("whatif", "--help")
    assert re.findall(r"^  \* .*?--([a-z-]+)", shown, re.MULTILINE) == [*COMMON]
    assert f"\n{MARK}\n" in shown
    assert MARK not in out("tree", "--help")


@pytest.mark.parametrize(
    ("verb", "name", "stated", "wrong", "says"),
    [
        ("gpus", "a100-sxm-80gb", "^calibration: .*", "calibration: mine.nowhere", "mine.nowhere"),
        ("calibrations", "h100-sxm-80gb.magicdec", "^gpu: .*", "gpu: nowhere", "nowhere"),
        ("models", "qwen3-8b", "total_b: .*", "total_b: 7.9", "total_b: 7.9 billion published, 8.191"),
        ("models", "qwen3-8b", "embedding_b: .*", "embedding_b: 7.1", "7.1 billion published, 6.946 comp"),
        ("models", "gemma-3-12b", "embedding_b: .*", "embedding_b: 9", "9 billion published, 10.759 comp"),
    ],
)
def test_check_of_a_file_that_contradicts_itself_is_1(
    verb: str, name: str, stated: str, wrong: str, says: str, tmp_path: Path, capsys
) -> None:
    text = (data_directory(verb) / f"{name}.yaml").read_text(encoding="utf-8")
    path = tmp_path / "mine.yaml"
    path.write_text(re.sub(f"(?m){stated}", wrong, text), encoding="utf-8")
    assert cli.run([verb, "check", name, str(path)]) == 1, "also beside one without faults"
    assert says in capsys.readouterr().out


def command(text: str) -> "subprocess.CompletedProcess[str]":
    line = f"{shlex.quote(sys.executable)} -m perfmodel whatif {shlex.join([*SUBJECT, *POINT])} {text}"
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_one_line_and_a_closed_one_no_mistake() -> None:
    full = command("--gamma 2 > /dev/full")
    closed = command("--gamma 2 >&-")
    assert full.returncode == 2
    assert full.stderr == "error: the output: No space left on device\n"
    assert closed.returncode == 0
    assert closed.stderr == ""


LOADED = """
import sys
from perfmodel.cli import run
run(sys.argv[1:])
heavy = {"rich", "scipy", "pandas", "matplotlib", "torch", "pyarrow", "numpy.ma", "shutil", "statistics"}
print(sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "question",
    [
        (*SUBJECT, *POINT, "--gamma", "2", "--json"),
        ("-m", "llama-3.1-8b", "--gpu", "h100", "-b", "12", "-c", "32k"),
    ],
)
def test_an_answer_loads_nothing_it_does_not_need(question: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", LOADED, "whatif", *question]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_every_verb_stands_below_one_heading_of_the_help_and_those_of_flags_exist(out: Run) -> None:
    assert out("-h") == out("--help")
    assert all(f"\n{heading}:\n" in out("-h") for heading in cli.HEADINGS)
    assert out("whatif", "-h") == out("whatif", "--help")
    assert "-m, --model NAME|PATH " in out("whatif", "-h")
    assert "rollback keep|replay " not in out("whatif", "-h")
    assert "rollback keep|replay " in out("whatif", "--help-all")
    assert "--help-all" not in out("kv", "list", "-h")
    commands = [cli.command(verb) for verb in cli.COMMANDS]
    every = [one for command in commands for one in getattr(command, "commands", {"": command}).values()]
    flags = [param for one in every for param in one.params if param.param_type_name == "option"]
    assert {param.group for param in flags} == set(GROUPS)


def test_a_shell_completes_the_last_name_of_a_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = {
        "_PERFMODEL_COMPLETE": "bash_complete",
        "COMP_WORDS": "perfmodel whatif --gpu l4,h200-s",
        "COMP_CWORD": "3",
    }
    for name, value in line.items():
        monkeypatch.setenv(name, value)
    cli.run([])
    assert capsys.readouterr().out == "plain,l4,h200-sxm-141gb\n"


@pytest.mark.parametrize(
    "verb", [verb for verb in EXAMPLES if not verb.startswith(("validate", "mcp", "serve"))]
)
def test_the_example_of_a_verb_runs(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: Run
) -> None:
    assert f"perfmodel {verb} " in " ".join(out(*verb.split(), "--help").split()) + " "
    if verb == "calibrations import":  # another's package
        return
    monkeypatch.chdir(tmp_path)
    assert cli.run([*verb.split(), *shlex.split(EXAMPLES[verb])]) == 0


def test_a_rate_that_no_server_serves_is_said_to_be_a_queue(out: Run) -> None:
    lengths = ["--input-len", "2000", "--output-len", "500"]
    shown = out("traffic", *SUBJECT, *lengths, "--draft", "eagle3", "--request-rate", "1,1000")
    (overload,) = re.findall(
        r"^(\S+ requests?/s) is (\S+) times the rate that one server can", shown, re.MULTILINE
    )
    saturated = max(map(float, re.findall(r"saturated from ([\d.]+)", shown)))
    assert overload[0] == "1000 requests/s"
    assert float(overload[1]) == pytest.approx(1000 / saturated, rel=0.01)
