"""What can be tried of a release before GitHub runs it: its version, and the step that compares the tag."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def test_changelog_and_citation_have_the_version_of_the_package() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.search("^## (.+)$", changelog, re.MULTILINE)
    assert heading is not None
    assert VERSION in heading[1]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(citation["version"]) == VERSION


@pytest.mark.parametrize(("tag", "status"), [(f"v{VERSION}", 0), (VERSION, 1), (f"v{VERSION}.post1", 1)])
def test_the_workflow_takes_only_the_tag_of_the_version(tag: str, status: int) -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    (step,) = (step for step in workflow["jobs"]["build"]["steps"] if "TAG" in step.get("env", {}))
    line = step["run"].replace("$(python ", f"$({sys.executable} ")
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, env=os.environ | {"TAG": tag}, check=False)
    assert done.returncode == status
