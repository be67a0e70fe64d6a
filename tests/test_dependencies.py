"""What the package depends on: declared, bounded, and locked for CI."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.test_floors import imports, modules, of_validate

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
IMPORTED_AS = {"yaml": "pyyaml"}
PINNED_BY_TORCH = {"triton"}
COME_WITH = {"anyio": "mcp", "ipython": "ipykernel"}
ASKED_FOR = {"tokenizers"}
"""Named in a line where somebody needs them."""


def declared(*extras: str) -> list[Requirement]:
    """The base's requirements and those of some extras; extras that name extras of this package are spelt
    out.
    """
    found = [Requirement(text) for text in PROJECT["dependencies"] + [r for e in extras for r in EXTRAS[e]]]
    within = [extra for r in found if r.name == PROJECT["name"] for extra in r.extras]
    return [r for r in found if r.name != PROJECT["name"]] + (declared(*within) if within else [])


def locked() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    assert all(len(pin.specifier) == 1 and next(iter(pin.specifier)).operator == "==" for pin in pins)
    return {canonicalize_name(pin.name): Version(next(iter(pin.specifier)).version) for pin in pins}


def test_ci_installs_what_is_locked_and_allowed() -> None:
    """A requirement that is raised without `make lock` fails here; so does a lock that goes beyond what is
    allowed.
    """
    pins = locked()
    for wanted in declared("validate", "dev", "docs"):
        if wanted.name not in PINNED_BY_TORCH:
            assert pins[canonicalize_name(wanted.name)] in wanted.specifier, wanted
    assert len(pins) > 100
    assert all(not version.local for version in pins.values())


def test_a_release_installs_the_locked_versions_by_hash() -> None:
    text = (ROOT / "constraints-release.txt").read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line.split("--hash=sha256:") for line in text.splitlines() if not line.startswith("#")]
    assert all(hashes for _, *hashes in lines)
    pins = {Requirement(line[0]).name: str(Requirement(line[0]).specifier) for line in lines}
    assert {r.name for r in declared()} <= set(pins)
    assert {
        name: pin for name, pin in pins.items() if name in locked() and pin != f"=={locked()[name]}"
    } == {}


@pytest.mark.parametrize(
    "name", ["numpy", "pyyaml", "click", "scipy", "torch", "safetensors", "pandas", "httpx"]
)
def test_a_new_major_version_waits_for_a_look(name: str) -> None:
    (wanted, *_) = [r for r in declared("validate", "notebooks") if r.name == name]
    upper = [s.version for s in wanted.specifier if s.operator == "<"]
    assert len(upper) == 1
    assert Version(upper[0]).release[0] == locked()[name].release[0] + 1


def test_workflows_run_actions_of_one_commit_and_tools_of_one_version() -> None:
    """A tag can be moved; the version is in a comment that dependabot renews."""
    for path in (ROOT / "action.yml", *(ROOT / ".github" / "workflows").glob("*.yml")):
        text = path.read_text(encoding="utf-8")
        used = re.findall(r"uses: (.*)", text)
        assert used
        assert [u for u in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", u)] == []
        assert [run for run in re.findall(r"pipx run .*", text) if "==" not in run] == []


def imported(validate: bool) -> set[str]:
    """Top-level packages that the modules of `validate`, or all others, import, also inside functions."""
    found = {
        to.partition(".")[0] for name in modules() if of_validate(name) == validate for _, to in imports(name)
    }
    return {IMPORTED_AS.get(name, name) for name in found - set(sys.stdlib_module_names)}


def test_no_answer_needs_scipy_and_every_import_is_declared() -> None:
    assert "scipy" in imported(validate=True)
    assert "scipy" not in imported(validate=False)
    known = (
        {canonicalize_name(r.name) for r in declared(*EXTRAS)} | {"perfmodel"} | COME_WITH.keys() | ASKED_FOR
    )
    assert {canonicalize_name(name) for name in imported(True) | imported(False)} <= known
