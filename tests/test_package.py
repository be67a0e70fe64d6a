"""The built sdist and wheel work in an empty environment outside the checkout, data files included."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from perfmodel.specs.published import published_points
from tests.validate.tiny_plan import BLOCK, write_plan

ROOT = Path(__file__).parents[1]
INSTALLED = {"perfmodel": "perfmodel"} | {
    name: f"perfmodel/{name}" for name in ("hardware", "validate", "results")
}
"""Folder of the repository, and of the sdist -> where the wheel has it."""
WHATIF = shlex.split(
    "whatif --model llama-3.1-8b --hardware a100-sxm-80gb --tp 8 --batch 64 --context 32000 "
    "--draft self --draft-kv streamingllm:512 --gamma 2 --json"
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("package")]


def shell(command: str, folder: Path, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    how = {"capture_output": True, "text": True, "check": False, "timeout": 900}
    return subprocess.run(["bash", "-c", command], cwd=folder, env=environment, **how)


def run(*command: object, cwd: Path) -> str:
    """Standard output of a command; nothing of this checkout is on its path."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = shell(shlex.join(map(str, command)), cwd, environment)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(sdist, wheel built from that sdist)."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(bin folder of an empty environment that holds the wheel and its base dependencies, an empty working
    folder).
    """
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder / "env", with_pip=True)
    scripts = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    run(scripts / "python", "-m", "pip", "install", "--quiet", built[1], cwd=folder)
    return scripts, folder


NOT_IN_THE_WHEEL = ("perfmodel/validate/lm/checkpoint/", "perfmodel/validate/studies/")
"""The trained model and how the constants were made: no user of the package needs them."""


def package_files() -> dict[str, str]:
    """Every module and data file of the source packages: its path in the sdist -> its path in the wheel."""
    return {
        path.relative_to(ROOT).as_posix(): (Path(where) / path.relative_to(ROOT / folder)).as_posix()
        for folder, where in INSTALLED.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and "local-" not in path.as_posix()
        and path.suffix in (".py", ".yaml", ".csv", ".json", ".html", ".css", ".js", ".mplstyle")
    }


def test_wheel_and_sdist_hold_code_and_data_and_nothing_else(built: tuple[Path, Path]) -> None:
    sdist, wheel = built
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    with tarfile.open(sdist) as archive:
        packed = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {name for name in package_files().values() if not name.startswith(NOT_IN_THE_WHEEL)} <= names
    assert not [name for name in names if name.startswith(NOT_IN_THE_WHEEL) or name.endswith(".png")]
    assert package_files().keys() | {"validate/lm/checkpoint/model.safetensors"} <= packed
    root_files = {
        "LICENSE",
        "README.md",
        "pyproject.toml",
        "tests/test_package.py",
        "notebooks/02_what_if.ipynb",
    }
    assert root_files <= packed
    assert {name.split("/")[0] for name in names} == {"perfmodel"}
    assert not [name for name in names | packed if name.endswith(".pyc")]
    assert wheel.stat().st_size < 2.7e6


def test_whatif_runs_from_the_wheel(installed: tuple[Path, Path]) -> None:
    scripts, folder = installed
    answer = json.loads(run(scripts / "perfmodel", *WHATIF, cwd=folder))
    assert answer["schema_version"] == 2
    assert 1.0 < answer["speedup"] < 2.0  # measured: 1.28
    assert answer["target_step"]["lower_s"] <= answer["target_step"]["predicted_s"]
    assert json.loads(run(scripts / "python", "-m", "perfmodel", *WHATIF, cwd=folder)) == answer
    code = "from perfmodel.specs.published import published_points as p; print(len(p()))"
    assert int(run(scripts / "python", "-c", code, cwd=folder)) == len(published_points())


def pasted(page: Path) -> str:
    """Every command of a page as one script: those that install, then the others, in their order.

    README shows an answer before it says how to install. The runs of `make` are left out: CI makes them.
    """
    blocks = r"^```(\w*)[^\n]*\n(.*?)^```$|^    ((?!make )[^ \n][^\n]*)$"
    script = []
    for language, block, line in re.findall(blocks, page.read_text("utf-8"), re.DOTALL | re.MULTILINE):
        console = re.match(r"\$ ((?:[^\n]*\\\n)*[^\n]*)", block)
        script.append({"": line, "console": console and console[1], "sh": block}.get(language, ""))
    script.sort(key=lambda command: not (command or "").startswith(("python3 -m venv ", "pip ")))
    return "\n".join(script)


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
@pytest.mark.parametrize(("page", "commands"), [("README.md", 6), ("docs/tutorial.md", 8)])
def test_a_page_runs_in_one_paste(built: tuple[Path, Path], tmp_path: Path, page: str, commands: int) -> None:
    """In a clone and an environment of its own, which finds the extras that are installed here."""
    with tarfile.open(built[0]) as archive:
        archive.extractall(tmp_path, filter="data")
    (clone,) = tmp_path.iterdir()
    venv.create(tmp_path / "env", with_pip=True)
    (packages,) = tmp_path.glob("env/lib/python*/site-packages")
    (packages / "shared.pth").write_text(f"{Path(find_spec('torch').origin).parents[1]}\n")
    script = pasted(ROOT / page)
    assert len(re.findall("^(?:pip|python3|perfmodel) ", script, re.MULTILINE)) == commands
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment["PATH"] = f"{tmp_path / 'env' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = shell(f"set -e\n{script}", clone, environment)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def without_git(folder: Path, scripts: Path) -> dict[str, str]:
    """The environment of a machine that has no git; the commands of an environment come first."""
    lacking = folder / "no-git"
    lacking.mkdir(exist_ok=True)
    (lacking / "git").write_text("#!/bin/sh\nexit 127\n")
    (lacking / "git").chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PERFMODEL"))}
    return kept | {"PATH": os.pathsep.join(map(str, (lacking, scripts, os.environ["PATH"])))}


def ci_page() -> tuple[list[str], list[str]]:
    """What docs/ci.md says to run by hand in a repository of one's own, and the steps of its workflow."""
    text = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    by_hand = [line.strip() for line in text.splitlines() if line.startswith("    p")]
    workflow = yaml.safe_load(text.split('title="perfmodel.yml"\n')[1].split("```")[0])
    return by_hand, [step["run"] for step in workflow["jobs"]["check"]["steps"] if "run" in step]


