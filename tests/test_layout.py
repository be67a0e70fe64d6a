"""`perfmodel.validate` and the data files are found in a clone and in an installed package, without links."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ASKED = """
import json
import perfmodel
import perfmodel.validate.accuracy.compare as compare
from perfmodel.reading import data_folder
folders = {name: str(data_folder(name)) for name in ("models", "hardware", "results")}
at = {"model": "llama-3.1-8b", "hardware": "a100", "batch": 8, "context": 32000}
answer = perfmodel.whatif(**at, draft_kv="quest:512", alpha=0.8)
print(json.dumps([folders, compare.__file__, float(answer.speedup)]))
"""


def answered(root: Path) -> tuple[dict[str, str], str, float]:
    """(data folders, a file of `perfmodel.validate`, a speedup) of the package in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", ASKED], cwd=root, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_clone_and_an_installed_package_answer_the_same(tmp_path: Path, monkeypatch) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "studies", "checkpoint", "local-*")
    shutil.copytree(ROOT / "perfmodel", tmp_path / "perfmodel", ignore=ignored)
    for name in ("validate", "hardware", "results"):
        shutil.copytree(ROOT / name, tmp_path / "perfmodel" / name, ignore=ignored)
    speedups = []
    for root, outside in ((ROOT, ROOT), (tmp_path, tmp_path / "perfmodel")):
        monkeypatch.setenv("PYTHONPATH", str(root))
        folders, module, speedup = answered(root)
        assert folders == {
            "models": str(root / "perfmodel" / "models"),
            "hardware": str(outside / "hardware"),
            "results": str(outside / "results"),
        }
        assert Path(module) == outside / "validate" / "accuracy" / "compare.py"
        speedups.append(speedup)
    assert speedups[0] == speedups[1] > 1


def test_no_file_of_the_packages_is_a_link() -> None:
    """A checkout on Windows has none."""
    for name in ("perfmodel", "validate", "hardware", "results", "tests"):
        for folder, folders, files in os.walk(ROOT / name):
            assert [path for path in (*folders, *files) if os.path.islink(os.path.join(folder, path))] == []
