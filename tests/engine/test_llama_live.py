"""The bundled record of a live llama.cpp: points that its fit has not seen."""

import json

import pytest

from tests.engine.live import ROOT
from tests.engine.llama_live import WANTED, errors


def test_its_points_held_out_are_as_close_as_its_summary_says() -> None:
    out = ROOT / "results/cpu-engine/llamacpp"
    found, told = errors(out)
    stated = json.loads((out / "summary.json").read_text())["errors"]
    assert found == {kind: pytest.approx(off, abs=0.002) for kind, off in stated.items()}
    assert all(off[figure] < WANTED for off in found.values() for figure in ("tpot", "speedup"))
    assert "base: ideal, one row apart, closest to rows held out (others: ideal 10.7%)" in told
