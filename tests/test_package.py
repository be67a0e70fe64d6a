"""The built sdist and wheel work in an empty environment outside the checkout, data files included."""

import json
import os
import shlex
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from perfmodel.specs.published import published_points

ROOT = Path(__file__).parents[1]
QUESTION = (
    "--model llama-3.1-8b --hardware a100-sxm-80gb --tp 8 --batch 64 --context 32000 "
    "--draft self --draft-kv streamingllm:512 --gamma 2"
)
LINKS = {"perfmodel": "perfmodel"} | {name: f"perfmodel/{name}" for name in ("hardware", "validate", "results")}
"""Folder of the repository -> where the package has it."""
WHATIF = ["whatif", *shlex.split(QUESTION), "--json"]

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("package")]


def run(*command: object, cwd: Path) -> str:
    """Standard output of a command; nothing of this checkout is on its path."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=900
    )
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
    """(bin folder of an empty environment that holds the wheel and its base dependencies, an empty working folder)."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder / "env", with_pip=True)
    scripts = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    run(scripts / "python", "-m", "pip", "install", "--quiet", built[1], cwd=folder)
    return scripts, folder


NOT_IN_THE_WHEEL = ("perfmodel/validate/lm/checkpoint/",)
"""The trained model: no user of the package needs its megabytes."""


def data_files() -> set[str]:
    """Every data file of the source packages, as a path in the sdist and, most of them, in the wheel."""
    return {
        (Path(where) / path.relative_to(ROOT / folder)).as_posix()
        for folder, where in LINKS.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and "local-" not in path.as_posix()
        and path.suffix in (".yaml", ".csv", ".json", ".html", ".css", ".js")
    }


def test_wheel_and_sdist_hold_the_data_and_nothing_else(built: tuple[Path, Path]) -> None:
    sdist, wheel = built
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    with tarfile.open(sdist) as archive:
        packed = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {name for name in data_files() if not name.startswith(NOT_IN_THE_WHEEL)} <= names
    assert not [name for name in names if name.startswith(NOT_IN_THE_WHEEL) or name.endswith(".png")]
    assert data_files() | {"perfmodel/validate/lm/checkpoint/model.safetensors"} <= packed
    own = {"LICENSE", "README.md", "pyproject.toml", "tests/test_package.py", "notebooks/01_what_if.ipynb"}
    assert own <= packed
    assert {name.split("/")[0] for name in names} == {"perfmodel"}
    assert not [name for name in names | packed if name.endswith(".pyc")]


def test_the_wheel_is_small(built: tuple[Path, Path]) -> None:
    """Under 2 MB."""
    assert built[1].stat().st_size < 2e6


def test_whatif_runs_from_the_wheel(installed: tuple[Path, Path]) -> None:
    scripts, folder = installed
    answer = json.loads(run(scripts / "perfmodel", *WHATIF, cwd=folder))
    assert answer["schema_version"] == 2
    assert 1.0 < answer["speedup"] < 2.0  # measured: 1.28
    assert answer["target_step"]["lower_s"] <= answer["target_step"]["predicted_s"]
    assert json.loads(run(scripts / "python", "-m", "perfmodel", *WHATIF, cwd=folder)) == answer


def test_published_rows_load_from_the_wheel(installed: tuple[Path, Path]) -> None:
    scripts, folder = installed
    code = "from perfmodel.specs.published import published_points as p; print(len(p()))"
    assert int(run(scripts / "python", "-c", code, cwd=folder)) == len(published_points())


def test_the_wheel_lives_beside_configobj(installed: tuple[Path, Path]) -> None:
    """configobj installs a package named `validate`; both work, whichever came first."""
    scripts, folder = installed
    run(scripts / "python", "-m", "pip", "install", "--quiet", "configobj", cwd=folder)
    code = "import validate; print(validate.Validator().check('integer(1, 9)', '7'))"
    assert run(scripts / "python", "-c", code, cwd=folder).strip() == "7"
    assert "accuracy" in run(scripts / "perfmodel", "validate", "--help", cwd=folder)
    assert json.loads(run(scripts / "perfmodel", *WHATIF, cwd=folder))["speedup"] > 1
