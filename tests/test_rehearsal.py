"""The GPU script on a CPU, as a bare machine would run it: no .git, nothing installed, every call on its
own.
"""

import os
import subprocess
import sys

import pytest

from tests.scripts import ROOT

pytest.importorskip("torch")


@pytest.mark.slow
def test_every_stage_runs() -> None:
    """`make rehearse` does the same with the versions of such a machine."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs a clone: git says which files travel")
    env = os.environ | {"TESTS": "tests/validate/test_cuda.py -m cuda"}
    words = ["bash", "benchmarks/rehearse.sh", sys.executable]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rehearsed: every stage ran" in done.stderr
