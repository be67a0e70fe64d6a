"""Acceptance figures of serving engines, each in its own convention, turned into this project's table.

One file an engine. The source that is written names the convention, so that a reader can check the arithmetic.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfmodel.errors import InputError, refuse, unknown_name
from perfmodel.kv import parse_kv
from perfmodel.reading import read_text
from perfmodel.specs import files
from perfmodel.specs.acceptance_file import AcceptanceFile
from perfmodel.specs.model import load_model
from perfmodel.speculation.acceptance import MAX_GAMMA
from perfmodel.validate.engine.acceptance import llama_cpp, sglang, vllm

FORMATS = ("vllm", "sglang", "llama.cpp")


@dataclass(frozen=True)
class AcceptanceSubject:
    """What the figures are of: they do not say so themselves.

    lengths: the draft lengths above 0 that were in use, where there were several.
    """

    target: str
    draft: str
    draft_kv: str
    context: int
    gamma: int
    gamma_given: bool = True
    """Whether somebody stated gamma: then figures of another number of positions are refused."""
    lengths: tuple[int, ...] = ()


def import_file(path: Path, format: str | None, subject: AcceptanceSubject) -> AcceptanceFile:
    """Read one file; format None looks at it. Raises InputError naming the file and what it must hold."""
    if format is not None and format not in FORMATS:
        raise unknown_name("--format", "format", format, FORMATS)
    for flag, name in (("--target", subject.target), ("--draft", subject.draft)):
        if not name.strip():
            raise refuse(flag, None, "a name", name)
    if not 1 <= subject.gamma <= MAX_GAMMA:
        raise refuse("--gamma", None, f"from 1 to {MAX_GAMMA}", subject.gamma)
    text = read_text(path)
    rates, source = _read(str(path), text, format or _format_of(path, text), subject)
    held = len(rates.get("histogram", (0,))) - 1
    if subject.gamma_given and not subject.lengths and held and held != subject.gamma:
        raise refuse("--gamma", None, f"{held}, the positions in {path}", subject.gamma)
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
    """What a question calls a model that is given by its path, so that the same path finds its acceptance again."""
    if not files.looks_like_path(given):
        return given
    try:
        return load_model(given).name
    except InputError:  # a head, or a model that is elsewhere
        return given


def _format_of(path: Path, text: str) -> str:
    for name, found in (("vllm", vllm.is_vllm), ("llama.cpp", llama_cpp.is_llama_cpp), ("sglang", sglang.is_sglang)):
        if found(text):
            return name
    raise InputError(f"{path}: holds no acceptance figures known here; give --format ({', '.join(FORMATS)})")


def _read(where: str, text: str, format: str, subject: AcceptanceSubject) -> tuple[dict[str, Any], str]:
    """Rates of a row, and where they are from."""
    if format == "vllm":
        counters = vllm.read(where, text)
        rates = counters.rates(where, subject.draft, subject.lengths)
        said = counters.said(subject.draft, subject.lengths)
        return rates, f"{vllm.CONVENTION}; {said}" if said else vllm.CONVENTION
    if subject.lengths:
        raise refuse("--lengths", None, "left out: only vLLM's counters can be taken apart by draft length", format)
    if format == "sglang":
        return sglang.read(where, text, subject.gamma)
    return llama_cpp.read(where, text, subject.gamma), llama_cpp.CONVENTION
