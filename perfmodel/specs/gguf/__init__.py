"""Reads a model (ModelSpec) from a ``.gguf`` file instead of a ``config.json``."""
