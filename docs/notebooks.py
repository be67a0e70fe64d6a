"""The notebooks with their outputs: run from their own folder, and kept without what changes from run to run.

``python docs/notebooks.py [NAME ...]``, or ``make docs``; a slow test runs them again and compares.
"""

import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat

FOLDER = Path(__file__).parents[1] / "notebooks"
SECONDS = 300


def run(path: Path) -> Any:
    """A notebook with the outputs of a fresh kernel in its folder, stripped."""
    notebook = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": str(path.parent)}}
    # what a cell prints may come in several pieces
    nbclient.NotebookClient(notebook, timeout=SECONDS, resources=place, coalesce_streams=True).execute()
    return stripped(notebook)


def stripped(notebook: Any) -> Any:
    """Without times, versions, and numbers of executions."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = nbformat.from_dict({"kernelspec": kernel, "language_info": {"name": "python"}})
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        if cell.cell_type == "code":
            cell.execution_count = None
            for output in cell.outputs:
                output.pop("execution_count", None)
                if output.output_type == "execute_result":
                    output.execution_count = None
                size = output.pop("metadata", {}).get("image/png")
                if output.output_type != "stream":
                    output.metadata = nbformat.from_dict({"image/png": size} if size else {})
    return notebook


def main(names: list[str]) -> None:
    """Write the notebooks that are named, or all."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.stem in names:
            nbformat.write(run(path), path)
            print("ran", path.name, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
