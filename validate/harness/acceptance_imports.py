"""Acceptance figures of serving engines, each in its own convention, turned into this project's table.

    vLLM     survival: drafts whose token at position j was accepted, over all drafts, j = 0 ... gamma - 1
    SGLang   tokens per iteration with the bonus token: completion tokens over verification passes

The source that is written names the convention, so that a reader can check the arithmetic.
"""

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from perfmodel.errors import InputError, refuse, unknown_name
from perfmodel.kv import parse_kv
from perfmodel.specs import files
from perfmodel.specs.acceptance_file import AcceptanceFile
from perfmodel.speculation.acceptance import MAX_GAMMA, alpha_from_tokens_per_iteration

CONVENTIONS = {
    "vllm": "vLLM per-position counters: accepted at position j over all drafts (survival, not conditional)",
    "sglang": "SGLang accept length: completion tokens over verification passes, bonus token included",
}
MAX_COUNT = 1e18
_METRIC = re.compile(
    r"^[ \t]*vllm:spec_decode_(num_drafts|num_accepted_tokens_per_pos)(?:_total)?(?![\w:])"
    r'(?:[ \t]*\{((?:[^"}\n]|"(?:\\.|[^"\\\n])*")*)\})?(.*)$',
    re.M,
)
"""One counter of a Prometheus page: name, labels, and all the rest of its line, readable or not."""
_POSITION = re.compile(r'(?:^|,)\s*position="(\d{1,9})"')
_VALUE = re.compile(r"\s+(\S+)(?:\s+-?[\d.]+)?\s*")
"""A value and, where there is one, the time it was taken at."""


@dataclass(frozen=True)
class Subject:
    """What the figures are of: they do not say so themselves."""

    target: str
    draft: str
    draft_kv: str
    context: int
    gamma: int
    gamma_given: bool = True
    """Whether somebody stated gamma: then figures of another number of positions are refused."""


def import_file(path: Path, format: str, subject: Subject) -> AcceptanceFile:
    """Read one file of a format. Raises InputError naming the file and what it must hold."""
    if format not in CONVENTIONS:
        raise unknown_name("--format", "format", format, CONVENTIONS)
    for flag, name in (("--target", subject.target), ("--draft", subject.draft)):
        if not name.strip():
            raise refuse(flag, None, "a name", name)
    if not 1 <= subject.gamma <= MAX_GAMMA:
        raise refuse("--gamma", None, f"from 1 to {MAX_GAMMA}", subject.gamma)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: must be a readable text file: {error}") from None
    try:
        rates = _vllm(path, text) if format == "vllm" else _sglang(path, text, subject.gamma)
    except RecursionError:
        raise InputError(f"{path}: must not be nested so deeply") from None
    positions = len(rates.get("histogram", ())) - 1
    if subject.gamma_given and format == "vllm" and positions != subject.gamma:
        raise refuse("--gamma", None, f"{positions}, the positions in {path}", subject.gamma)
    method = parse_kv(subject.draft_kv)
    row = {
        "target": subject.target,
        "draft": subject.draft,
        "draft_kv": method.name,
        "kv_budget_tokens": method.budget,
        "context_tokens": float(subject.context),
        **rates,
    }
    source = f"{path.name}, {CONVENTIONS[format]}"
    return files.parse(AcceptanceFile, {"schema_version": 1, "source": source, "rows": [row]}, str(path))


def _vllm(path: Path, text: str) -> dict[str, Any]:
    """A Prometheus page, or JSON with `num_drafts` and `num_accepted_tokens_per_pos`."""
    if text.lstrip().startswith("{"):
        data = _json(path, text)
        drafts, accepted = data.get("num_drafts"), data.get("num_accepted_tokens_per_pos")
    else:
        drafts, accepted = _prometheus(path, text)
    if not isinstance(accepted, list) or not accepted or not all(map(_is_count, [drafts, *accepted])):
        raise InputError(
            f"{path}: must hold spec_decode counters num_drafts and num_accepted_tokens_per_pos, finite and 0 or more"
        )
    reached = [float(count) for count in (drafts, *accepted)]
    if any(after > before for before, after in itertools.pairwise(reached)) or not reached[0]:
        raise InputError(f"{path}: num_accepted_tokens_per_pos must not rise and be at most num_drafts ({drafts})")
    ends = [*reached[1:], 0.0]
    return {"histogram": [before - after for before, after in zip(reached, ends, strict=True)]}


