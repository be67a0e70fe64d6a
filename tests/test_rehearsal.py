"""The GPU script on a CPU, as a bare machine would run it: no .git, nothing installed, every call on its
own.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from perfmodel.validate.records.plan import plan_names

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


def test_the_three_calls_name_what_there_is() -> None:
    """Stages of the script, plans that ship, and no more minutes than there are."""
    page = (ROOT / "docs" / "gpu-todo.md").read_text(encoding="utf-8")
    calls = re.findall(r'^```text title="call \d"\n(.*?)^```', page, re.DOTALL | re.M)
    assert len(calls) == 3
    asked = [line.split() for call in calls for line in call.splitlines() if "gpu.sh" in line]
    stages = [words[words.index("benchmarks/gpu.sh") + 1] for words in asked]
    assert set(stages) == {"check", "kernels", "passes", "acceptance"}
    plans = [
        name for stage, words in zip(stages, asked, strict=True) if stage == "passes" for name in words[6:]
    ]
    assert sorted({*plans}) == sorted({*plans} & {*plan_names()})
    assert {"gpu-8b", "gpu-8b-long", "gpu-unsplit", "gpu-trees", "gpu-8b-fp8"} <= {*plans}
    assert plans[0] == "gpu-headline", "the decisive points first"
    assert plans.count("gpu-repeat") == 2
    assert all(
        words[0].startswith("MINUTES=")
        for stage, words in zip(stages, asked, strict=True)
        if stage in ("kernels", "passes")
    )
