"""Command lines of TensorRT-LLM: a file with options, and ``trtllm-serve`` with this file.

The keys of the file are from aiconfigurator 0.12.0 (PyPI), generator/config/backend_templates/trtllm, for
TensorRT-LLM 1.0 to 1.3. ``attn_backend``, the keys of all drafts but MTP and the flags of ``trtllm-serve``
are recalled, and were not checked against a source.
"""

import json
import shlex
from collections.abc import Mapping
from typing import Any, ClassVar

from perfmodel.answers.advice.servers.base import (
    LONGEST_MATCH,
    ServedTarget,
    Server,
    Setup,
    Started,
    missing_path,
    named_backend,
    note_missing_cache,
    several,
    words_of,
)
from perfmodel.answers.question import draft_word
from perfmodel.specs import serving_engines

FILE = "trtllm.yaml"
"""Name of the file that the line writes."""
LENGTH_KEYS = {
    "mtp": "num_nextn_predict_layers",
    "eagle3": "max_draft_len",
    "model": "max_draft_len",
    "ngram": "max_draft_len",
}
"""Kind of draft -> the key for its draft length."""


class TensorRTLLM(Server):
    """TensorRT-LLM. The server has one draft length for all batch sizes. Data-parallel attention has one
    group per device.
    """

    alone = True  # it runs on devices of one maker
    kv_names: ClassVar = {"fp8": "fp8", "nvfp4": "nvfp4"}

    def start(self, setup: Setup, notes: list[str]) -> Started | None:
        """A shell command that writes the file with options, followed by the ``trtllm-serve`` line."""
        target = setup.target
        if (why := self._not_served(target)) is not None:
            notes.append(f"{why}: no line for TensorRT-LLM")
            return None
        draft = None
        if setup.drafts:
            draft = self._draft(setup, notes)
            if draft is None:
                return None
        options = self._options(setup, notes) | ({"speculative_config": draft} if draft else {})
        flags = {"--tp_size": several(target.tensor_parallel), "--extra_llm_api_options": FILE}
        serve = shlex.join(["trtllm-serve", str(target.model_id), *words_of(flags)])
        return Started(f"cat > {FILE} <<'EOF'\n{_yaml(options)}\nEOF\n{serve}", draft)

    def degrees(self, devices: int, groups: int, version: str = "") -> str:
        """See `Server.degrees`. In TensorRT-LLM, every device is one attention group."""
        if groups == 1:
            return ""
        return f"In TensorRT-LLM these {devices} devices are --tp_size {devices} with enable_attention_dp"

    def _not_served(self, target: ServedTarget) -> str | None:
        """Why no line starts this target; None if one does."""
        if target.nodes > 1:
            return "the command for trtllm-serve on several nodes is not known"
        if target.on_load:
            return f"it serves quantised checkpoints: pass --model-path to name one in {target.weights}"
        engine = serving_engines()[self.word]
        if not engine.has_groups(target.data_parallel, target.tensor_parallel):
            return "its data-parallel attention has one group per device"
        return None

    def _options(self, setup: Setup, notes: list[str]) -> dict[str, Any]:
        """The options of the target that differ from the defaults of the server."""
        target = setup.target
        groups = target.data_parallel
        backend = named_backend(self.word, target)
        cache = self.kv_names.get(target.kv_dtype)
        if cache is None:
            note_missing_cache(self.title, target, backend, notes)
        if target.memory_fraction is not None:
            notes.append("free_gpu_memory_fraction, a share of what the weights leave, is not set")
        options = {
            "moe_expert_parallel_size": several(target.expert_parallel),
            "enable_attention_dp": True if groups > 1 else None,
            "attn_backend": backend.word if backend else None,
            "max_batch_size": -(-setup.table.ranges[-1].high // groups),
            "max_seq_len": target.sequence_tokens(setup.table),
            "kv_cache_config": _stated({"dtype": cache, "mamba_ssm_cache_dtype": target.state_dtype}) or None,
        }
        return _stated(options)

    def _draft(self, setup: Setup, notes: list[str]) -> dict[str, Any] | None:
        """``speculative_config``; None, with a note, if its keys are not known or no length gains."""
        word = draft_word(setup.draft)
        known = self.known_draft(setup.draft)
        tokens = setup.table.best_constant
        if known is None or not setup.draft.kv.reads_all:
            notes.append(f"TensorRT-LLM has no {word} draft over {setup.draft.kv.label()}")
            return None
        if word not in LENGTH_KEYS:
            notes.append(f"TensorRT-LLM calls the draft {known.method}; its other options are not known")
            return None
        if tokens == 0:
            notes.append("TensorRT-LLM takes one draft length, and the best single one is 0")
            return None
        loads = word in ("eagle3", "model")
        if loads and setup.draft_path is None:
            notes.append(missing_path(setup.draft))
            return None
        if setup.draft.tensor_parallel != setup.target.tensor_parallel:
            notes.append(
                "TensorRT-LLM shards a draft like its target: its line drafts on "
                f"{setup.target.tensor_parallel} devices, not on {setup.draft.tensor_parallel}"
            )
        if len(setup.table.ranges) > 1:
            notes.append(f"TensorRT-LLM takes only one draft length: its line uses the best one, {tokens}")
        config = {"decoding_type": known.method, LENGTH_KEYS[word]: tokens}
        if loads:
            config["speculative_model_dir"] = setup.draft_path
        if word == "ngram":
            config["max_matching_ngram_size"] = LONGEST_MATCH
        return config


def _stated(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those that have no value."""
    return {key: value for key, value in options.items() if value is not None}


def _yaml(options: Mapping[str, Any]) -> str:
    """The options as lines of YAML. Each value is written as JSON, which is valid YAML."""
    return "\n".join(f"{key}: {json.dumps(value)}" for key, value in options.items())
