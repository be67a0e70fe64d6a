"""The archives and one installation of them, made once for all tests of the package."""

import os
import sys
import venv

import pytest

from tests.package.shell import ROOT, Archives, Installation, run


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return Archives(sdist, wheel)


@pytest.fixture(scope="session")
def installed(built: Archives, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder / "env", with_pip=True)
    scripts = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    run(scripts / "python", "-m", "pip", "install", "--quiet", built.wheel, cwd=folder)
    return Installation(scripts, folder)
