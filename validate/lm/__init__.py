"""A small trained model. It is a byte-level model of the Llama family, trained on Python's standard library,
which every Python installation has.
"""

from pathlib import Path

from perfmodel.errors import InputError

CHECKPOINT = Path(__file__).parent / "checkpoint"
"""The folder of the trained model. Only the source tree has it; wheels do not."""


def bundled_checkpoint() -> str:
    """The folder of the trained model. Raises InputError if the package was installed without it."""
    if not (CHECKPOINT / "model.safetensors").is_file():
        raise InputError(
            "--checkpoint: must be given: the small trained model comes with the source tree, not with "
            "the wheel"
        )
    return str(CHECKPOINT)


def is_trained_here(folder: Path | None) -> bool:
    """Whether a folder has the bundled model, for which it is known which text it was not trained on."""
    return folder is not None and (folder / "recipe.json").is_file()
