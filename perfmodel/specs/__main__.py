"""``python -m perfmodel.specs``: write the index of the bundled files: what they state."""

from perfmodel.specs.boundary import files, ready
from perfmodel.specs.boundary.frozen import Frozen
from perfmodel.specs.calibrations import calibration
from perfmodel.specs.devices import gpu
from perfmodel.specs.engines import engines, request_costs, serving
from perfmodel.specs.models import model
from perfmodel.writing import write

STATED: dict[str, dict[str, type[Frozen]]] = {
    "gpus": dict.fromkeys(files.bundled_names("gpus"), gpu.GPUSpec),
    "models": dict.fromkeys(files.bundled_names("models"), model.ModelSpec),
    "calibrations": dict.fromkeys(files.bundled_names("calibrations"), calibration.Calibration),
    "": {"engines": engines.Engines, "serving": serving.ServingFile, "requests": request_costs.Requests},
}
"""Kind of file -> name of each -> what it is read as."""


def stated(kind: str) -> str:
    """Bundled name -> what its file states, checked anew: the text of its folder's `ready.READY`."""
    paths = {name: files.data_directory(kind) / f"{name}.yaml" for name in STATED[kind]}
    lines = (
        ready.line(
            name, path.read_bytes(), files.parse(STATED[kind][name], files.read_mapping(path), str(path))
        )
        for name, path in paths.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    for kind in STATED:
        write(files.data_directory(kind) / ready.READY, stated(kind))
