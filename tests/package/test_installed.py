"""The wheel works in an empty environment outside the checkout, also without its extra."""

import json
import shlex

import pytest

from perfmodel.specs.published import published_points
from tests.package.shell import Installation, run, shell, without_git

WHATIF = shlex.split(
    "whatif --model llama-3.1-8b --hardware a100-sxm-80gb --tp 8 --batch 64 --context 32000 "
    "--draft self --draft-kv streamingllm:512 --gamma 2 --json"
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("package")]


def test_whatif_runs_from_the_wheel(installed: Installation) -> None:
    scripts = installed.scripts
    folder = installed.folder
    answer = json.loads(run(scripts / "perfmodel", *WHATIF, cwd=folder))
    assert answer["schema_version"] == 2
    assert 1.0 < answer["speedup"] < 2.0  # measured: 1.28
    assert answer["target_step"]["lower_s"] <= answer["target_step"]["predicted_s"]
    assert json.loads(run(scripts / "python", "-m", "perfmodel", *WHATIF, cwd=folder)) == answer
    code = "from perfmodel.specs.published import published_points as p; print(len(p()))"
    assert int(run(scripts / "python", "-c", code, cwd=folder)) == len(published_points())


def test_validate_without_its_extra_says_which_and_how(installed: Installation) -> None:
    """One line, exit status 2, for every verb that needs a package of it; those that do not run."""
    scripts = installed.scripts
    folder = installed.folder
    environment = without_git(folder, scripts)
    say = "which is not installed: in a clone, pip install '.[validate]'"
    for verb in ("run cpu-quick", "measure cpu-quick", "microbench cpu-quick", "generate", "acceptance"):
        done = shell(f"perfmodel validate {verb}", folder, environment)
        assert done.returncode == 2, (verb, done.stderr)
        (line,) = (line for line in done.stderr.splitlines() if "error" in line)
        assert line == f"error: perfmodel validate {verb.split()[0]}: needs torch, {say}"
        assert "Traceback" not in done.stderr
    for verb in ("plans", "compare --set magicdec --json", "calibrate --help"):
        assert shell(f"perfmodel validate {verb}", folder, environment).returncode == 0, verb
