"""A class name says what the class is: none occurs twice, but for twins; and what is declared is where the
docs say.
"""

import ast
import re
import shlex
import subprocess
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
TWINS = {"MoE"}
"""The experts of a model, and the answer about them."""


def test_no_class_name_occurs_twice() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for folder in ("perfmodel", "validate"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if folder == "perfmodel" and "validate" in path.relative_to(ROOT).parts[1:]:
                continue  # a link
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: files for name, files in places.items() if len(files) > 1 and name not in TWINS}
    assert not twice


def test_where_it_is_declared() -> None:
    """Each file or folder of the table in docs/contributing.md is there, and what it names stands in it."""
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    table = page.split("## Where it is declared")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith(("| a", "| the"))]
    assert len(rows) > 8
    for _, where, look in rows:
        names = re.findall(r"`([^`]+)`", where)
        places = [ROOT / name for name in names if "/" in name]
        assert places
        assert all(place.exists() for place in places), where
        held = "".join(place.read_text(encoding="utf-8") for place in places if place.is_file())
        assert all(name.removeprefix("class ") in held for name in names if "/" not in name), where
        if command := re.findall(r"`(grep [^`]+)`", look):
            assert subprocess.run(shlex.split(command[0]), cwd=ROOT, capture_output=True, check=False).stdout
