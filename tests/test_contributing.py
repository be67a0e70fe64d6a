"""docs/contributing.md does what it says: its files, put where it says, are a device, a model, a method, a
draft and a policy.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_docs import GENERATE, ROOT

PAGE = ROOT / "docs" / "contributing.md"
TEXT = PAGE.read_text(encoding="utf-8")
FILES = {b["file"]: b["body"] for b in GENERATE.FENCE.finditer(TEXT) if b["file"]}
ONE_EACH = {
    "hardware/gpus": "toy-9000",
    "perfmodel/models": "toy-1b",
    "perfmodel/kv": "strided",
    "perfmodel/drafts": "earlyexit",
    "perfmodel/queueing/policies": "quiet",
}
NAMES = " or ".join(ONE_EACH.values())

pytestmark = pytest.mark.xdist_group("contributing")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source tree with the files of the page."""
    folder = tmp_path_factory.mktemp("tree")
    GENERATE.copy_tree(folder)
    for name, body in FILES.items():
        assert not (folder / name).exists()
        (folder / name).write_text(body, encoding="utf-8")
    return folder


def python(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=tree, capture_output=True, text=True, check=False)


def test_the_page_prints_what_it_shows() -> None:
    """One file each and no other edit; its commands run in order in a copy of the tree, with the contract
    tests.
    """
    assert {str(Path(name).parent): Path(name).stem for name in FILES} == ONE_EACH
    assert "python -m pytest tests/test_contract.py" in TEXT
    assert GENERATE.filled(TEXT) == TEXT, "docs/contributing.md: run `make docs` and commit"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("hardware/gpus/toy-9000.yaml", "value: 3000, unit: GB/s", "value: 3, unit: GB/s"),
        ("perfmodel/models/toy-1b.yaml", "num_hidden_layers: 16", "num_hidden_layers: 17"),
        ("perfmodel/kv/strided.py", ".times(self.beyond_budget(context))", ""),
        ("perfmodel/drafts/earlyexit.py", "(LayerSkip), arXiv 2404.16710", "somewhere"),
        ("perfmodel/queueing/policies/quiet.py", "TOKENS, BUSY = 3", "TOKENS, BUSY = 9"),
    ],
)
def test_a_file_that_breaks_the_contract_is_caught(name: str, good: str, bad: str, tree: Path) -> None:
    path = tree / name
    assert FILES[name].count(good) == 1
    path.write_text(FILES[name].replace(good, bad), encoding="utf-8")
    try:
        done = python(tree, "-m", "pytest", "-x", "tests/test_contract.py", "-k", path.stem)
        assert "1 failed" in done.stdout, done.stdout
    finally:
        path.write_text(FILES[name], encoding="utf-8")
