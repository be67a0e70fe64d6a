"""How often drafted tokens are accepted, observed by decoding real text: a table that `whatif --acceptance` reads."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from perfmodel.errors import InputError, refuse
from perfmodel.kv import parse_kv
from perfmodel.specs.acceptance_file import AcceptanceFile
from perfmodel.specs.acceptance_rows import positions_from_histogram
from perfmodel.speculation.acceptance import MAX_GAMMA, alpha_from_tokens_per_iteration
from perfmodel.validate.decoder.factory import make_decoder
from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.request import Request
from perfmodel.validate.decoder.sampling import Sampling
from perfmodel.validate.decoder.weights import load
from perfmodel.validate.harness import environment
from perfmodel.validate.lm import bundled_checkpoint
from perfmodel.validate.lm.data import held_out_prompts
from perfmodel.validate.records.code_version import commit

METHODS = (
    "full",
    "streamingllm:256",
    "snapkv:256",
    "quest:256",
    "topk:256",
)


@dataclass(frozen=True)
class Setting:
    """What to observe. checkpoint None: the bundled byte-level model, and its held-out text."""

    checkpoint: str | None
    draft_kv: tuple[str, ...]
    contexts: tuple[int, ...]
    gamma: int
    prompts: int
    new_tokens: int
    temperature: float = 0.0
    text: Path | None = None
    device: str = "cpu"
    threads: int | None = None
    seed: int = 0


def measure(setting: Setting) -> AcceptanceFile:
    """Decode every prompt with every method at every context; InputError where text or positions run out.

    histogram[j] of a row counts iterations in which exactly j drafted tokens were accepted, the bonus token aside.
    """
    _check(setting)
    methods = {spelled: parse_kv(spelled) for spelled in setting.draft_kv}
    if len({(method.name, method.budget) for method in methods.values()}) < len(methods):
        raise refuse("--draft-kv", None, "methods that differ in name or budget", ", ".join(methods))
    work = {
        # a draft whose budget is the context would read everything: that is `full`
        context: [spelled for spelled, method in methods.items() if method.budget is None or method.budget < context]
        for context in dict.fromkeys(setting.contexts)
    }
    if not any(work.values()):
        longest = max(setting.contexts)
        raise refuse("--draft-kv", None, f"of a budget below the context, {longest}", ", ".join(setting.draft_kv))
    if setting.threads:
        torch.set_num_threads(setting.threads)
    device = environment.device_of(setting.device)
    folder = setting.checkpoint or bundled_checkpoint()
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    model = load(folder, "checkpoint", device, dtype)
    prompts = {context: _prompts(setting, _length(setting, context, model), model) for context in work}
    rows: list[dict[str, Any]] = [
        {
            "target": model.spec.name,
            "draft": "self",
            "draft_kv": methods[spelled].name,
            "kv_budget_tokens": methods[spelled].budget,
            "context_tokens": context,
            "histogram": _observe(model, setting, spelled, prompts[context]),
        }
        for context, spellings in work.items()
        for spelled in spellings
    ]
    known = commit()
    how = "greedy" if setting.temperature == 0 else f"temperature {setting.temperature:g}"
    text = setting.text.name if setting.text else "held-out standard-library text"
    source = (
        f"perfmodel validate acceptance, commit {known['commit'][:8]}{' (dirty)' if known['dirty'] else ''}, {how}, "
        f"{setting.prompts} prompts of {text}, {setting.new_tokens} new tokens, gamma {setting.gamma}, "
        f"seed {setting.seed}, {str(dtype).removeprefix('torch.')}"
    )
    return AcceptanceFile.model_validate({"schema_version": 1, "source": source, "rows": rows})


def _check(setting: Setting) -> None:
    if setting.gamma < 1 or setting.prompts < 1 or setting.new_tokens < 1:
        raise InputError("acceptance: --gamma, --prompts and --new-tokens must be 1 or more")
    if setting.gamma > MAX_GAMMA:
        raise refuse("--gamma", None, f"at most {MAX_GAMMA}", setting.gamma)
    if setting.threads is not None and setting.threads < 1:
        raise refuse("--threads", None, "1 or more", setting.threads)
    if not 0 <= setting.seed < 2**63:
        raise refuse("--seed", None, "from 0 to 2^63 - 1", setting.seed)
    if setting.device not in ("cpu", "cuda"):
        raise refuse("--device", None, "cpu or cuda", setting.device)


def _length(setting: Setting, context: int, model: Model) -> int:
    """Of the prompts, so that the middle of the generation is at `context`."""
    longest = model.spec.max_position_embeddings - setting.new_tokens
    if context > longest:
        raise refuse("--context", None, f"at most {longest} with {setting.new_tokens} new tokens", context)
    length = context - setting.new_tokens // 2
    if length < 1:
        raise refuse("--context", None, f"above half of the {setting.new_tokens} new tokens", context)
    return length


def _observe(model: Model, setting: Setting, draft_kv: str, prompts: list[list[int]]) -> list[int]:
    """The histogram over all prompts of a length, decoded together."""
    request = Request(
        batch=len(prompts),
        context=len(prompts[0]),
        new_tokens=setting.new_tokens,
        gamma=setting.gamma,
        draft_kv=draft_kv,
        sampling=Sampling(setting.temperature),
    )
    return make_decoder(model, request).generate(prompts, setting.new_tokens, setting.seed).histogram


def _prompts(setting: Setting, context: int, model: Model) -> list[list[int]]:
    if setting.text is None and setting.checkpoint is None:
        return held_out_prompts(setting.prompts, context, setting.seed)
    if setting.text is None:
        raise InputError("--text: must be given with --checkpoint: a text file, or JSON lists of token ids")
    tokens = _tokens(setting.text, model.spec.vocab_size)
    stride = max(1, (len(tokens) - context) // max(1, setting.prompts - 1))
    starts = [i * stride for i in range(setting.prompts)]
    if len(tokens) < context or starts[-1] + context > len(tokens):
        raise InputError(f"--text: must hold at least {context} tokens, given {len(tokens)}")
    return [tokens[start : start + context] for start in starts]


def _tokens(path: Path, vocabulary: int) -> list[int]:
    if path.suffix != ".json" and vocabulary != 256:
        raise InputError("--text: must be JSON lists of token ids for a checkpoint that is not byte-level")
    try:
        if path.suffix != ".json":
            return list(path.read_bytes())
        lists = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        kind = "valid JSON" if path.suffix == ".json" else "a readable file"
        raise InputError(f"--text: {path}: must be {kind}: {str(error)[:100]}") from None
    if not isinstance(lists, list) or not all(isinstance(part, list) for part in lists):
        raise refuse("--text", str(path), "a list of lists of token ids", type(lists).__name__)
    tokens = [token for part in lists for token in part]
    wrong = next((token for token in tokens if type(token) is not int or not 0 <= token < vocabulary), None)
    if wrong is not None:
        raise refuse("--text", str(path), f"lists of token ids in 0 .. {vocabulary - 1}", wrong)
    return tokens


def as_text(table: AcceptanceFile) -> str:
    """The file that `whatif --acceptance` reads, a row a line."""
    head, rows = table.model_dump(mode="json", exclude_none=True), []
    for row in head.pop("rows"):
        rows.append("  " + json.dumps(row))
    opening = json.dumps(head)[:-1]
    return f'{opening}, "rows": [\n' + ",\n".join(rows) + "\n]}\n"


def summary(table: AcceptanceFile) -> list[str]:
    """One line a row for the reader: effective alpha, tokens per iteration, acceptance by position."""
    lines = []
    for row in table.rows:
        what = row.draft_kv + (f":{row.kv_budget_tokens}" if row.kv_budget_tokens else "")
        place = f"{what:20} at {row.context_tokens:g}: "
        if row.histogram:
            counts = [float(count) for count in row.histogram]
            omega = 1 + sum(j * count for j, count in enumerate(counts)) / sum(counts)
            alpha = float(alpha_from_tokens_per_iteration(omega, float(len(counts) - 1)))
            by = " ".join(f"{rate:.2f}" for rate in positions_from_histogram(counts))
            lines.append(f"{place}alpha {alpha:.3f}, {omega:.2f} tokens per iteration, by position {by}")
        elif row.positions:
            lines.append(place + "by position " + " ".join(f"{rate:.2f}" for rate in row.positions))
        else:
            lines.append(f"{place}alpha {row.alpha:.3f}")
    return lines
