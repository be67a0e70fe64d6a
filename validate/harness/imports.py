"""Acceptance figures of serving engines, each in its own convention, turned into this project's table.

    vLLM     survival: drafts whose token at position j was accepted, over all drafts, j = 0 ... gamma - 1
    SGLang   tokens per iteration with the bonus token: completion tokens over verification passes
    NVIDIA   ``speculation_profile.json`` is a proposal without a published schema that we know of: rates by position
             are read from the field the caller names, in the convention the caller states; neither is guessed

The source that is written names the convention, so that a reader can check the arithmetic.
"""

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfmodel.acceptance import alpha_from_tokens_per_iteration, conditional_from_survival
from perfmodel.errors import InputError, refuse, unknown_name
from perfmodel.kv import parse_kv
from perfmodel.specs.acceptance_file import AcceptanceFile

CONVENTIONS = {
    "vllm": "vLLM per-position counters: accepted at position j over all drafts (survival, not conditional)",
    "sglang": "SGLang accept length: completion tokens over verification passes, bonus token included",
    "nvidia": "speculation profile, rates by position",
}
RATES = {
    "conditional": "accepted, given that all earlier ones of the iteration were",
    "survival": "accepted together with all earlier ones",
}
_METRIC = re.compile(r"^vllm:spec_decode_(\w+?)(?:_total)?(?:\{(.*)\})?\s+([0-9.eE+]+)\s*$", re.M)


@dataclass(frozen=True)
class Subject:
    """What the figures are of: they do not say so themselves."""

    target: str
    draft: str
    draft_kv: str
    context: int
    gamma: int


def import_file(
    path: Path, format: str, subject: Subject, convention: str | None = None, field: str | None = None
) -> AcceptanceFile:
    """Read one file of a format. Raises InputError naming the file and what it must hold.

    convention, field: of format ``nvidia`` only (`RATES`).
    """
    if format not in CONVENTIONS:
        raise unknown_name("--format", "format", format, CONVENTIONS)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: must be a readable text file: {error}") from None
    if format == "vllm":
        rates = _vllm(path, text)
    elif format == "sglang":
        rates = _sglang(path, text, subject.gamma)
    else:
        rates = _nvidia(path, text, convention, field)
    stated = f" ({RATES[convention]})" if format == "nvidia" and convention else ""
    method = parse_kv(subject.draft_kv)
    row = {
        "target": subject.target,
        "draft": subject.draft,
        "draft_kv": method.name,
        "kv_budget_tokens": method.budget,
        "context_tokens": float(subject.context),
        **rates,
    }
    source = f"{path.name}, {CONVENTIONS[format]}{stated}"
    return AcceptanceFile.model_validate({"schema_version": 1, "source": source, "rows": [row]})


def _vllm(path: Path, text: str) -> dict[str, Any]:
    """A Prometheus page, or JSON with `num_drafts` and `num_accepted_tokens_per_pos`."""
    if text.lstrip().startswith("{"):
        data = _json(path, text)
        drafts, accepted = data.get("num_drafts"), data.get("num_accepted_tokens_per_pos")
    else:
        drafts, accepted = _prometheus(text)
    if not isinstance(accepted, list) or not accepted or not all(map(_is_count, [drafts, *accepted])):
        raise InputError(f"{path}: must hold spec_decode counters num_drafts and num_accepted_tokens_per_pos")
    reached = [float(count) for count in (drafts, *accepted)]
    if any(after > before for before, after in itertools.pairwise(reached)) or not reached[0]:
        raise InputError(f"{path}: num_accepted_tokens_per_pos must not rise and be at most num_drafts ({drafts})")
    ends = [*reached[1:], 0.0]
    return {"histogram": [before - after for before, after in zip(reached, ends, strict=True)]}


def _prometheus(text: str) -> tuple[float | None, list[float]]:
    drafts, positions = None, dict[int, float]()
    for name, labels, value in _METRIC.findall(text):
        if name == "num_drafts":
            drafts = (drafts or 0.0) + float(value)
        elif name == "num_accepted_tokens_per_pos":
            at = re.search(r'position="(\d+)"', labels)
            if at:
                positions[int(at[1])] = positions.get(int(at[1]), 0.0) + float(value)
    return drafts, [positions.get(j, 0.0) for j in range(max(positions, default=-1) + 1)]


def _sglang(path: Path, text: str, gamma: int) -> dict[str, Any]:
    """JSON or JSON lines: requests with `meta_info` (`completion_tokens`, `spec_verify_ct`), or one `accept_length`."""
    entries = [_json(path, line) for line in text.splitlines() if line.strip()] if "\n{" in text.strip() else None
    data = entries if entries is not None else _any_json(path, text)
    requests = data if isinstance(data, list) else [data]
    if len(requests) == 1 and "accept_length" in requests[0]:
        omega = requests[0]["accept_length"]
    else:
        infos = [request.get("meta_info", request) for request in requests]
        try:
            passes = sum(info["spec_verify_ct"] for info in infos)
            omega = sum(info["completion_tokens"] for info in infos) / passes
        except (KeyError, TypeError, ZeroDivisionError):
            raise InputError(
                f"{path}: must hold accept_length, or completion_tokens and spec_verify_ct of each request"
            ) from None
    if not isinstance(omega, int | float) or not 1 <= omega <= gamma + 1:
        raise refuse(str(path), "accept length", f"from 1 to gamma + 1 = {gamma + 1} (set --gamma)", omega)
    return {"alpha": float(alpha_from_tokens_per_iteration(float(omega), float(gamma)))}


def _nvidia(path: Path, text: str, convention: str | None, field: str | None) -> dict[str, Any]:
    """Rates from 0 to 1 by position, first position first, in a field anywhere in the file."""
    if convention not in RATES:
        raise refuse("--convention", None, " or ".join(RATES), convention)
    found = dict(_rate_lists(_json(path, text)))
    if field is None and len(found) == 1:
        field = next(iter(found))
    if field not in found:
        names = ", ".join(found) or "none"
        raise InputError(f"{path}: --field must name one list of rates from 0 to 1 by position; lists there: {names}")
    rates = found[field]
    if convention == "survival":
        if any(after > before for before, after in itertools.pairwise([1.0, *rates])):
            raise InputError(f"{path}: {field}: survival must not rise from position to position")
        rates = [float(rate) for rate in conditional_from_survival([1.0, *rates])]
    return {"positions": rates}


def _rate_lists(data: Any, name: str = "") -> Iterator[tuple[str, list[float]]]:
    """Every list of numbers from 0 to 1, by its dotted name."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _rate_lists(value, f"{name}.{key}" if name else str(key))
    elif isinstance(data, list) and data and all(_is_count(value) and value <= 1 for value in data):
        yield name, [float(value) for value in data]


def _json(path: Path, text: str) -> dict[str, Any]:
    data = _any_json(path, text)
    if not isinstance(data, dict):
        raise InputError(f"{path}: must hold a JSON object, given {type(data).__name__}")
    return data


def _any_json(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{path}: must be valid JSON: {str(error)[:100]}") from None


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
