"""The commands of README and tutorial run in one paste."""

import os
import re
import tarfile
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.package.shell import ROOT, Archives, shell

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("package")]


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
def test_a_page_runs_in_one_paste(built: Archives, tmp_path: Path, page: str, commands: int) -> None:
    """In a clone and an environment of its own, which finds the extras that are installed here."""
    with tarfile.open(built.sdist) as archive:
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
