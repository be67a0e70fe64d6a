"""A real small model: byte-level, Llama-shaped, trained on sources that every Python installation has."""

from pathlib import Path

from perfmodel.errors import InputError

CHECKPOINT = Path(__file__).parent / "checkpoint"
"""The trained model, which is in the source tree only; wheels leave it out."""


def bundled_checkpoint() -> str:
    """The folder of the trained model. Raises InputError if the package was installed without it."""
    if not (CHECKPOINT / "model.safetensors").is_file():
        raise InputError(
            "--checkpoint: must be given: the small trained model comes with the source tree, not with "
            "the wheel"
        )
    return str(CHECKPOINT)


def is_trained_here(folder: Path | None) -> bool:
    """Whether a folder has the bundled model, whose held-out text is known."""
    return folder is not None and (folder / "recipe.json").is_file()
