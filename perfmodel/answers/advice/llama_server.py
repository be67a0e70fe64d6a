"""The ``llama-server`` line that matches the priced configuration."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from perfmodel.answers.advice.draft_lengths import LengthTable, inside
from perfmodel.answers.question import draft_word
from perfmodel.drafts.base import Draft
from perfmodel.operations import Array
from perfmodel.specs import serving_engines
from perfmodel.specs.models.ggml import repository

CHECKED = "ggml-org/llama.cpp@0c1e57098"
"""The version whose parser accepted lines of this form (tests/engine/llama_lines.json)."""
CACHES = {"fp32": "f32"} | {name: name for name in ("q8_0", "q5_1", "q5_0", "iq4_nl", "q4_1", "q4_0")}
"""KV format -> its name in llama.cpp."""
SIXTEEN = ("bf16", "fp16")
"""KV formats that need no flag, because the engine's default is fp16."""
ALL_LAYERS = 999
SLOTS = 4
"""Default number of sequences that the server decodes at once."""
DEFAULT_LENGTH = 3
"""Default number of tokens that the server drafts."""
NGRAM = 3
"""Smallest n-gram that an n-gram draft matches."""


Stop = tuple[float, int, float]
"""Gain over the best constant length, the longest draft, and the probability below which a token ends the
draft early (p-min).
"""


@dataclass(frozen=True, slots=True)
class ServedFile:
    """The target as llama.cpp runs it.

    path: its GGUF file, or the repository that has the file. layer_devices: number of devices that hold its
    layers and run in turn. cpu_moe: number of layers whose experts stay in host memory. best_stop:
    `speculation.confidence.best_stop` by batches, contexts and the best constant length; None if no
    acceptance by confidence is known.
    """

    path: str
    tensor_parallel: int = 1
    layer_devices: int = 1
    cpu_moe: int = 0
    gpu_layers: int | None = None
    kv_dtype: str = "bf16"
    best_stop: Callable[[Array, Array, int], Stop] | None = None


def gguf_name(model_id: str, weights: str | None) -> str:
    """The usual name of the file for a model and a mix of formats: ``Qwen3-32B-Q4_K_M.gguf``."""
    return f"{model_id.rpartition('/')[2]}-{(weights or 'bf16').partition(',')[0].upper()}.gguf"


def llama_server(
    table: LengthTable, draft: Draft, served: ServedFile, path: str | None, notes: list[str]
) -> str:
    """The command line. It has no draft if the draft cannot run or does not pay; `notes` then gets the
    reason.

    path: the draft as the user named it.
    """
    slots = table.ranges[-1].high
    stop = 1.0, table.best_constant, 0.0
    if served.best_stop is not None and draft_word(draft) != "ngram":
        at = np.arange(table.ranges[0].low, slots + 1.0), inside(table.context_low, table.context_high)
        stop = max(stop, served.best_stop(*at, table.best_constant))
    if served.kv_dtype not in (*SIXTEEN, *CACHES):
        notes.append(f"llama.cpp has no {served.kv_dtype} KV cache: its line serves fp16")
    cache = CACHES.get(served.kv_dtype)
    devices = max(served.tensor_parallel, served.layer_devices)
    values = {
        "-hf" if repository(served.path) else "-m": served.path,
        "-c": table.context_high * slots,
        "-np": slots,
        "-ngl": ALL_LAYERS if served.gpu_layers is None else served.gpu_layers,
        "--n-cpu-moe": served.cpu_moe or None,
        "-sm": None if devices == 1 else "tensor" if served.tensor_parallel > 1 else "layer",
        "-fa": cache and "on",
        "-ctk": cache,
        "-ctv": cache,
        **_draft(table, draft, stop, path, notes),
    }
    notes.append(f"lines of this form parse in {CHECKED}")
    return shlex.join(
        ["llama-server", *(str(w) for flag, v in values.items() if v is not None for w in (flag, v))]
    )


def _draft(
    table: LengthTable, draft: Draft, stop: Stop, path: str | None, notes: list[str]
) -> dict[str, object]:
    gain, tokens, least = stop
    known = serving_engines()["llamacpp"].drafts.get(draft_word(draft))
    usual = draft_word(draft) == "ngram" or (tokens, least) == (DEFAULT_LENGTH, 0.0)
    if not usual and len(table.by_constant) > DEFAULT_LENGTH:
        gained = f"{table.by_constant[DEFAULT_LENGTH]:.2f} times the baseline"
        notes.append(f"by default the server drafts {DEFAULT_LENGTH} tokens: {gained}")
    if tokens == 0:
        notes.append("no draft length gains: leave speculation off (--spec-type none)")
        return {}
    if known is None or draft.kv.name != "full":
        notes.append(f"llama.cpp has no {draft_word(draft)} draft over {draft.kv.label()}")
        return {}
    if len(table.ranges) > 1:
        notes.append(f"llama.cpp takes one draft length: the best single one, {tokens}, is given")
    if known.method.startswith("ngram"):
        size = f"--spec-{known.method}-size"
        return {"--spec-type": known.method, f"{size}-n": NGRAM, f"{size}-m": tokens}
    if least:
        notes.append(
            f"drafts stop at tokens below p-min: {gain * table.constant_speedup:.2f} times the baseline, "
            "if probabilities are the file's rates"
        )
    own = None
    if draft_word(draft) != "mtp":
        own = (path or draft.name).rpartition("/")[2] + ".gguf"
        notes.append(f"{own} stands for the draft's own GGUF file")
    return {
        "--spec-type": known.method,
        "-md": own,
        "--spec-draft-n-max": tokens,
        "--spec-draft-p-min": least or 0,
    }
