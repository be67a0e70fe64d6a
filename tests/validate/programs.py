"""Programs that stand in for those of a machine, such as nvidia-smi."""

from pathlib import Path


def write_program(folder: Path, name: str, script: str) -> None:
    """A shell script of this name, which is found if `folder` is in the search path."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
