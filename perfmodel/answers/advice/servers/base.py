"""The values in a command line that starts a server, and the base class of the engines that have such a
line.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from perfmodel.answers.advice.draft_lengths import LengthTable
from perfmodel.answers.question import served_draft
from perfmodel.drafts.base import Draft
from perfmodel.operations import Array
from perfmodel.specs import engine_attention, serving_engines
from perfmodel.specs.engines.attention import Backend
from perfmodel.specs.engines.served_drafts import ServedDraft
from perfmodel.speculation import Scenario, memory_of
from perfmodel.speculation.confidence import Stop

ANSWER_TOKENS = 2048
"""Tokens that a server accepts beyond the context of the question, for the output. It is an assumption."""
UNQUANTISED = ("bf16", "fp16", "fp32")
"""Formats of checkpoints that are not quantised."""
HEAD = "HEAD"
"""In a command line, stands for the address of the first node."""
MODEL = "MODEL"
"""In a command line, stands for a checkpoint that the reader must find."""


@dataclass(frozen=True, slots=True)
class ServedFile:
    """The target as llama.cpp loads it from a GGUF file.

    path: the GGUF file, or the repository that has the file. tensor_parallel: number of devices over which
    every layer is divided. layer_devices: number of devices among which the layers are divided and that
    run one after another. cpu_moe: number of layers whose experts stay in host memory. gpu_layers: number
    of layers on the GPU; None for all. best_stop: a function of batches, contexts and the best single
    draft length, as `speculation.confidence.best_stop`; None if no acceptance by confidence is known.
    """

    path: str
    tensor_parallel: int = 1
    layer_devices: int = 1
    cpu_moe: int = 0
    gpu_layers: int | None = None
    kv_dtype: str = "bf16"
    best_stop: Callable[[Array, Array, int], Stop] | None = None


@dataclass(frozen=True, slots=True)
class ServedTarget:
    """The target as it was predicted: the values that the engine's command line must set."""

    model_id: str | None
    """The engine's name of the model; None if unknown."""
    tensor_parallel: int = 1
    """All devices of a server, over which data-parallel attention groups are formed."""
    weights: str = "bf16"
    kv_dtype: str = "bf16"
    state_dtype: str | None = None
    """Format of recurrent states, as engines name it; None means the format of the checkpoint."""
    memory_fraction: float | None = None
    """Share of the memory that the server takes; None leaves it to the engine."""
    vocab_size: int | None = None
    """Size of the vocabulary; None skips the comparison with the draft's."""
    expert_parallel: int = 1
    data_parallel: int = 1
    attention_backend: str | None = None
    """The attention backend that the line states; None leaves it to the engine."""
    environment: str = ""
    """The variable that the engine's server needs in its environment, with its value; empty for none."""
    half: bool = False
    """Whether the server must be told to compute in FP16."""
    file: ServedFile | None = None
    """The GGUF file, which only some engines serve."""
    mtp_layers: int | None = None
    """Multi-token prediction layers of the checkpoint; None if unknown."""
    latent: bool = False
    """Whether its attention caches latent vectors instead of keys and values (MLA)."""
    on_load: bool = False
    """Whether engines quantise the checkpoint when they load it."""
    holds_unquantised: bool = True
    """Whether the devices have the memory for all weights before they are quantised."""
    checkpoint: str = ""
    """Format of the checkpoint that `model_id` names, if it is not the model's own format; empty if no
    checkpoint in the format of the question is known.
    """
    stands_for: str = ""
    """A sentence about the checkpoint for which `MODEL` stands in the line; empty if the line names a
    checkpoint.
    """
    engine: str | None = None
    """The engine that was predicted, as in ``--engine``."""
    nodes: int = 1
    """Nodes over which the devices of a server are spread evenly."""
    dispatch: Mapping[str, str] = field(default_factory=dict)
    """Engine -> its name for the library that sends tokens to their experts; empty if there is none."""
    version: str = ""
    """The version of this engine that the question names; empty for the newest."""
    alone: bool = False
    """Whether no other engine serves the checkpoint, or runs on the device."""
    longest: Callable[[int, int, int], int] | None = None
    """Tokens of the longest sequence that a server accepts at a context, with this many sequences and drafted
    tokens; None leaves the engine's own limit.
    """

    def foreign(self, draft: Draft) -> bool:
        """Whether the draft model is known to have a vocabulary of another size than the target."""
        return self.vocab_size is not None and draft.model.vocab_size != self.vocab_size

    def version_of(self, engine: str) -> str:
        """The version of `engine` for which its command line is; empty for the newest."""
        return self.version if engine == self.engine else ""

    def dispatch_of(self, engine: str) -> str | None:
        """The name that `engine` has for the library that sends tokens to their experts. Returns None if
        it has no name, or if the question states a version of the engine.
        """
        return None if self.version_of(engine) else self.dispatch.get(engine)

    def sequence_tokens(self, table: LengthTable, sequences: int = 1) -> int | None:
        """The longest sequence in tokens that the server accepts, for the contexts of a table; None leaves
        it to the engine.
        """
        if self.longest is None:
            return None
        return self.longest(table.context_high, sequences, table.max_tokens)


