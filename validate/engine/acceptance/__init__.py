"""Acceptance figures of serving engines, each in its own convention, converted to this project's table.

One file per engine. The written source names the convention, so that a reader can check the arithmetic.
"""

from pathlib import Path
from typing import Any

from perfmodel.errors import InputError, refuse, unknown_name
from perfmodel.kv import parse_kv
from perfmodel.reading import read_text
from perfmodel.specs.acceptance.acceptance_file import AcceptanceFile
from perfmodel.specs.boundary import files
from perfmodel.specs.models.model import load_model
from perfmodel.speculation.acceptance import MAX_GAMMA
from perfmodel.validate.engine.acceptance import llama_cpp, sglang, vllm
from perfmodel.validate.engine.acceptance.counters import AcceptanceSubject as AcceptanceSubject

MODULES: dict[str, Any] = {"vllm": vllm, "llama.cpp": llama_cpp, "sglang": sglang}
"""Each has `WORDS`, one of which its texts contain, and `read(where, text, subject)`: a row's rates and their
origin.
"""


def import_file(path: Path, format: str | None, subject: AcceptanceSubject) -> AcceptanceFile:
    """Reads one file; format None detects it. Raises InputError naming the file and the expected content."""
    if format is not None and format not in MODULES:
        raise unknown_name("--format", "format", format, MODULES)
    for flag, name in (("--target", subject.target), ("--draft", subject.draft)):
        if not name.strip():
            raise refuse(flag, None, "a name", name)
    if not 1 <= subject.gamma <= MAX_GAMMA:
        raise refuse("--gamma", None, f"from 1 to {MAX_GAMMA}", subject.gamma)
    text = read_text(path)
    format = format or next(
        (name for name, module in MODULES.items() if any(word in text for word in module.WORDS)), None
    )
    if format is None:
        raise InputError(
            f"{path}: holds no acceptance figures known here; give --format ({', '.join(MODULES)})"
        )
    if subject.lengths and format != "vllm":
        raise refuse(
            "--lengths", None, "left out: only vLLM's counters can be taken apart by draft length", format
        )
    rates, source = MODULES[format].read(str(path), text, subject)
    counted = rates.get("histogram")
    if subject.gamma_given and not subject.lengths and counted and len(counted) != subject.gamma + 1:
        raise refuse("--gamma", None, f"{len(counted) - 1}, the positions in {path}", subject.gamma)
    method = parse_kv(subject.draft_kv)
    row = {
        "target": _name(subject.target),
        "draft": _name(subject.draft),
        "draft_kv": method.name,
        "kv_budget_tokens": method.budget,
        "context_tokens": float(subject.context),
        **rates,
    }
    data = {"schema_version": 1, "source": f"{path.name}, {source}", "rows": [row]}
    return files.parse(AcceptanceFile, data, str(path))


def _name(given: str) -> str:
    """The name of a model that is given by its path in a question, so that the same path finds its acceptance
    again.
    """
    if not files.looks_like_path(given):
        return given
    try:
        return load_model(given).name
    except InputError:  # a head, or a model that is elsewhere
        return given
