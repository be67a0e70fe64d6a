"""What the command line says beside the numbers: what they rest on, what to know, and what to type instead."""

import json
import shlex
from collections.abc import Callable

import pytest

from perfmodel.specs.files import bundled_names
from perfmodel.specs.gpu import load_gpu
from perfmodel.specs.stacks import calibration_of
from tests.commands import refused, run

LLAMA = "--model llama-3.1-8b --hardware h100"
Out = Callable[[str], str]


@pytest.fixture
def out(capsys: pytest.CaptureFixture[str]) -> Out:
    return lambda line: run(capsys, *shlex.split(line))


def test_lines_are_whole_where_no_terminal_is(out: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = f"whatif {LLAMA} --batch 8 --context 32k --gamma 3 --alpha 0.8"
    whole = out(asked)
    monkeypatch.setenv("COLUMNS", "60")
    narrow = out(asked)
    assert max(map(len, narrow.splitlines())) <= 60 < 112 < max(map(len, whole.splitlines()))
    assert narrow.split() == whole.split()


def test_inverse_says_where_a_context_is_beyond_the_model(out: Out) -> None:
    asked = f"inverse {LLAMA} --batch 1 --context 4k --gamma 3 --alpha 0.8 --speedup"
    (said,) = [line for line in out(f"{asked} 1.9").splitlines() if line.startswith("warning: context")]
    assert said.endswith("is beyond llama-3.1-8b's maximum of 131072")
    assert "is beyond" not in out(f"{asked} 0.5")


def test_a_spread_of_contexts_that_changes_nothing_is_told(out: Out) -> None:
    asked = f"whatif {LLAMA} --batch 4 --context 4k --gamma 3 --alpha 0.8 --context-std 500 --engine"
    assert "warning: context_std changes nothing: h100-sxm-80gb.magicdec" in out(f"{asked} magicdec")
    assert "context_std" not in out(f"{asked} vllm")


def test_devices_name_the_calibration_that_answers(out: Out) -> None:
    listed = {row["name"]: row["calibration"] for row in json.loads(out("gpus list --json"))["rows"]}
    assert listed == {name: calibration_of(load_gpu(name)).name for name in bundled_names("gpus")}
    assert "\ncalibration: h100-sxm-80gb.vllm\n" in out("gpus show h100")


@pytest.mark.parametrize(("line", "instead"), [
    (f"tree {LLAMA} --batch 1 --context 4k --alpha 0.8", "--alpha: a tree's acceptance is by rank of the child"),
    (f"tree {LLAMA} --batch 1 --context 4k --acceptance x", "--acceptance: a tree's acceptance is by rank"),
    (f"advise {LLAMA} --context 4k --alpha 0.8", "--alpha: acceptances are by draft here: --rate DRAFT=0.8"),
    ("plot pareto --acceptance-rate 0.8", "--acceptance-rate: acceptances are by draft here"),
    ("hierarchy --draft llama-68m", "--draft: the small model is --small, the middle's cache --draft-kv"),
])  # fmt: skip
def test_a_flag_of_another_verb_names_what_stands_for_it(capsys, line, instead) -> None:
    assert refused(capsys, *shlex.split(line)).startswith(f"error: {instead}")