def test_validate_without_its_extra_says_which_and_how(installed: tuple[Path, Path]) -> None:
    """One line, exit status 2, for every verb that needs a package of it; those that do not run."""
    scripts, folder = installed
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


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
def test_the_ci_page_is_followed_from_the_wheel_in_an_empty_folder(built, installed, tmp_path) -> None:
    """Measured with torch of this environment, checked without it, no git anywhere, and broken by a tenth it
    fails.
    """
    torch_here = tmp_path / "measuring"
    venv.create(torch_here, with_pip=True)
    (packages,) = torch_here.glob("lib/python*/site-packages")
    run(torch_here / "bin" / "python", "-m", "pip", "install", "--no-deps", "--quiet", built[1], cwd=tmp_path)
    torch = Path(find_spec("torch").origin)
    (packages / "shared.pth").write_text(f"{torch.parents[1]}\n")  # what is here is not downloaded
    repository = tmp_path / "repository"
    (repository / "wheels").mkdir(parents=True)
    shutil.copy(built[1], repository / "wheels")
    plan = write_plan(tmp_path, micro={"rows": [1, 4], "max_bytes": 2**27}, grid=[{**BLOCK, "batch": [1]}])
    by_hand, steps = ci_page()
    assert len(by_hand) == 3
    assert len(steps) == 2
    for line in by_hand:
        done = shell(
            line.replace("cpu-quick", str(plan)), repository, without_git(tmp_path, torch_here / "bin")
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    assert {path.name for path in repository.iterdir()} == {"wheels", "results", "baseline.json"}
    scripts, _ = installed
    environment = without_git(tmp_path, scripts)
    for step in steps:
        done = shell(step, repository, environment)
        assert done.returncode == 0, f"{step}\n{done.stdout}\n{done.stderr}"
    assert "check: PASS" in done.stdout
    (calibration,) = repository.glob("results/mine-1/*-calibration.yaml")
    whole = yaml.safe_load(calibration.read_text(encoding="utf-8"))
    for name, constant in whole.items():
        if name.endswith("_s") and isinstance(constant, dict):
            constant["value"] *= 1.1
        elif name.endswith("_fraction"):
            constant["value"] /= 1.1
    calibration.write_text(yaml.safe_dump(whole), encoding="utf-8")
    done = shell(steps[-1], repository, environment)
    assert done.returncode == 1
    moved = re.findall(r"moved: mine-1/test-tiny/target_s: predictions by \+(\S+)% on average", done.stderr)
    assert [8 < float(share) < 11 for share in moved] == [True], done.stderr
    compared = shell("perfmodel validate compare --set mine-1", repository, environment)
    assert "mine-1/" in compared.stdout, compared.stderr
    for verb in ("accuracy", "calibrate engines"):
        refused = shell(f"perfmodel validate {verb}", repository, without_git(tmp_path, torch_here / "bin"))
        assert refused.returncode == 2, refused.stdout
        assert "is for maintainers, in a checkout of this project" in refused.stderr
