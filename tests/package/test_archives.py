"""The built sdist and wheel hold code and data, and nothing else."""

import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.package.shell import ROOT, Archives

INSTALLED = {"perfmodel": "perfmodel"} | {
    name: f"perfmodel/{name}" for name in ("hardware", "validate", "results")
}
"""Folder of the repository, and of the sdist -> where the wheel has it."""

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("package")]

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


def test_wheel_and_sdist_hold_code_and_data_and_nothing_else(built: Archives) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    with tarfile.open(built.sdist) as archive:
        packed = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {name for name in package_files().values() if not name.startswith(NOT_IN_THE_WHEEL)} <= names
    assert not [name for name in names if name.startswith(NOT_IN_THE_WHEEL) or name.endswith(".png")]
    assert package_files().keys() | {"validate/lm/checkpoint/model.safetensors"} <= packed
    root_files = {
        "LICENSE",
        "README.md",
        "pyproject.toml",
        "tests/package/test_archives.py",
        "notebooks/02_what_if.ipynb",
    }
    assert root_files <= packed
    assert {name.split("/")[0] for name in names} == {"perfmodel"}
    assert not [name for name in names | packed if name.endswith(".pyc")]
    assert built.wheel.stat().st_size < 3.0e6
