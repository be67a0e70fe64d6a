"""What the command line says beside the numbers: what they rest on, what to know, and what to type instead."""

import json
import shlex
from collections.abc import Callable

import pytest

from perfmodel.specs.calibration import load_calibration
from perfmodel.specs.files import bundled_names
from perfmodel.specs.gpu import load_gpu
from perfmodel.specs.stacks import calibration_of
from tests.commands import refused, run

LLAMA = "--model llama-3.1-8b --hardware h100"
Out = Callable[[str], str]


@pytest.fixture
def out(capsys: pytest.CaptureFixture[str]) -> Out:
    return lambda line: run(capsys, *shlex.split(line))


def test_a_reason_gives_seconds_where_they_are_many(out: Out) -> None:
    text = out(f"whatif {LLAMA} --batch 1000000 --context 100k --gamma 2 --alpha 0.5")
    assert " ms it adds" not in text
    assert " s it adds" in text


def test_lines_are_whole_where_no_terminal_is(out: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = f"whatif {LLAMA} --batch 8 --context 32k --gamma 3 --alpha 0.8"
    whole = out(asked)
    assert [line.split()[0] for line in whole.splitlines()[2:-1]] == [
        "why", "time", "memory", "best", "acceptance", "engine",
    ]  # fmt: skip
    assert max(map(len, whole.splitlines())) > 112
    monkeypatch.setenv("COLUMNS", "60")
    narrow = out(asked)
    assert max(map(len, narrow.splitlines())) <= 60
    assert narrow.split() == whole.split()


def test_an_engine_is_named_however_it_was_chosen(out: Out) -> None:
    point = "--batch 8 --context 32k --gamma 3 --alpha 0.8"
    for chosen in ("", "--engine vllm", "--calibration h100-sxm-80gb.vllm"):
        told = " ".join(out(f"whatif {LLAMA} {point} {chosen}").split())
        assert " engine vLLM 0.22; the draft runs in: no engine yet (open RFC vllm#47351); calibration" in told


def test_every_context_has_the_source_of_its_acceptance(out: Out) -> None:
    asked = "whatif --model llama-3.1-8b --hardware a100 --tp 8 --batch 1 --gamma 2 --draft self --context"
    (last,) = [line for line in out(f"{asked} 32000,48000").splitlines() if line.startswith("calibration ")]
    assert last.count("MagicDec project page") == 2
    assert "at context 32000: MagicDec" in last
    assert "at context 48000: MagicDec" in last
    assert "at context" not in out(f"{asked} 32000 --batch 1,2")


def test_inverse_says_where_a_context_is_beyond_the_model(out: Out) -> None:
    asked = f"inverse {LLAMA} --batch 1 --context 4k --gamma 3 --alpha 0.8 --speedup"
    (said,) = [line for line in out(f"{asked} 1.9").splitlines() if line.startswith("warning: context")]
    assert said.endswith("is beyond llama-3.1-8b's maximum of 131072")
    assert "is beyond" not in out(f"{asked} 0.5")
    (row,) = json.loads(out(f"{asked} 1.9 --json"))["rows"]
    assert row["warnings"] == [said.removeprefix("warning: ")]


def test_a_spread_of_contexts_that_changes_nothing_is_told(out: Out) -> None:
    asked = f"whatif {LLAMA} --batch 4 --context 4k --gamma 3 --alpha 0.8 --context-std 500 --engine"
    assert "warning: context_std changes nothing: h100-sxm-80gb.magicdec" in out(f"{asked} magicdec")
    assert "context_std" not in out(f"{asked} vllm")


def test_devices_name_the_calibration_that_answers(out: Out) -> None:
    listed = {row["name"]: row["calibration"] for row in json.loads(out("gpus list --json"))["rows"]}
    assert listed == {name: calibration_of(load_gpu(name)).name for name in bundled_names("gpus")}
    assert listed["h100-sxm-80gb"] == "h100-sxm-80gb.vllm"
    assert "\ncalibration: h100-sxm-80gb.vllm\n" in out("gpus show h100")


def test_calibrations_tell_steps_from_iterations(out: Out) -> None:
    rests = {row["name"]: row["rests_on"] for row in json.loads(out("calibrations list --json"))["rows"]}
    for name, said in rests.items():
        c = load_calibration(name)
        only = [model for model in c.speculating_models if model not in c.measured_models]
        assert ("steps of " in said) == bool(c.errors and c.measured_models)
        assert ("iterations of " in said) == bool(c.errors and only)


def test_decisions_say_what_their_numbers_rest_on(out: Out) -> None:
    rests = "calibration h100-sxm-80gb.vllm ("
    assert rests in out(f"advise {LLAMA} --context 32k")
    assert rests in out(f"schedule {LLAMA} --context 4k --draft ngram --rate 0.4x3 --max-batch 4")


@pytest.mark.parametrize(("line", "instead"), [
    (f"tree {LLAMA} --batch 1 --context 4k --alpha 0.8", "--alpha: a tree's acceptance is by rank of the child"),
    (f"tree {LLAMA} --batch 1 --context 4k --acceptance x", "--acceptance: a tree's acceptance is by rank"),
    (f"advise {LLAMA} --context 4k --alpha 0.8", "--alpha: acceptances are by draft here: --rate DRAFT=0.8"),
    ("plot pareto --acceptance-rate 0.8", "--acceptance-rate: acceptances are by draft here"),
    ("hierarchy --draft llama-68m", "--draft: the small model is --small, the middle's cache --draft-kv"),
])  # fmt: skip
def test_a_flag_of_another_verb_names_what_stands_for_it(capsys, line, instead) -> None:
    assert refused(capsys, *shlex.split(line)).startswith(f"error: {instead}")
