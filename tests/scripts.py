"""Scripts beside the package, such as those of docs/, as modules."""

import importlib.util
import sys
import types
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def of_docs(name: str) -> types.ModuleType:
    """docs/`name`.py, which may import its neighbours as it does when it is run."""
    sys.path.insert(0, str(DOCS))
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
