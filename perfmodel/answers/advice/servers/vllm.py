"""Command lines of vLLM, which are ``vllm serve`` with the JSON that configures a draft."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

from perfmodel.answers.advice.draft_lengths import LengthTable, Range
from perfmodel.answers.advice.servers.base import (
    HEAD,
    LONGEST_MATCH,
    SHORTEST_MATCH,
    ServedTarget,
    Server,
    Setup,
    Started,
    missing_path,
    named_backend,
    note_missing_cache,
    say_others,
    several,
    words_of,
)
from perfmodel.answers.question import draft_word
from perfmodel.specs.engines.attention import Backend
from perfmodel.specs.engines.served_drafts import ServedDraft

NO_SPARSE = (
    "vLLM runs no draft with a sparse view of the cache (an open RFC): the table is for an engine that does"
)
TRANSFER = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
"""How servers of a prefill and a decode pool send caches (nixl_connector_usage.md of vLLM)."""
PER_HEAD = "per_token_head"
"""Last words of the names of vLLM's KV formats with a scale per token and head."""
PER_HEAD_IN = "TRITON_ATTN"
"""The only backend that reads caches in these formats (v1/attention/backends/triton_attn.py of 0.32). No
backend for latent caches reads them (v1/attention/backends/mla).
"""


class VLLM(Server):
    """vLLM. Expert parallelism either uses all devices of a server or is off."""

    checked = "0.32.0"
    kv_names: ClassVar = {
        "fp16": "float16",
        "fp8": "fp8",
        "int8": "int8_per_token_head",
        "int4": "int4_per_token_head",
    }
    router: ClassVar = (
        "A router sends each prompt to both pools (toy_proxy_server.py in vLLM's NIXL test is an example). "
        "Servers on several hosts need VLLM_NIXL_SIDE_CHANNEL_HOST, the address of their own host; servers "
        "on one host each need their own VLLM_NIXL_SIDE_CHANNEL_PORT"
    )

    def start(self, setup: Setup, notes: list[str]) -> Started | None:
        """The ``vllm serve`` line."""
        target = setup.target
        if target.expert_parallel not in (1, target.tensor_parallel):
            notes.append(
                f"vLLM shards experts over all devices or none, not over {target.expert_parallel}: no line "
                "for it"
            )
            return None
        table = of_one_group(setup.table, target.data_parallel)
        draft = None
        if setup.drafts:
            draft = self._draft(replace(setup, table=table), notes)
            if draft is None:
                return None
        serve = [*self.environment(target), "vllm", "serve", target.model_id]
        words = [*serve, *self._arguments(table, target, notes)]
        if draft is not None:
            words += ["--speculative-config", json.dumps(draft)]
        return Started(shlex.join(map(str, words)), draft)

    def degrees(self, devices: int, groups: int, version: str = "") -> str:
        """See `Server.degrees`. In vLLM, the number of devices of a server is the tensor-parallel degree
        times the data-parallel degree.
        """
        if groups == 1:
            return ""
        return (
            f"In vLLM these {devices} devices are --tensor-parallel-size {devices // groups} "
            f"--data-parallel-size {groups}, which multiply there"
        )

    def other_nodes(self, target: ServedTarget) -> str:
        """See `Server.other_nodes`."""
        flag = "--node-rank"
        first = 1
        if _divides_groups(target):
            flag = "--data-parallel-start-rank"
            first = target.data_parallel // target.nodes
        return say_others(target.nodes, f"adds --headless {flag}", first)

    def _arguments(self, table: LengthTable, target: ServedTarget, notes: list[str]) -> list[str]:
        """Flags of the target that differ from vLLM's defaults. The largest batch is that of the table."""
        backend = named_backend(self.word, target)
        groups = target.data_parallel
        half = target.half and target.engine == self.word
        experts = {
            "--data-parallel-size": several(groups),
            "--enable-expert-parallel": target.expert_parallel > 1,
            "--all2all-backend": target.dispatch_of(self.word),
        }
        devices = {"--tensor-parallel-size": several(target.tensor_parallel // groups)}
        formats = {
            "--dtype": "half" if half else None,
            "--quantization": target.weights if target.on_load else None,
            "--kv-cache-dtype": self._cache(target, backend, notes),
            "--mamba-ssm-cache-dtype": target.state_dtype,
        }
        attention = {"--attention-backend": backend.word if backend else None}
        memory = {
            "--gpu-memory-utilization": target.memory_fraction,
            "--max-model-len": target.sequence_tokens(table),
            "--max-num-seqs": table.ranges[-1].high,
        }
        pool = {"--kv-transfer-config": target.pool and json.dumps(TRANSFER)}
        return words_of(_of_nodes(target) | experts | devices | formats | attention | memory | pool)

    def _cache(self, target: ServedTarget, backend: Backend | None, notes: list[str]) -> str | None:
        """The engine's name for the KV format. The result is None for the default format. If the engine does
        not have the format, the result is also None, and a note is added.
        """
        name = self.kv_names.get(target.kv_dtype)
        per_head = name is not None and name.endswith(PER_HEAD)
        other = backend is not None and backend.word != PER_HEAD_IN
        if per_head and (target.latent or other):
            name = None
        if name is None:
            note_missing_cache(self.title, target, backend, notes)
        return name

    def _draft(self, setup: Setup, notes: list[str]) -> dict[str, Any] | None:
        """The JSON of ``--speculative-config``; None, with a note, if vLLM has no such draft."""
        table = setup.table
        draft = setup.draft
        method, model = self._method(setup, notes)
        if method is None:
            return None
        refused = _of_devices(setup, method) or _of_layers(setup, method)
        if refused is not None:
            notes.append(refused)
            return None
        config: dict[str, Any] = {"method": method}
        if model is not None:
            config["model"] = model
        config["num_speculative_tokens"] = table.max_tokens
        if len(table.ranges) > 1:
            lengths = [[r.low, r.high, r.tokens] for r in table.ranges]
            config["num_speculative_tokens_per_batch_size"] = lengths
        if method == "ngram":
            config |= {"prompt_lookup_min": SHORTEST_MATCH, "prompt_lookup_max": LONGEST_MATCH}
        elif method != "mtp":
            config["draft_tensor_parallel_size"] = draft.tensor_parallel // setup.target.data_parallel
        if draft.in_one_pass and method in ("draft_model", "eagle3"):
            config["parallel_drafting"] = True
        return config

    def _method(self, setup: Setup, notes: list[str]) -> tuple[str | None, str | None]:
        """vLLM's method for the draft, and the path of the draft. If vLLM cannot run the draft, both are None
        and a note is added.
        """
        known = self.known_draft(setup.draft)
        refused = _of_kind(setup, known)
        if refused is not None:
            notes.append(refused)
            return None, None
        assert known is not None
        word = draft_word(setup.draft)
        if word == "mtp":
            notes += _notes_of_mtp(setup)
        return known.method, None if word == "ngram" else setup.draft_path


def _of_kind(setup: Setup, known: ServedDraft | None) -> str | None:
    """The reason why vLLM cannot run this draft; None if it can.

    - known: the entry for the draft in the data file of the engine.
    """
    draft = setup.draft
    word = draft_word(draft)
    if not draft.kv.reads_all:
        return NO_SPARSE
    if known is None and word == "self":
        return "a self-draft over the full cache is the target itself: nothing to serve"
    if known is None:
        return f"vLLM has no method for a {word} draft"
    if known.until is not None:
        return f"vLLM has {word} drafts from {known.since} to {known.until} only: no command line"
    if word == "suffix":
        return (
            "vLLM takes the largest length of a suffix draft, but the prediction is for the mean: no command "
            "line"
        )
    if draft.named_model and setup.target.foreign(draft):
        return (
            f"{draft.model.name} has {draft.model.vocab_size} vocabulary entries, the target "
            f"{setup.target.vocab_size}: engines verify drafts of the target's own vocabulary only"
        )
    if setup.draft_path is None and word not in ("ngram", "mtp"):
        return missing_path(draft)
    return None


def _notes_of_mtp(setup: Setup) -> Iterator[str]:
    """What the prediction assumes about the MTP modules."""
    if setup.draft_path is None:
        yield "only the checkpoint of the target can contain MTP modules: check that this one does"
    elif not setup.draft.model.shared_kv_layers:
        yield f"the prediction assumes that {setup.draft_path} is one layer of the target"


def _of_devices(setup: Setup, method: str) -> str | None:
    """The reason why vLLM cannot run the draft on its number of devices; None if it can."""
    if method in ("ngram", "mtp"):
        return None
    target = setup.target
    whole = method == "draft_model" or target.data_parallel > 1
    allowed = {target.tensor_parallel} if whole else {1, target.tensor_parallel}
    if setup.draft.tensor_parallel in allowed:
        return None
    degrees = " or ".join(map(str, sorted(allowed)))
    given = setup.draft.tensor_parallel
    return f"vLLM runs this draft on {degrees} devices, not on {given}: no command line"


def _of_layers(setup: Setup, method: str) -> str | None:
    """The reason why the MTP layers of the target cannot draft this number of tokens; None if they can."""
    layers = (setup.target.mtp_layers if method == "mtp" else None) or 1
    longest = setup.table.max_tokens
    if max(longest, layers) % layers == 0:
        return None
    return (
        f"vLLM takes up to {layers} tokens of {layers} MTP layers or a multiple of {layers}, not {longest}: "
        f"no command line (--max-gamma {longest // layers * layers})"
    )


def _divides_groups(target: ServedTarget) -> bool:
    """Whether every node has whole data-parallel groups."""
    return target.data_parallel > 1 and target.data_parallel % target.nodes == 0


def _of_nodes(target: ServedTarget) -> dict[str, object]:
    """Flags of the first of several nodes."""
    if target.nodes == 1:
        return {}
    if _divides_groups(target):
        on_each = target.data_parallel // target.nodes
        return {"--data-parallel-size-local": on_each, "--data-parallel-address": HEAD}
    return {"--nnodes": target.nodes, "--node-rank": 0, "--master-addr": HEAD}


def of_one_group(table: LengthTable, groups: int) -> LengthTable:
    """Converts a table for a server to a table for one data-parallel attention group, because vLLM counts the
    sequences of a group.
    """
    ranges: list[Range] = []
    for r in table.ranges:
        low = 1 + (ranges[-1].high if ranges else 0)
        high = -(-r.high // groups)
        if low <= high:
            ranges.append(replace(r, low=low, high=high))
    return replace(table, ranges=tuple(ranges))
