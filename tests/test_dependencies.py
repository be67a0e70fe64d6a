"""What the package depends on: declared, bounded, and locked for CI."""

import re
import sys
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.test_floors import ROOT, imports, modules, of_validate

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
IMPORTED_AS = {"yaml": "pyyaml", "PIL": "pillow"}
PINNED_BY_TORCH = {"triton"}
COME_WITH = {"anyio": "mcp", "ipython": "ipykernel", "pillow": "matplotlib"}
ASKED_FOR = {"tokenizers"}
"""Named in a line where somebody needs them."""


def declared(*extras: str) -> list[Requirement]:
    """The base's requirements and those of some extras; extras that name extras of this package are spelt
    out.
    """
    texts = [*PROJECT["dependencies"], *(text for extra in extras for text in EXTRAS[extra])]
    requirements = [Requirement(text) for text in texts]
    within = [extra for r in requirements if r.name == PROJECT["name"] for extra in r.extras]
    others = [one for one in requirements if one.name != PROJECT["name"]]
    return others + (declared(*within) if within else [])


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


def hashed(name: str) -> dict[str, str]:
    """Package -> its pinned version, of a file in which every package has the hashes of its archives."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line.split("--hash=sha256:") for line in text.splitlines() if not line.startswith("#")]
    assert all(hashes for _, *hashes in lines)
    pins = [Requirement(requirement) for requirement, *_ in lines]
    return {canonicalize_name(pin.name): str(pin.specifier) for pin in pins}


@pytest.mark.parametrize("name", ["constraints-release.txt", "constraints-dev.txt"])
def test_hashed_packages_have_the_locked_versions(name: str) -> None:
    pins = hashed(name)
    versions = locked()
    assert {r.name for r in declared()} <= pins.keys()
    both = {package: pin for package, pin in pins.items() if package in versions}
    assert both == {package: f"=={versions[package]}" for package in both}


def test_ci_installs_all_but_torch_by_hash_before_it_runs() -> None:
    assert locked().keys() - hashed("constraints-dev.txt").keys() == {"torch"}
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
    for name in ("test", "macos", "windows"):
        commands = [step["run"] for step in jobs[name]["steps"] if "run" in step]
        assert commands[0].endswith("pip install --require-hashes --no-deps -r constraints-dev.txt"), name


def imported(validate: bool) -> set[str]:
    """Top-level packages that the modules of `validate`, or all others, import, also inside functions."""
    here = [name for name in modules() if of_validate(name) == validate]
    packages = {to.partition(".")[0] for name in here for _, to in imports(name)}
    return {IMPORTED_AS.get(name, name) for name in packages - set(sys.stdlib_module_names)}


def test_no_answer_needs_scipy_and_every_import_is_declared() -> None:
    assert "scipy" in imported(validate=True)
    assert "scipy" not in imported(validate=False)
    stated = {canonicalize_name(one.name) for one in declared(*EXTRAS)}
    known = stated | {"perfmodel"} | COME_WITH.keys() | ASKED_FOR
    assert {canonicalize_name(name) for name in imported(True) | imported(False)} <= known


def test_what_builds_a_release_is_pinned_and_has_a_hash() -> None:
    (backend,) = SETTINGS["build-system"]["requires"]
    assert Requirement(backend).specifier == SpecifierSet(f"=={locked()['hatchling']}")
    assert f"\n{backend} \\\n    --hash=sha256:" in (ROOT / "constraints-release.txt").read_text(
        encoding="utf-8"
    )


def test_no_job_of_a_release_both_fetches_packages_and_may_write() -> None:
    """Publishing needs twine, by hash, and no more rights than to say who publishes."""
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))["jobs"]
    scripts = {}
    for name, job in jobs.items():
        scripts[name] = " ".join(step.get("run", "") for step in job["steps"])
    for name, job in jobs.items():
        rights = job.get("permissions", {})
        if rights.get("contents") == "write":
            assert "pip" not in scripts[name]
        if rights.get("id-token") == "write":
            assert scripts[name].count("pip install") == scripts[name].count("--require-hashes") == 1
            assert "build" not in scripts[name]


def test_workflows_fetch_packages_by_hash_alone() -> None:
    """What a step builds here, or has fetched by hash before, has no hash of its own."""
    without = ("--require-hashes", "--no-index", "--no-deps dist/", "--no-deps --no-build-isolation -e .")
    fetching = re.compile(r"\bpip\b.* (install|download)\b|\bpipx\b|\buvx?\b|\bnpm\b")
    for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            for line in "\n".join(step.get("run", "") for step in job["steps"]).splitlines():
                if fetching.search(line):
                    assert any(word in line for word in without), f"{path.name}: {line}"
