"""The speed suite runs on this tree; nothing is asserted about its times."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_speed_suite_runs() -> None:
    words = [
        sys.executable,
        "-m",
        "pytest",
        "benchmarks/test_speed.py",
        "-q",
        "--benchmark-disable",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout or "....." in done.stdout
