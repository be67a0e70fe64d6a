"""Command lines for serving engines that match the priced configuration: vLLM's JSON, SGLang's flags and
adaptive file, llama.cpp's flags.

Where an engine has no such draft, the answer is None and a note gives the reason; no method name is invented.
The engines' own parsers accepted every kind of line (tests/engine/lines.json, made by ``make test-engine``).
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from perfmodel.answers.advice.draft_lengths import LengthTable, Range
from perfmodel.answers.advice.llama_server import ServedFile, gguf_name, llama_server
from perfmodel.answers.advice.sglang_server import sglang_flags
from perfmodel.answers.question import CommonOptions, Query, draft_word, published_head, resolve, served_draft
from perfmodel.drafts.base import Draft
from perfmodel.errors import refuse
from perfmodel.specs import (
    engine_attention,
    engine_of,
    hub_id,
    in_gguf,
    is_gguf,
    served_id,
    serving_engines,
)
from perfmodel.specs.models.ggml import repository
from perfmodel.speculation import Scenario, speedups

CHECKED = {"vllm": "0.32.0", "sglang": "0.5.23"}
"""Engine -> the version whose parser accepted the lines."""
LOOKUP = (2, 4)
"""Smallest and largest n-gram that a draft matches (prompt look-up's range; Saxena 2023)."""
NO_SPARSE = (
    "vLLM has no method for a draft with a sparse view of the cache (an open RFC): "
    "the table is for an engine that has one"
)
UNQUANTISED = ("bf16", "fp16", "fp32")
"""Formats of checkpoints that are not quantised."""

KV_NAMES = {
    "vLLM": {"fp16": "float16", "fp8": "fp8", "int8": "int8_per_token_head", "int4": "int4_per_token_head"},
    "SGLang": {"fp8": "fp8_e4m3"},
}
"""Engine -> KV format -> its name in that engine. Unsupported formats are absent."""
PER_HEAD, PER_HEAD_IN = "per_token_head", "TRITON_ATTN"
"""End of the names of vLLM's caches with a scale per token and head, and the only backend that reads them
(v1/attention/backends/triton_attn.py of 0.32).
"""


@dataclass(frozen=True, slots=True)
class ServedTarget:
    """The target as it was modelled: the values that the engine's command line must set."""

    model_id: str | None
    """The engine's name of the model; None if unknown."""
    tensor_parallel: int = 1
    weights: str = "bf16"
    kv_dtype: str = "bf16"
    memory_fraction: float | None = None
    vocab_size: int | None = None
    """Size of the vocabulary; None skips the comparison with the draft's."""
    expert_parallel: int = 1
    data_parallel: int = 1
    attention_backend: str | None = None
    """The attention backend that the question names; None is the engine's own choice."""
    file: ServedFile | None = None
    """The GGUF file for llama.cpp, which is then the only engine with a line."""
    mtp_layers: int | None = None
    """Multi-token prediction layers of the checkpoint; None if unknown."""
    on_load: bool = False
    """Whether engines quantise the checkpoint when they load it."""

    def foreign(self, draft: Draft) -> bool:
        """Whether the draft model is known to have another vocabulary."""
        return self.vocab_size is not None and draft.model.vocab_size != self.vocab_size

    @classmethod
    def of(cls, question: CommonOptions, model_id: str | None, scenario: Scenario) -> "ServedTarget":
        """The target of a question. Formats of the checkpoint itself need no flag."""
        return cls(
            model_id,
            scenario.machine.tensor_parallel,
            "bf16"
            if question.weights in (None, scenario.target.weights)
            else scenario.precision.weights.name,
            "bf16" if question.kv_dtype is None else scenario.precision.kv.name,
            question.memory_fraction,
            scenario.target.vocab_size,
            expert_parallel=scenario.expert_parallel,
            data_parallel=scenario.data_parallel,
            attention_backend=question.attention_backend,
            file=_file(question, model_id, scenario),
            mtp_layers=scenario.target.num_nextn_predict_layers,
            on_load=scenario.precision.weights.name == "fp8" and scenario.target.weights in UNQUANTISED,
        )


def _file(question: CommonOptions, model_id: str | None, scenario: Scenario) -> ServedFile | None:
    machine = scenario.machine
    if engine_of(machine.calibration) != "llamacpp":
        return None
    given = next((p for p in (model_id or "", question.model) if is_gguf(p)), None)
    path = given or ""
    mix = in_gguf(question.weights or scenario.target.weights)
    if given is None or (repository(given) and "/" not in given):
        path = gguf_name(model_id or scenario.target.name, mix)
    elif question.weights is not None and repository(given):
        path = f"{given.partition(':')[0]}:{mix.upper()}"
    kv = scenario.precision.kv.name
    shared = (question.layer_split, question.cpu_moe, question.gpu_layers)
    stop = None
    if scenario.acceptance.bins:
        from perfmodel.speculation.confidence import best_stop

        stop = partial(best_stop, scenario, fraction=question.memory_fraction)
    return ServedFile(path, machine.tensor_parallel, *shared, kv, stop)


@dataclass(frozen=True, slots=True)
class Export:
    """The command lines. vllm and sglang are None for llama.cpp, and where `notes` give a reason.

    sglang_adaptive: contents of the file that SGLang's line names, if the length depends on the batch size.
    """

    vllm: dict[str, Any] | None
    vllm_line: str | None
    sglang: list[str] | None
    sglang_line: str | None
    notes: tuple[str, ...]
    sglang_adaptive: dict[str, Any] | None = None
    llamacpp_line: str | None = None


def export(
    table: LengthTable,
    draft: Draft,
    served: ServedTarget,
    draft_path: str | None = None,
    withheld: Mapping[str, str] = MappingProxyType({}),
) -> Export:
    """Command lines of the engines for one table. draft_path: where the engine finds the head or draft
    model. withheld: engine that gets no line for its drafts -> the reason.
    """
    notes: list[str] = []
    if served.file is not None:
        line = llama_server(table, draft, served.file, draft_path, notes)
        return Export(None, None, None, None, tuple(notes), llamacpp_line=line)
    if served.model_id is None:
        return Export(None, None, None, None, ("pass --model-path to name the served checkpoint",))
    vllm = flags = adaptive = None
    off = table.max_tokens == 0
    each = _of_one_group(table, served.data_parallel)
    dealt = served.expert_parallel in (1, served.tensor_parallel)
    if not dealt:
        notes.append(
            f"vLLM shards experts over all devices or none, not over {served.expert_parallel}: no line for it"
        )
    if off:
        notes.append("no draft of known acceptance gains in any range: leave it off")
    else:
        if dealt and "vllm" not in withheld:
            vllm = _vllm(each, draft, served, draft_path, notes)
        if "sglang" not in withheld:
            flags, adaptive = sglang_flags(
                table, draft, served.tensor_parallel, served.foreign(draft), draft_path, notes
            )
        notes += [f"no line for {serving_engines()[name].title}: {why}" for name, why in withheld.items()]
    vllm_line = sglang_line = None
    if (off and dealt) or vllm is not None:
        words = ["vllm", "serve", served.model_id, *_arguments("vLLM", each, served, notes)]
        vllm_line = shlex.join(words if vllm is None else [*words, "--speculative-config", json.dumps(vllm)])
    if off or flags is not None:
        words = ["python", "-m", "sglang.launch_server", "--model-path", served.model_id]
        sglang_line = shlex.join([*words, *_arguments("SGLang", table, served, notes), *(flags or ())])
    if (vllm_line or sglang_line) and served.weights != "bf16" and not served.on_load:
        notes.append(f"{served.weights} weights need a checkpoint of that format: put its name into the line")
    if (vllm_line or sglang_line) and (served.expert_parallel > 1 or served.data_parallel > 1):
        notes.append("lines with --ep or --dp were not tested with the engines' parsers")
    elif taken := [
        f"{n} {CHECKED[n.lower()]}" for n, line in (("vLLM", vllm_line), ("SGLang", sglang_line)) if line
    ]:
        notes.append(f"lines of this form parse in {' and '.join(taken)}")
    return Export(vllm, vllm_line, flags, sglang_line, tuple(notes), adaptive)


def llamacpp_line(query: Query, tokens: int) -> str | None:
    """llama.cpp's command line for one question and a draft of `tokens` tokens; None for another engine."""
    scenario = resolve(query)
    served = ServedTarget.of(query, served_id(query.model, None), scenario)
    by_length = speedups(scenario, float(query.batch), float(query.context), np.arange(tokens + 1))
    table = LengthTable.at(query.batch, query.context, tokens, tuple(by_length.tolist()))
    return export(table, scenario.draft, served).llamacpp_line if served.file else None


def no_line(why: str) -> Export:
    """An export without lines, with the reason."""
    return Export(None, None, None, None, (f"{why}: no line for it",))


def served_with(question: Any, scenario: Scenario, named: str | None) -> tuple[ServedTarget, str | None]:
    """The target of a question to `advise` or `schedule`, and the path where the engine finds its draft.

    named: the draft as the user named it; None without a draft. Raises InputError for a path that no line can
    show.
    """
    for flag in ("model_path", "draft_path"):
        if not (given := getattr(question, flag, None) or "").isprintable():
            raise refuse(f"--{flag.replace('_', '-')}", None, "printable characters", given)
    path = None if named is None else question.draft_path or _draft_source(named, question.model, scenario)
    return ServedTarget.of(question, question.model_path or served_id(question.model, path), scenario), path


def _draft_source(named: str, model: str, scenario: Scenario) -> str | None:
    """The Hugging Face id of the draft for an engine: that of its model, or of the published head."""
    draft = scenario.draft
    if draft.named_model:
        return hub_id(named.removeprefix(f"{draft.kind}:"), "--draft")
    if draft.kind == "mtp":
        head = scenario.target.mtp_head
        return None if head == scenario.target.hf_id else head
    return published_head(model, draft, scenario.acceptance)


def _arguments(engine: str, table: LengthTable, served: ServedTarget, notes: list[str]) -> list[str]:
    """Flags of the target that differ from the engine's defaults. The largest batch is that of the table."""
    names = KV_NAMES[engine]
    backend = engine_attention()[engine.lower()].backends.get(served.attention_backend or "")
    if backend and backend.word != PER_HEAD_IN:
        names = {kv: name for kv, name in names.items() if not name.endswith(PER_HEAD)}
    if served.kv_dtype != "bf16" and served.kv_dtype not in names:
        where = f"{engine} {backend.word}" if backend else engine
        notes.append(
            f"{where} has no {served.kv_dtype} KV cache: its line serves bf16, the table is for another"
        )
    devices = served.tensor_parallel
    ep = served.expert_parallel
    dp = served.data_parallel
    if engine == "vLLM":
        devices //= dp
        groups = ["--data-parallel-size", str(dp)] * (dp > 1) + ["--enable-expert-parallel"] * (ep > 1)
        tp = "--tensor-parallel-size"
        memory = "--gpu-memory-utilization"
        most = "--max-num-seqs"
    else:
        groups = ["--enable-dp-attention", "--dp", str(dp)] * (dp > 1) + ["--ep", str(ep)] * (ep > 1)
        tp = "--tp"
        memory = "--mem-fraction-static"
        most = "--max-running-requests"
    values = {
        tp: devices if devices > 1 else None,
        "--quantization": served.weights if served.on_load else None,
        "--kv-cache-dtype": names.get(served.kv_dtype),
        "--attention-backend": backend.word if backend else None,
        memory: served.memory_fraction,
        most: table.ranges[-1].high,
    }
    return groups + [
        word for flag, value in values.items() if value is not None for word in (flag, str(value))
    ]


def _of_one_group(table: LengthTable, groups: int) -> LengthTable:
    """The table by the sequences of one data-parallel attention group; vLLM counts these."""
    ranges: list[Range] = []
    for r in table.ranges:
        low = 1 + (ranges[-1].high if ranges else 0)
        high = -(-r.high // groups)
        if low <= high:
            ranges.append(replace(r, low=low, high=high))
    return replace(table, ranges=tuple(ranges))


def five_item_rows(tables: Sequence[LengthTable]) -> list[list[int]]:
    """``[bs_lo, bs_hi, ctx_lo, ctx_hi, K]`` rows, sorted by context and then batch. They cover every point of
    the rectangle once.
    """
    return [[r.low, r.high, t.context_low, t.context_high, r.tokens] for t in tables for r in t.ranges]


def _vllm(
    table: LengthTable, draft: Draft, served: ServedTarget, path: str | None, notes: list[str]
) -> dict[str, Any] | None:
    method, model = _draft(draft, served, path, notes)
    if method is None:
        return None
    groups = served.data_parallel
    allowed = (
        {served.tensor_parallel} if method == "draft_model" or groups > 1 else {1, served.tensor_parallel}
    )
    if method not in ("ngram", "mtp") and draft.tensor_parallel not in allowed:
        given = " or ".join(map(str, sorted(allowed)))
        notes.append(
            f"vLLM runs this draft on {given} devices, not on {draft.tensor_parallel}: no line for it"
        )
        return None
    layers = (served.mtp_layers if method == "mtp" else None) or 1
    longest = table.max_tokens
    if max(longest, layers) % layers:
        notes.append(
            f"vLLM takes up to {layers} tokens of {layers} MTP layers or a multiple of {layers}, not "
            f"{longest}: no line for it (--max-gamma {longest // layers * layers})"
        )
        return None
    named = {} if model is None else {"model": model}
    config: dict[str, Any] = {"method": method, **named, "num_speculative_tokens": table.max_tokens}
    if len(table.ranges) > 1:
        config["num_speculative_tokens_per_batch_size"] = [[r.low, r.high, r.tokens] for r in table.ranges]
    if method == "ngram":
        config["prompt_lookup_min"], config["prompt_lookup_max"] = LOOKUP
    elif method != "mtp":
        config["draft_tensor_parallel_size"] = draft.tensor_parallel // groups
    if draft.in_one_pass and method in ("draft_model", "eagle3"):
        config["parallel_drafting"] = True
    return config


def _draft(
    draft: Draft, served: ServedTarget, path: str | None, notes: list[str]
) -> tuple[str | None, str | None]:
    """vLLM's method and the draft's path; None, with a note, if vLLM has no such draft."""
    word = draft_word(draft)
    known = served_draft(serving_engines()["vllm"], draft)
    if draft.kv.name != "full" or known is None:
        full = f"vLLM has no method for a {word} draft"
        if word == "self":
            full = "a self-draft over the full cache is the target itself: nothing to serve"
        notes.append(full if draft.kv.name == "full" else NO_SPARSE)
        return None, None
    if known.until is not None:
        notes.append(f"vLLM has {word} drafts from {known.since} to {known.until} only: no line for it")
        return None, None
    if word == "mtp" and path is None:
        notes.append(
            "MTP modules come with a target's checkpoint or not at all: make sure that this one has them"
        )
    elif word == "mtp" and not draft.model.shared_kv_layers:
        notes.append(f"{path} is priced as one layer of the target")
    if word in ("ngram", "mtp"):
        return known.method, path if word == "mtp" else None
    if word == "suffix":
        notes.append(
            "vLLM takes the most tokens of a suffix draft, not the mean that was priced: no line for it"
        )
        return None, None
    if draft.named_model and served.foreign(draft):
        notes.append(
            f"{draft.model.name} has {draft.model.vocab_size} vocabulary entries, the target "
            f"{served.vocab_size}: "
            "engines verify drafts of the target's own vocabulary only"
        )
        return None, None
    if path is None:
        which = f"checkpoint of {draft.model.name}" if draft.named_model else f"{word} head"
        notes.append(f"pass --draft-path to name the {which}")
        return None, None
    return known.method, path
