"""Reads a ModelSpec from a ``.gguf`` file instead of a ``config.json``."""

from perfmodel.specs.gguf.shape import from_gguf

__all__ = ["from_gguf"]
