"""``python -m perfmodel.specs``: write the indexes of the bundled files: their other names, and what they state."""

import json
from collections.abc import Iterable

from perfmodel.specs import calibration, engines, files, gpu, model, ready, request_costs, serving
from perfmodel.specs.frozen import Frozen
from perfmodel.writing import write

OTHER_NAMES = {"gpus": gpu.other_names, "models": model.other_names}
"""Kind of file -> the other names that one of its files lists."""
STATED: dict[str, dict[str, type[Frozen]]] = {
    "gpus": dict.fromkeys(files.bundled_names("gpus"), gpu.GPUSpec),
    "models": dict.fromkeys(files.bundled_names("models"), model.ModelSpec),
    "calibrations": dict.fromkeys(files.bundled_names("calibrations"), calibration.Calibration),
    "": {"engines": engines.Engines, "serving": serving.ServingFile, "requests": request_costs.Requests},
}
"""Kind of file -> name of each -> what it is read as."""


def index(kind: str) -> str:
    """Bundled name -> spellings of its other names, as a JSON text with a line for each."""
    listed = {name: files.spellings(OTHER_NAMES[kind](name)) for name in files.bundled_names(kind)}
    return _object(f"  {json.dumps(name)}: {json.dumps(names, ensure_ascii=False)}" for name, names in listed.items())


def stated(kind: str) -> str:
    """Bundled name -> what its file states, checked anew: the text of its folder's `ready.READY`."""
    paths = {name: files.data_directory(kind) / f"{name}.yaml" for name in STATED[kind]}
    return _object(
        ready.line(name, path.read_bytes(), files.parse(STATED[kind][name], files.read_mapping(path), str(path)))
        for name, path in paths.items()
    )


def _object(lines: Iterable[str]) -> str:
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    for kind in STATED:
        write(files.data_directory(kind) / ready.READY, stated(kind))
    for kind in OTHER_NAMES:
        write(files.index_path(kind), index(kind))
