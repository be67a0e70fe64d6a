"""Reads a ModelSpec from a ``.gguf`` file instead of a ``config.json``."""
