"""A small trained model. It is a byte-level model of the Llama family. It was trained on Python's standard
library, which every Python installation has.
"""

from pathlib import Path

from perfmodel.errors import InputError

CHECKPOINT = Path(__file__).parent / "checkpoint"
"""The folder of the trained model. Wheels do not contain this folder."""


def bundled_checkpoint() -> str:
    """The folder of the trained model. Raises InputError if the package was installed without it."""
    if not (CHECKPOINT / "model.safetensors").is_file():
        raise InputError(
            "--checkpoint: must be given: the small trained model comes with the source tree, not with "
            "the wheel"
        )
    return str(CHECKPOINT)


def is_trained_here(folder: Path | None) -> bool:
    """Whether a folder has a model that was trained here. The text on which it was not trained is then
    known.
    """
    return folder is not None and (folder / "recipe.json").is_file()