def _prometheus(path: Path, text: str) -> tuple[float | None, list[float]]:
    """Drafts, and those accepted by position; several engines' counters are added."""
    drafts, positions = None, dict[int, float]()
    for found in _METRIC.finditer(text):
        name, labels, rest = found.groups(default="")
        value, at = _count(rest), _POSITION.search(labels)
        if value is None:
            where = f"spec_decode_{name}" + (f" position {at[1]}" if at else "")
            raise refuse(str(path), where, "a finite count, 0 or more", rest.strip())
        if name == "num_drafts":
            drafts = (drafts or 0.0) + value
        elif not at:
            raise refuse(str(path), f"spec_decode_{name}", "labelled with its position", labels)
        else:
            positions[int(at[1])] = positions.get(int(at[1]), 0.0) + value
    if sorted(positions) != list(range(len(positions))):
        raise refuse(str(path), "positions", "0, 1, 2, ... without gaps", sorted(positions))
    return drafts, [positions[j] for j in range(len(positions))]


def _count(text: str) -> float | None:
    """The value at the end of a counter's line; None where it is no count."""
    found = _VALUE.fullmatch(text)
    try:
        value = float(found[1]) if found else -1.0
    except ValueError:
        return None
    return value if _is_count(value) else None


def _sglang(path: Path, text: str, gamma: int) -> dict[str, Any]:
    """JSON or JSON lines: requests with `meta_info` (`completion_tokens`, `spec_verify_ct`), or one `accept_length`."""
    requests = _requests(path, text)
    if len(requests) == 1 and "accept_length" in requests[0]:
        omega = requests[0]["accept_length"]
    else:
        tokens, passes = (sum(_of_requests(path, requests, key)) for key in ("completion_tokens", "spec_verify_ct"))
        omega = tokens / passes if passes else None
    if not _is_count(omega) or not 1 <= omega <= gamma + 1:
        raise refuse(str(path), "accept length", f"from 1 to gamma + 1 = {gamma + 1} (set --gamma)", omega)
    return {"alpha": float(alpha_from_tokens_per_iteration(float(omega), float(gamma)))}


def _requests(path: Path, text: str) -> list[dict[str, Any]]:
    """One JSON object, a list of them, or one a line."""
    try:
        data = json.loads(text)
    except ValueError:
        lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
        data = [_any_json(f"{path}: line {n}", line) for n, line in lines]
    requests = data if isinstance(data, list) else [data]
    if not requests or not all(isinstance(request, dict) for request in requests):
        raise InputError(f"{path}: must hold JSON objects, one for each request")
    return requests


def _of_requests(path: Path, requests: list[dict[str, Any]], key: str) -> Iterator[float]:
    for request in requests:
        info = request.get("meta_info", request)
        value = info.get(key) if isinstance(info, dict) else None
        if value is None:
            needed = "accept_length, or completion_tokens and spec_verify_ct of each request"
            raise InputError(f"{path}: must hold {needed}")
        if not _is_count(value):
            raise refuse(str(path), key, "a finite count, 0 or more, in each request", value)
        yield float(value)


def _json(path: Path, text: str) -> dict[str, Any]:
    data = _any_json(str(path), text)
    if not isinstance(data, dict):
        raise InputError(f"{path}: must hold a JSON object, given {type(data).__name__}")
    return data


def _any_json(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{where}: must be valid JSON: {str(error)[:100]}") from None


def _is_count(value: object) -> TypeGuard[float]:
    """A number from 0 on that is finite; beyond `MAX_COUNT` sums might not be."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
