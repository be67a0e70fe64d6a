"""docs/contributing.md does what it says: its files, put where it says, are a device, a model, a family, a
method, a draft, a policy and an engine.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_docs import GENERATE, ROOT

PAGE = ROOT / "docs" / "contributing.md"
TEXT = PAGE.read_text(encoding="utf-8")
TITLED = {b["file"]: b["body"] for b in GENERATE.FENCE.finditer(TEXT) if b["file"]}
FILES = {file: body for file, body in TITLED.items() if Path(file).parts[0] in GENERATE.TREE}
"""Those that are additions. The others are what a user of an addition has."""
ONE_EACH = {
    "hardware/gpus": "toy-9000",
    "perfmodel/models": "toy-1b",
    "perfmodel/models/families": "toylm",
    "perfmodel/kv": "strided",
    "perfmodel/drafts": "earlyexit",
    "perfmodel/queueing/policies": "quiet",
    "hardware/engines": "lmdeploy",
    "perfmodel/answers/advice/servers": "lmdeploy",
}

pytestmark = pytest.mark.slow


def test_the_page_prints_what_it_shows() -> None:
    """One file each and no other edit; its commands run in order in a copy of the tree, with the contract
    tests.
    """
    assert {str(Path(name).parent): Path(name).stem for name in FILES} == ONE_EACH
    assert "python -m pytest tests/contract" in TEXT
    assert GENERATE.filled(TEXT) == TEXT, "docs/contributing.md: run `make docs` and commit"


def test_files_that_break_the_contract_are_caught(tmp_path: Path) -> None:
    """A mistake in each of the page's files, in a copy of the source tree."""
    GENERATE.copy_tree(tmp_path)
    for name, good, bad in (
        ("hardware/gpus/toy-9000.yaml", "value: 3000, unit: GB/s", "value: 3, unit: GB/s"),
        ("perfmodel/models/toy-1b.yaml", "num_hidden_layers: 16", "num_hidden_layers: 17"),
        ("perfmodel/models/families/toylm.yaml", "modeling_toylm.py of toys/ToyLM-MoE", "its code"),
        ("perfmodel/kv/strided.py", ".times(self.beyond_budget(context))", ""),
        ("perfmodel/drafts/earlyexit.py", "(LayerSkip), arXiv 2404.16710", "somewhere"),
        ("hardware/engines/lmdeploy.yaml", "constants_of: sglang", "constants_of: nobody"),
        ("perfmodel/queueing/policies/quiet.py", 'noun = "the quiet hours"', 'noun = ""'),
    ):
        assert FILES[name].count(good) == 1
        (tmp_path / name).write_text(FILES[name].replace(good, bad), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "tests/contract", "-k", " or ".join(ONE_EACH.values())]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    failed = re.findall(r"^FAILED [^[]*\[([\w-]*)", done.stdout, re.MULTILINE)
    assert set(ONE_EACH.values()) <= {id for test in failed for id in ONE_EACH.values() if id in test}, (
        done.stdout
    )
