"""Command lines of SGLang (``sglang.launch_server``), and the file with its draft lengths by batch size."""

import shlex
from dataclasses import dataclass
from typing import Any, ClassVar

from perfmodel.answers.advice.draft_lengths import LengthTable
from perfmodel.answers.advice.servers.base import (
    HEAD,
    UNQUANTISED,
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
from perfmodel.drafts.base import Draft
from perfmodel.kv.streamingllm import StreamingLLM
from perfmodel.specs import release, serving_engines

ADAPTIVE_FILE = "adaptive.json"
"""Name of a file in SGLang's line. The user must write this file."""
PORT = 5000
"""Port over which the nodes of a server connect, as in SGLang's documentation."""
BY_BATCH = ("EAGLE", "EAGLE3")
"""Algorithms whose draft length may depend on the batch size."""
WITHOUT_STEPS = ("NGRAM", "DFLASH", "DSPARK")
"""Algorithms that draft in one pass or without a pass."""


@dataclass(frozen=True, slots=True)
class DraftWords:
    """The flags of a draft.

    - adaptive: the contents of the file that the flags name, if the draft length depends on the batch size.
    """

    words: list[str]
    adaptive: dict[str, Any] | None = None


class SGLang(Server):
    """SGLang. Only EAGLE heads can have draft lengths by batch size. Other drafts have one length."""

    checked = "0.5.23"
    kv_names: ClassVar = {"fp8": "fp8_e4m3"}
    router: ClassVar = (
        "The router of both pools: python -m sglang_router.launch_router --pd-disaggregation --prefill URL "
        "--decode URL, with the URL of each server; prefill servers on one host each need their own "
        "--disaggregation-bootstrap-port, which the router takes after their URL"
    )

    def start(self, setup: Setup, notes: list[str]) -> Started | None:
        """The ``sglang.launch_server`` line."""
        if setup.target.on_load and setup.target.too_large:
            notes.append(
                f"SGLang loads all weights before it quantises them, and {setup.target.too_large}: pass "
                f"--model-path to name a checkpoint in {setup.target.weights}"
            )
            return None
        draft = None
        if setup.drafts:
            draft = self._draft(setup, notes)
            if draft is None:
                return None
        words = [*self.environment(setup.target), "python", "-m", "sglang.launch_server"]
        words += ["--model-path", str(setup.target.model_id)]
        words += self._arguments(setup.table, setup.target, notes)
        if draft is None:
            return Started(shlex.join(words))
        return Started(shlex.join([*words, *draft.words]), draft.words, draft.adaptive)

    def tree_flags(self, steps: int, candidates: int, verified: int) -> tuple[str, ...]:
        """The flags for trees, which state the steps, the candidates per step, and the verified tokens
        including the root.
        """
        shape = {"num-steps": steps, "eagle-topk": candidates, "num-draft-tokens": verified}
        return tuple(words_of({f"--speculative-{name}": value for name, value in shape.items()}))

    def degrees(self, devices: int, groups: int, version: str = "") -> str:
        """See `Server.degrees`. In SGLang, ``--tp`` is the number of all devices of a server. The attention
        groups share these devices.
        """
        if groups == 1:
            return ""
        flags = " ".join(words_of(self._groups(groups, version)))
        return f"In SGLang these {devices} devices are --tp {devices} {flags}, which divides them"

    def _groups(self, groups: int, version: str) -> dict[str, object]:
        """Flags of data-parallel attention in a version; empty for the newest."""
        if groups == 1:
            return {}
        renamed = serving_engines()[self.word].attention_groups
        if version and release(version) < release(renamed):
            return {"--dp": groups, "--enable-dp-attention": True}
        return {"--attn-dp-size": groups}

    def other_nodes(self, target: ServedTarget) -> str:
        """See `Server.other_nodes`."""
        return say_others(target.nodes, "has --node-rank", 1)

    def _arguments(self, table: LengthTable, target: ServedTarget, notes: list[str]) -> list[str]:
        """Flags of the target that differ from SGLang's defaults. The largest batch is that of the table."""
        backend = named_backend(self.word, target)
        cache = self.kv_names.get(target.kv_dtype)
        if cache is None:
            note_missing_cache(self.title, target, backend, notes)
        experts = {
            "--ep": several(target.expert_parallel),
            "--moe-a2a-backend": target.dispatch_of(self.word),
        }
        devices = {"--tp": several(target.tensor_parallel)}
        formats = {
            "--quantization": target.weights if target.on_load else None,
            "--kv-cache-dtype": cache,
            "--mamba-ssm-dtype": target.state_dtype,
        }
        attention = {"--attention-backend": backend.word if backend else None}
        memory = {
            "--mem-fraction-static": target.memory_fraction,
            "--context-length": target.sequence_tokens(table),
            "--max-running-requests": table.ranges[-1].high,
        }
        groups = self._groups(target.data_parallel, target.version_of(self.word))
        pool = {"--disaggregation-mode": target.pool}
        return words_of(_of_nodes(target) | groups | experts | devices | formats | attention | memory | pool)

    def _draft(self, setup: Setup, notes: list[str]) -> DraftWords | None:
        """The words that start the draft; None if there is no such draft, with the reason in `notes`."""
        table = setup.table
        known = self.known_draft(setup.draft)
        algorithm = None if known is None else known.method
        by_batch = algorithm in BY_BATCH and len(table.ranges) > 1
        tokens = table.max_tokens if by_batch else table.best_constant
        if tokens == 0:
            notes.append(
                "SGLang takes one draft length, and the best single one is 0: leave speculation off there"
            )
            return None
        flags = _draft_flags(setup, algorithm, tokens, notes)
        if flags is None:
            return None
        words = words_of({f"--speculative-{name}": value for name, value in flags.items()})
        if by_batch:
            notes.append(
                f"SGLang reads its lengths by batch size from {ADAPTIVE_FILE}: write it before you start the "
                "server"
            )
            words += ["--speculative-adaptive", "--speculative-adaptive-config", ADAPTIVE_FILE]
            return DraftWords(words, {str(r.low): {"candidate_steps": [r.tokens]} for r in table.ranges})
        if len(table.ranges) > 1:
            notes.append(f"SGLang takes only one draft length: its line uses the best one, {tokens}")
        return DraftWords(words)


def _draft_flags(
    setup: Setup, algorithm: str | None, tokens: int, notes: list[str]
) -> dict[str, object] | None:
    """Flag without ``--speculative-`` -> its value; None if SGLang cannot run the draft, with the reason in
    `notes`.
    """
    draft = setup.draft
    path = setup.draft_path
    windowed = _window(draft, algorithm, notes)
    if algorithm is None:
        notes.append(f"SGLang has no flag for a {draft.name.partition(':')[0]} draft")
        return None
    if windowed is None:
        notes.append("SGLang has no flag for a draft with a sparse view of the cache")
        return None
    has_checkpoint = algorithm != "NGRAM" and (algorithm != "NEXTN" or path is not None)
    if has_checkpoint and path is None:
        notes.append(missing_path(draft))
        return None
    if algorithm == "STANDALONE" and setup.target.foreign(draft):
        return None
    flags: dict[str, object] = {"algorithm": algorithm}
    if has_checkpoint:
        flags["draft-model-path"] = path
        if draft.tensor_parallel != setup.target.tensor_parallel:
            notes.append(
                f"SGLang shards a draft like its target: its line drafts on {setup.target.tensor_parallel} "
                f"devices, not on {draft.tensor_parallel}"
            )
    if algorithm != "NGRAM":
        flags["draft-model-quantization"] = _quantization(setup, notes)
    if algorithm not in WITHOUT_STEPS:
        flags |= {"num-steps": tokens, "eagle-topk": 1}
    flags["num-draft-tokens"] = tokens + 1
    if algorithm == "NGRAM":  # a chain is a tree of breadth 1
        flags["ngram-max-bfs-breadth"] = 1
    elif algorithm == "DSPARK":  # the block has all verified tokens but the first
        flags["dspark-block-size"] = tokens
    return flags | windowed


def _quantization(setup: Setup, notes: list[str]) -> str | None:
    """The value of the flag for the weight format of the draft; None if the flag is left out. Without the
    flag, SGLang quantises the draft on load like the target.
    """
    target = setup.target
    form = setup.draft.precision.weights.name
    if not target.on_load or form not in UNQUANTISED:
        return None
    since = serving_engines()["sglang"].draft_quantization
    version = target.version_of("sglang")
    if version and release(version) < release(since):
        notes.append(
            f"SGLang {version} quantises the draft with its target; the prediction is for {form} weights"
        )
        return None
    return "unquant"


def _of_nodes(target: ServedTarget) -> dict[str, object]:
    """Flags of the first of several nodes."""
    if target.nodes == 1:
        return {}
    return {"--nnodes": target.nodes, "--node-rank": 0, "--dist-init-addr": f"{HEAD}:{PORT}"}


def _window(draft: Draft, algorithm: str | None, notes: list[str]) -> dict[str, int] | None:
    """The flags for the part of its cache that a draft reads. The result is empty for the whole cache, and
    None if SGLang cannot run the draft.
    """
    if draft.kv.reads_all:
        return {}
    if not isinstance(draft.kv, StreamingLLM) or algorithm not in ("EAGLE", "EAGLE3", "NEXTN"):
        return None
    if algorithm == "EAGLE3":
        notes.append("SGLang's EAGLE-3 heads keep no sink tokens: the prediction is for the window alone")
        return {"draft-window-size": draft.kv.budget}
    return {"draft-window-size": draft.kv.budget - draft.kv.sinks, "draft-sink-size": draft.kv.sinks}
