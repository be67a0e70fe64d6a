"""A schedule for a serving engine: vLLM's JSON, the proposed five-item form, SGLang's flags, all checked.

Where an engine has no such draft, the answer is None and a note says why: no method name is invented.
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from perfmodel.answers.schedule import Schedule
from perfmodel.drafts.base import Draft
from perfmodel.errors import InputError
from perfmodel.specs.engine_config import ContextTable, SGLangFlags, VLLMConfig
from perfmodel.speculation.capacity import DEFAULT_MEMORY_FRACTION

NO_SPARSE = (
    "vLLM has no method for a draft with a sparse view of the cache (an open RFC): "
    "the table is for an engine that has one"
)

VLLM_FLAGS = {
    "tensor_parallel": "--tensor-parallel-size",
    "weights": "--quantization",
    "kv_dtype": "--kv-cache-dtype",
    "kv_fp8": "fp8",
    "memory_fraction": "--gpu-memory-utilization",
    "most": "--max-num-seqs",
}
SGLANG_FLAGS = {
    "tensor_parallel": "--tp",
    "weights": "--quantization",
    "kv_dtype": "--kv-cache-dtype",
    "kv_fp8": "fp8_e4m3",
    "memory_fraction": "--mem-fraction-static",
    "most": "--max-running-requests",
}


@dataclass(frozen=True, slots=True)
class Served:
    """The target as it was modelled: what the engine's line must say so that it serves just that."""

    model_id: str
    tensor_parallel: int = 1
    weights: str = "bf16"
    kv_dtype: str = "bf16"
    memory_fraction: float = DEFAULT_MEMORY_FRACTION
    vocab_size: int | None = None
    """None: not compared with the draft's."""


@dataclass(frozen=True, slots=True)
class Export:
    """What to hand over. vllm and sglang are None where `notes` say why."""

    vllm: dict[str, Any] | None
    vllm_line: str | None
    sglang: list[str] | None
    sglang_line: str | None
    notes: tuple[str, ...]


def export(table: Schedule, draft: Draft, served: Served, draft_path: str | None = None) -> Export:
    """Engine configurations for one table. draft_path: where the engine finds the head or draft.

    A separate model without a path is named by its Hugging Face id. Raises InputError where a check of ours fails.
    """
    notes: list[str] = []
    if table.max_tokens == 0:
        return Export(None, None, None, None, ("no range gains from speculation: leave it off",))
    vllm = _vllm(table, draft, served, draft_path, notes)
    flags = _sglang(table, draft, served, draft_path, notes)
    vllm_line = sglang_line = None
    if vllm is not None:
        words = ["vllm", "serve", served.model_id, *_arguments(VLLM_FLAGS, table, served)]
        vllm_line = shlex.join([*words, "--speculative-config", json.dumps(vllm)])
    if flags is not None:
        words = ["python", "-m", "sglang.launch_server", "--model-path", served.model_id]
        sglang_line = shlex.join([*words, *_arguments(SGLANG_FLAGS, table, served), *flags])
        notes.append(f"SGLang takes one draft length: the best single one, {table.best_constant}, is given")
    if vllm is not None or flags is not None:
        if served.weights not in ("bf16", "fp8"):
            notes.append(f"{served.weights} weights are a checkpoint's own: put one of that format into the line")
        if served.kv_dtype not in ("bf16", "fp8"):
            notes.append(f"the engines have no {served.kv_dtype} KV cache: the line serves bf16, the table is for less")
    return Export(vllm, vllm_line, flags, sglang_line, tuple(notes))


def _arguments(names: dict[str, str], table: Schedule, served: Served) -> list[str]:
    """The flags of the target itself, where they are not the engine's defaults; batches end where the table does."""
    values = {
        "tensor_parallel": served.tensor_parallel if served.tensor_parallel > 1 else None,
        "weights": "fp8" if served.weights == "fp8" else None,
        "kv_dtype": names["kv_fp8"] if served.kv_dtype == "fp8" else None,
        "memory_fraction": served.memory_fraction if served.memory_fraction != DEFAULT_MEMORY_FRACTION else None,
        "most": table.ranges[-1].high,
    }
    return [word for name, value in values.items() if value is not None for word in (names[name], str(value))]


def five_item_rows(tables: Sequence[Schedule]) -> list[list[int]]:
    """``[bs_lo, bs_hi, ctx_lo, ctx_hi, K]`` rows, by context and then batch; every point of the rectangle once."""
    rows = [[r.low, r.high, t.context_low, t.context_high, r.tokens] for t in tables for r in t.ranges]
    _valid(ContextTable, {"rows": tuple(map(tuple, rows))})
    return rows


