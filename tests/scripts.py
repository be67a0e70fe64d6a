"""The root of the tree, and its scripts, such as those of docs/, as modules."""

import importlib
import sys
import types
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "docs"))


def of_docs(name: str) -> types.ModuleType:
    """docs/`name`.py, which may import its neighbours as it does when it is run."""
    return importlib.import_module(name)
