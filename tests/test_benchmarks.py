"""The page of speed says what a what-if takes today; no time is asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_says_what_a_what_if_takes_today() -> None:
    """Passes and files exactly; calls to a twentieth, since Python's versions differ in what is a call."""
    today = json.loads(run("benchmarks/counts.py"))
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8").splitlines()
    cells = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ")[1:] for line in page if " | " in line}
    for name, now in today.items():
        calls, files, passes = (int(cell) for cell in cells[name])
        assert (files, passes) == (now["files"], now["forward passes"]), f"{name}: docs/benchmarks.md is stale"
        assert calls == pytest.approx(now["calls"], rel=0.05), f"{name}: docs/benchmarks.md is stale"
    assert today["first"]["calls"] <= 14000
    assert today["warm"]["forward passes"] <= 17
    assert today["warm"]["calls"] <= 7000
    assert today["warm"]["files"] <= 45
    assert today["traffic"]["forward passes"] <= 16
