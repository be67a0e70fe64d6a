"""The page about CI is followed from the wheel in an empty folder."""

import re
import shutil
import venv
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.package.shell import ROOT, run, shell, without_git
from tests.validate.tiny_plan import BLOCK, write_plan

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("package")]


class CIPage(NamedTuple):
    """What docs/ci.md says to run by hand in a repository of one's own, and the steps of its workflow."""

    by_hand: list[str]
    steps: list[str]


def ci_page() -> CIPage:
    """The commands of the page as it stands."""
    text = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    by_hand = [line.strip() for line in text.splitlines() if line.startswith("    p")]
    workflow = yaml.safe_load(text.split('title="perfmodel.yml"\n')[1].split("```")[0])
    return CIPage(by_hand, [step["run"] for step in workflow["jobs"]["check"]["steps"] if "run" in step])


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
def test_the_ci_page_is_followed_from_the_wheel_in_an_empty_folder(built, installed, tmp_path) -> None:
    """Measured with torch of this environment, checked without it, no git anywhere, and broken by a tenth it
    fails.
    """
    torch_here = tmp_path / "measuring"
    venv.create(torch_here, with_pip=True)
    (packages,) = torch_here.glob("lib/python*/site-packages")
    install = ("-m", "pip", "install", "--no-deps", "--quiet")
    run(torch_here / "bin" / "python", *install, built.wheel, cwd=tmp_path)
    torch = Path(find_spec("torch").origin)
    (packages / "shared.pth").write_text(f"{torch.parents[1]}\n")  # what is here is not downloaded
    repository = tmp_path / "repository"
    (repository / "wheels").mkdir(parents=True)
    shutil.copy(built.wheel, repository / "wheels")
    plan = write_plan(tmp_path, micro={"rows": [1, 4], "max_bytes": 2**27}, grid=[{**BLOCK, "batch": [1]}])
    page = ci_page()
    steps = page.steps
    assert len(page.by_hand) == 3
    assert len(steps) == 2
    for line in page.by_hand:
        done = shell(
            line.replace("cpu-quick", str(plan)), repository, without_git(tmp_path, torch_here / "bin")
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    assert {path.name for path in repository.iterdir()} == {"wheels", "results", "baseline.json"}
    scripts = installed.scripts
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
