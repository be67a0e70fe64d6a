"""Benchmark files of serving engines and their clients, one file a format, found by what they hold.

Each module has `TITLE`, `KEYS`, sets of keys of which a JSON object of it has one, and `read(where, run, said)`, the
steps that such an object times. A file may hold several objects, all of one format.
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from perfmodel.errors import InputError
from perfmodel.reading import read_text
from perfmodel.specs import files
from perfmodel.validate.engine.formats import printed_block
from perfmodel.validate.engine.text import parse_objects
from perfmodel.validate.engine.timing import Said, Timing

NAMES = (
    "perfmodel_record", "vllm_forward", "vllm_serve", "vllm_latency", "sglang_serving", "llama_bench", "llama_server",
    "guidellm", "aiperf", "llmd_report",
)  # fmt: skip


def modules() -> dict[str, ModuleType]:
    """Name -> module of every format."""
    return {name: import_module(f"{__name__}.{name}") for name in NAMES}


def is_of(module: ModuleType, run: dict[str, Any]) -> bool:
    """Whether a JSON object is of a format."""
    return any(keys <= run.keys() for keys in module.KEYS)


def read(path: Path, said: Said) -> list[Timing]:
    """The steps that a file of any format times. Raises InputError naming the file and what is wrong or missing."""
    text = read_text(path)
    if printed_block.HEAD in text:
        return printed_block.read(path.name, text, said)
    runs = [files.read_mapping(path)] if path.suffix in (".yaml", ".yml") else parse_objects(str(path), text)
    for module in modules().values():
        if all(is_of(module, run) for run in runs):
            places = [path.name] if len(runs) == 1 else [f"{path.name}: run {n}" for n in range(1, len(runs) + 1)]
            return [t for where, run in zip(places, runs, strict=True) for t in module.read(where, run, said)]
    titles = "; ".join(module.TITLE for module in (*modules().values(), printed_block))
    raise InputError(f"{path}: holds no benchmark known here; known: {titles}")
