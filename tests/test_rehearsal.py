"""The GPU script on a CPU, as a bare machine would run it: no .git, nothing installed, every call on its
own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")


ROOT = Path(__file__).parents[1]


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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "bash benchmarks/gpu.sh check"),
        ("nothing t-1 h100-sxm-80gb", "stage: must be check, kernels"),
        ("kernels t-1 h100-sxm-80gb", "PERFMODEL_COMMIT: must be given"),
    ],
)
def test_what_the_script_is_asked_wrongly(tmp_path: Path, words: str, says: str) -> None:
    """The last in a tree without git, which must say which commit it is."""
    (tmp_path / "benchmarks").mkdir()
    script = tmp_path / "benchmarks" / "gpu.sh"
    script.write_text((ROOT / "benchmarks" / "gpu.sh").read_text())
    env = {key: value for key, value in os.environ.items() if key != "PERFMODEL_COMMIT"} | {
        "OUT": str(tmp_path)
    }
    env |= {} if "COMMIT" in says else {"PERFMODEL_COMMIT": "0123456789abcdef"}
    command = ["bash", str(script), *words.split()]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert says in done.stderr
