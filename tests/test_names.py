"""A class name says what the class is: none occurs twice, but for twins that mirror each other."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
TWINS = {"MoE"}
"""The experts of a model, and the answer about them."""
OFFENDERS = {"Errors", "Figure", "Fit", "Group", "Made", "Part", "Search", "_Frozen"}
"""Still to be renamed."""


def test_no_class_name_occurs_twice() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for folder in ("perfmodel", "validate"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if folder == "perfmodel" and "validate" in path.relative_to(ROOT).parts[1:]:
                continue  # a link
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: files for name, files in places.items() if len(files) > 1 and name not in TWINS | OFFENDERS}
    assert not twice