def _vllm(table: Schedule, draft: Draft, served: Served, path: str | None, notes: list[str]) -> dict[str, Any] | None:
    method, model = _draft(draft, served, path, notes)
    if method is None:
        return None
    allowed = {served.tensor_parallel} if method == "draft_model" else {1, served.tensor_parallel}
    if method not in ("ngram", "mtp") and draft.tensor_parallel not in allowed:
        given = " or ".join(map(str, sorted(allowed)))
        notes.append(f"vLLM runs this draft on {given} devices, not on {draft.tensor_parallel}: no line for it")
        return None
    config: dict[str, Any] = {"method": method}
    if model is not None:
        config["model"] = model
    config["num_speculative_tokens"] = table.max_tokens
    config["num_speculative_tokens_per_batch_size"] = [[r.low, r.high, r.tokens] for r in table.ranges]
    if method == "ngram":
        config["prompt_lookup_max"] = table.max_tokens
    elif method != "mtp":
        config["draft_tensor_parallel_size"] = draft.tensor_parallel
    if draft.name.startswith("parallel:"):
        config["parallel_drafting"] = True
    _valid(VLLMConfig, config)
    return config


def _draft(draft: Draft, served: Served, path: str | None, notes: list[str]) -> tuple[str | None, str | None]:
    """vLLM's method and the draft's path; None with a note where there is no such thing."""
    word = draft.name.partition(":")[0]
    if draft.kv.name != "full" or word == "self":
        full = "a self-draft over the full cache is the target itself: nothing to serve"
        notes.append(full if word == "self" and draft.kv.name == "full" else NO_SPARSE)
        return None, None
    if word == "mtp":
        notes.append("MTP modules come with a target's checkpoint or not at all: make sure that this one has them")
    if word in ("ngram", "mtp"):
        return word, None
    if word in ("eagle", "medusa"):
        if path is None:
            notes.append(
                f"which {word} head serves this target is yours to say: give --draft-path for the engine's line"
            )
            return None, None
        return ("eagle3" if getattr(draft, "features", 1) > 1 else word), path
    if _foreign(draft, served):
        notes.append(
            f"{draft.model.name} has {draft.model.vocab_size} vocabulary entries, the target {served.vocab_size}: "
            "engines verify drafts of the target's own vocabulary only"
        )
        return None, None
    found = path or draft.model.hf_id
    if found is None:
        notes.append(f"{draft.model.name} has no Hugging Face id: give --draft-path for the engine's line")
        return None, None
    return "draft_model", found


def _foreign(draft: Draft, served: Served) -> bool:
    return served.vocab_size is not None and draft.model.vocab_size != served.vocab_size


def _sglang(table: Schedule, draft: Draft, served: Served, path: str | None, notes: list[str]) -> list[str] | None:
    word, tokens = draft.name.partition(":")[0], table.best_constant
    if tokens == 0:
        notes.append("SGLang takes one draft length, and the best single one is 0: leave speculation off there")
        return None
    algorithm = {"ngram": "NGRAM", "mtp": "NEXTN", "eagle": "EAGLE"}.get(word)
    if word == "eagle" and getattr(draft, "features", 1) > 1:
        algorithm = "EAGLE3"
    if algorithm is None and word not in ("self", "medusa", "parallel"):
        algorithm, path = "STANDALONE", path or draft.model.hf_id
    if draft.kv.name != "full" or algorithm is None:
        what = "a draft with a sparse view of the cache" if draft.kv.name != "full" else f"a {word} draft"
        notes.append(f"SGLang has no flag for {what}")
        return None
    owns = algorithm in ("EAGLE", "EAGLE3", "STANDALONE")
    if (owns and path is None) or (algorithm == "STANDALONE" and _foreign(draft, served)):
        return None
    if owns and draft.tensor_parallel != served.tensor_parallel:
        notes.append(f"SGLang shards a draft as its target: not as asked, on {draft.tensor_parallel}")
    flags: dict[str, Any] = {"speculative_algorithm": algorithm, "speculative_num_draft_tokens": tokens + 1}
    if algorithm != "NGRAM":
        flags |= {"speculative_num_steps": tokens, "speculative_eagle_topk": 1}
    if owns:
        flags["speculative_draft_model_path"] = path
    return _valid(SGLangFlags, flags).arguments()


def _valid(schema: type[Any], data: dict[str, Any]) -> Any:
    """The data as its schema reads it back from JSON."""
    try:
        return schema.model_validate_json(json.dumps(data))
    except ValidationError as error:
        raise InputError(f"schedule: {error.errors(include_url=False)[0]['msg']}") from None
