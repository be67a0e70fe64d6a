"""A ModelSpec from a ``.gguf`` file in place of a ``config.json``."""

from perfmodel.specs.gguf.shape import from_gguf

__all__ = ["from_gguf"]