def longest_sequence(
    scenario: Scenario,
    memory_fraction: float | None,
    stated: int | None,
    context: int,
    sequences: int,
    gamma: int,
) -> int:
    """The longest sequence in tokens: the context plus `ANSWER_TOKENS`, or less if the model or the memory
    does not allow it, but at least the context.

    stated: the length that the question states; it is then the result. sequences: number of sequences of
    this length that memory must hold at once. gamma: number of drafted tokens, because a draft needs
    memory too.
    """
    if stated is not None:
        return stated
    limit = scenario.target.max_position_embeddings or context + ANSWER_TOKENS
    rooms = ANSWER_TOKENS // 2 ** np.arange(ANSWER_TOKENS.bit_length())
    tokens = np.minimum(context + rooms, max(limit, context))
    fits = memory_of(scenario, float(sequences), tokens.astype(float), float(gamma), memory_fraction).fits
    return int(tokens[np.argmax(fits)]) if np.any(fits) else context


@dataclass(frozen=True, slots=True)
class Setup:
    """A server to start. table: the draft lengths by batch size. draft_path: path or repository of the
    head or draft model; None if it is unknown.
    """

    table: LengthTable
    draft: Draft
    target: ServedTarget
    draft_path: str | None = None

    @property
    def drafts(self) -> bool:
        """Whether the table has a draft length above 0."""
        return self.table.max_tokens > 0


@dataclass(frozen=True, slots=True)
class Started:
    """A command line that starts a server. draft: the part of the line that is about the draft, in the
    engine's own form. adaptive: the contents of the file that the line names, if the draft length depends
    on the batch size.
    """

    line: str
    draft: Any = None
    adaptive: dict[str, Any] | None = None


class Server(ABC):
    """Writes the command line of one engine.

    checked: the version whose parser accepted lines of this form (tests/engine); empty if no parser was
    tried. serves_files: whether the engine loads only GGUF files. kv_names: KV format -> its name in the
    engine. alone: whether only questions about this engine get its line, because no other engine runs its
    checkpoints or devices. states_length: whether the line states the longest sequence.
    """

    checked: ClassVar[str] = ""
    serves_files: ClassVar[bool] = False
    kv_names: ClassVar[Mapping[str, str]] = {}
    alone: ClassVar[bool] = False
    states_length: ClassVar[bool] = True

    def __init__(self, word: str) -> None:
        self.word = word

    @property
    def title(self) -> str:
        """The engine's name."""
        return serving_engines()[self.word].title

    @abstractmethod
    def start(self, setup: Setup, notes: list[str]) -> Started | None:
        """The command line of a setup. Returns None if the engine cannot run its draft or layout; the
        reason is then added to `notes`.
        """

    def offers(self, target: "ServedTarget") -> bool:
        """Whether the engine can serve the target as it was predicted."""
        if target.file is not None:
            return self.serves_files
        if self.alone or target.alone:
            return self.alone and self.word == target.engine
        return not self.serves_files

    def known_draft(self, draft: Draft) -> ServedDraft | None:
        """The engine's facts about this kind of draft; None if the engine does not run it."""
        return served_draft(serving_engines()[self.word], draft)

    def tree_flags(self, steps: int, candidates: int, verified: int) -> tuple[str, ...] | None:
        """The flags for trees of this shape; None if no flags are known. steps: draft steps. candidates:
        candidates per step. verified: verified tokens, the root included.
        """
        return None

    def degrees(self, devices: int, groups: int, version: str = "") -> str:
        """A sentence about the flags with which this engine runs `devices` devices in `groups`
        data-parallel attention groups; empty for one group. version: version of the engine; empty for the
        newest.
        """
        return ""

    def environment(self, target: ServedTarget) -> list[str]:
        """The environment variable that the command line must set, as ``NAME=value``; empty if there is
        none. The variable is only known for the engine that was predicted.
        """
        return [target.environment] if target.environment and target.engine == self.word else []

    def other_nodes(self, target: ServedTarget) -> str:
        """A sentence that says how the line must be changed on the other nodes of the server; empty for
        one node.
        """
        return ""


def say_others(nodes: int, change: str, step: int) -> str:
    """A sentence about how the line differs on the other nodes; empty for one node. change: the flag that
    differs. step: by how much its value rises from node to node.
    """
    if nodes == 1:
        return ""
    node, rank = "node 1", f"{step}"
    if nodes > 2:
        node, rank = f"node N of 1 to {nodes - 1}", "N" if step == 1 else f"{step} x N"
    return f"{HEAD} stands for the address of node 0; {node} {change} {rank}"


def named_backend(engine: str, target: ServedTarget) -> Backend | None:
    """The attention backend that the command line states; None if the engine chooses the backend."""
    if not target.attention_backend:
        return None
    attention = engine_attention()[engine]
    names = attention.named(target.attention_backend)
    return attention.backends[names[0]] if names else None


def note_missing_cache(title: str, target: ServedTarget, backend: Backend | None, notes: list[str]) -> None:
    """Adds a note if an engine does not have the KV format of the prediction. title: name of the engine."""
    if target.kv_dtype == "bf16":
        return
    where = f"{title} {backend.word}" if backend else title
    notes.append(f"{where} has no {target.kv_dtype} KV cache: its command line has bf16")


def several(count: int) -> int | None:
    """`count` if it is above 1; None for 1, which is the default of every engine."""
    return count if count > 1 else None


def words_of(values: Mapping[str, object]) -> list[str]:
    """The words of a command line from flags and their values. A flag is left out if its value is None or
    False, and has no value if it is True.
    """
    words: list[str] = []
    for flag, value in values.items():
        if value is None or value is False:
            continue
        words.append(flag)
        if value is not True:
            words.append(str(value))
    return words
