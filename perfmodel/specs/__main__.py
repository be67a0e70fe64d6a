"""``python -m perfmodel.specs``: write the index of the bundled devices' and models' other names."""

import json

from perfmodel.specs import files, gpu, model
from perfmodel.writing import write

OTHER_NAMES = {"gpus": gpu.other_names, "models": model.other_names}
"""Kind of file -> the other names that one of its files lists."""


def index(kind: str) -> str:
    """Bundled name -> spellings of its other names, as a JSON text with a line for each."""
    listed = {name: files.spellings(OTHER_NAMES[kind](name)) for name in files.bundled_names(kind)}
    lines = (f"  {json.dumps(name)}: {json.dumps(names, ensure_ascii=False)}" for name, names in listed.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    for kind in OTHER_NAMES:
        write(files.index_path(kind), index(kind))
