"""A live llama.cpp: lines that its own parser took, and points that a fit has not seen."""

import json

import pytest

from tests.engine.live import ROOT
from tests.engine.llama_lines import RECORD, as_record, emitted
from tests.engine.llama_live import WANTED, errors


def test_the_lines_emitted_now_are_those_that_llama_cpp_took() -> None:
    assert json.loads(RECORD.read_text()) == as_record(), "tests/engine/llama_lines.py has them parsed anew"


def test_only_what_llama_cpp_runs_is_in_its_line() -> None:
    lines = emitted()
    plain = [name for name, e in lines.items() if "--spec-type" not in str(e.llamacpp_line)]
    assert plain == ["none", "self"]
    assert any("no fp8 KV cache" in note for note in lines["mtp"].notes)
    assert "-sm tensor" in str(lines["two devices"].llamacpp_line)
    assert not any(e.vllm_line or e.sglang_line for e in lines.values())


def test_points_held_out_are_as_close_as_the_summary_says() -> None:
    out = ROOT / "results/cpu-engine/llamacpp"
    found, told = errors(out)
    stated = json.loads((out / "summary.json").read_text())["errors"]
    assert found == {kind: pytest.approx(off, abs=0.002) for kind, off in stated.items()}
    assert all(off[figure] < WANTED for off in found.values() for figure in ("tpot", "speedup"))
    assert "base: ideal, one row apart, closest to rows held out (others: ideal 10.7%)" in told
