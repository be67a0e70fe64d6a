"""The values in a command line that starts a server, and the base class of the engines for which such lines
are written.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from perfmodel.answers.advice.draft_lengths import LengthTable
from perfmodel.answers.question import draft_word, served_draft
from perfmodel.drafts.base import Draft
from perfmodel.operations import Array
from perfmodel.specs import engine_attention, serving_engines
from perfmodel.specs.engines.attention import Backend
from perfmodel.specs.engines.served_drafts import ServedDraft
from perfmodel.speculation import Scenario, memory_of
from perfmodel.speculation.confidence import Stop

ANSWER_TOKENS = 2048
"""Number of tokens that a server accepts beyond the context of the question, for the output. This is an
assumption.
"""
UNQUANTISED = ("bf16", "fp16", "fp32")
"""Formats of checkpoints that are not quantised."""
SHORTEST_MATCH, LONGEST_MATCH = 2, 4
"""Smallest and largest n-gram that a draft matches. They are from prompt look-up (Saxena 2023)."""
HEAD = "HEAD"
"""This word stands for the address of the first node in a command line."""
MODEL = "MODEL"
"""This word stands for a checkpoint that the reader must find, in a command line."""

VISIBLE = {"NVIDIA": "CUDA_VISIBLE_DEVICES", "AMD": "HIP_VISIBLE_DEVICES"}
"""Vendor -> the environment variable that lists the devices of a process."""


@dataclass(frozen=True, slots=True)
class ServedFile:
    """The target as llama.cpp loads it from a GGUF file.

    - path: the GGUF file, or the repository that has the file.
    - tensor_parallel: number of devices over which every layer is divided.
    - layer_devices: number of devices that share the layers and run one after another.
    - cpu_moe: number of layers whose experts stay in host memory.
    - gpu_layers: number of layers on the GPU; None means all.
    - best_stop: the function `speculation.confidence.best_stop` for this scenario. The function takes
      batches, contexts and the best single draft length. None means that no acceptance by confidence is
      known.
    - ideal_stop: the function `speculation.confidence.ideal_stop` with the same arguments. None means that no
      acceptance is known.
    """

    path: str
    tensor_parallel: int = 1
    layer_devices: int = 1
    cpu_moe: int = 0
    gpu_layers: int | None = None
    kv_dtype: str = "bf16"
    best_stop: Callable[[Array, Array, int], Stop] | None = None
    ideal_stop: Callable[[Array, Array, int], Stop] | None = None


@dataclass(frozen=True, slots=True)
class ServedTarget:
    """The target as it was predicted: the values that the engine's command line must set."""

    model_id: str | None
    """The name of the model in the engine; None if unknown."""
    tensor_parallel: int = 1
    """Number of all devices of a server. Data-parallel attention groups share these devices."""
    weights: str = "bf16"
    kv_dtype: str = "bf16"
    state_dtype: str | None = None
    """Format of recurrent states, as engines name it; None means the format of the checkpoint."""
    memory_fraction: float | None = None
    """Share of the memory that the server uses; None means the engine's default."""
    vocab_size: int | None = None
    """Size of the vocabulary; None skips the comparison with the draft's."""
    expert_parallel: int = 1
    data_parallel: int = 1
    attention_backend: str | None = None
    """The attention backend that the line states; None means the engine's choice."""
    environment: str = ""
    """The environment variable that the server needs, with its value; empty if it needs none."""
    half: bool = False
    """Whether the command line must state that the server computes in FP16."""
    file: ServedFile | None = None
    """The GGUF file. Only some engines serve such files."""
    mtp_layers: int | None = None
    """Number of multi-token prediction layers of the checkpoint; None if unknown."""
    latent: bool = False
    """Whether the attention of the target caches latent vectors (MLA) instead of keys and values."""
    on_load: bool = False
    """Whether engines quantise the checkpoint when they load it."""
    too_large: str = ""
    """A clause with both sizes if the weights do not fit in the memory of the devices before they are
    quantised; empty if they fit.
    """
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
    """Number of machines on which the devices of a server are evenly distributed. A node of a rack has
    several machines.
    """
    dispatch: Mapping[str, str] = field(default_factory=dict)
    """Engine -> its name for the library that sends tokens to their experts; empty if there is none."""
    version: str = ""
    """The version of this engine that the question names; empty for the newest version."""
    alone: bool = False
    """Whether no other engine can serve the checkpoint or run on the device."""
    longest: Callable[[int, int, int], int] | None = None
    """A function that returns the maximum sequence length in tokens. Its arguments are the context, the
    number of sequences and the number of drafted tokens. None means the engine's own limit.
    """

    pool: str | None = None
    """The pool of the server, ``prefill`` or ``decode``; None for a server that does both."""
    shares_host: bool = False
    """Whether other servers of the layout can run on the same host."""
    vendor: str = ""
    """The vendor of the devices."""

    def foreign(self, draft: Draft) -> bool:
        """Whether the vocabulary of the draft model is known to have another size than that of the target."""
        return self.vocab_size is not None and draft.model.vocab_size != self.vocab_size

    def version_of(self, engine: str) -> str:
        """The version of `engine` for which the command line is written; empty for the newest version."""
        return self.version if engine == self.engine else ""

    def dispatch_of(self, engine: str) -> str | None:
        """The name of the library that sends tokens to their experts, as `engine` spells it. The result is
        None if the engine has no name for it, or if the question states a version of the engine.
        """
        return None if self.version_of(engine) else self.dispatch.get(engine)

    def sequence_tokens(self, table: LengthTable, sequences: int = 1) -> int | None:
        """The maximum sequence length of the server in tokens, for the contexts of a table. None means the
        engine's own limit.
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
    """The maximum sequence length in tokens. The length is the context plus `ANSWER_TOKENS`, or less if the
    model or the memory does not allow this, but at least the context.

    - stated: the length that the question states. The function returns this length unless it is None.
    - sequences: number of sequences of this length that must fit in memory at once.
    - gamma: number of drafted tokens, because a draft needs memory too.
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
    """A server to start.

    - table: the draft lengths by batch size.
    - draft_path: path or repository of the head or draft model; None if unknown.
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
    """A command line that starts a server.

    - draft: the part of the line for the draft, in the form of the engine.
    - adaptive: the contents of the file that the line names, if the draft length depends on the batch size.
    """

    line: str
    draft: Any = None
    adaptive: dict[str, Any] | None = None


class Server(ABC):
    """Writes the command line of one engine.

    - checked: the engine version whose parser accepted lines of this form (tests/engine); empty if no parser
      was tried.
    - serves_files: whether the engine only loads GGUF files.
    - kv_names: KV format -> its name in the engine.
    - alone: whether the line is only written for questions about this engine, because no other engine runs
      its checkpoints or devices.
    - states_length: whether the line states the maximum sequence length.
    - port: the flag of the port on which a server listens.
    - router: how requests reach separate prefill and decode pools, in words; empty if no line of such a
      server is known.
    """

    checked: ClassVar[str] = ""
    serves_files: ClassVar[bool] = False
    kv_names: ClassVar[Mapping[str, str]] = {}
    alone: ClassVar[bool] = False
    states_length: ClassVar[bool] = True
    port: ClassVar[str] = "--port"
    router: ClassVar[str] = ""

    def __init__(self, word: str) -> None:
        self.word = word

    @property
    def title(self) -> str:
        """The name of the engine, such as ``vLLM``."""
        return serving_engines()[self.word].title

    @abstractmethod
    def start(self, setup: Setup, notes: list[str]) -> Started | None:
        """The command line for a setup. The result is None if the engine cannot run its draft or layout. The
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
        """The entry for this kind of draft in the data file of the engine. The result is None if the engine
        does not run such drafts.
        """
        return served_draft(serving_engines()[self.word], draft)

    def tree_flags(self, steps: int, candidates: int, verified: int) -> tuple[str, ...] | None:
        """The flags for trees of this shape. The result is None if no flags are known.

        - steps: number of draft steps.
        - candidates: number of candidates per step.
        - verified: number of verified tokens, including the root.
        """
        return None

    def degrees(self, devices: int, groups: int, version: str = "") -> str:
        """A sentence about the flags with which this engine divides `devices` devices into `groups`
        data-parallel attention groups. The result is empty for one group.

        - version: version of the engine; empty for the newest version.
        """
        return ""

    def quantising(self, target: ServedTarget) -> str:
        """A sentence about a checkpoint that is quantised on load but does not fit before. The result is
        empty for other checkpoints.
        """
        if not target.on_load or not target.too_large:
            return ""
        return (
            f"{self.title} quantises this checkpoint on load: {target.too_large}, so only a version that "
            f"quantises layer by layer can load it (--model-path names a checkpoint in {target.weights})"
        )

    def copies(self, target: ServedTarget) -> str:
        """A sentence that says how servers with this line differ on one host. The result is empty if each
        host has one server.
        """
        if not target.shares_host:
            return ""
        visible = VISIBLE.get(target.vendor)
        devices = "devices" if visible is None else f"devices ({visible})"
        return f"{self.title} servers on one host each need their own {devices} and {self.port}"

    def environment(self, target: ServedTarget) -> list[str]:
        """The environment variable that the command line must set, as ``NAME=value``. The result is empty if
        there is none. The variable is only known for the predicted engine.
        """
        return [target.environment] if target.environment and target.engine == self.word else []

    def other_nodes(self, target: ServedTarget) -> str:
        """A sentence that says how the line must be changed on the other nodes of the server. The result is
        empty for one node.
        """
        return ""


def say_others(nodes: int, change: str, step: int) -> str:
    """A sentence that says how the line differs on the other nodes. The result is empty for one node.

    - change: the flag that differs.
    - step: the difference of its value between two neighbouring nodes.
    """
    if nodes == 1:
        return ""
    node, rank = "node 1", f"{step}"
    if nodes > 2:
        node, rank = f"node N of 1 to {nodes - 1}", "N" if step == 1 else f"{step} x N"
    return f"{HEAD} stands for the address of node 0; {node} {change} {rank}"


def named_backend(engine: str, target: ServedTarget) -> Backend | None:
    """The attention backend that the command line states. The result is None if the engine chooses the
    backend.
    """
    if not target.attention_backend:
        return None
    attention = engine_attention()[engine]
    names = attention.named(target.attention_backend)
    return attention.backends[names[0]] if names else None


def missing_path(draft: Draft) -> str:
    """A note that asks for the checkpoint of a draft."""
    which = f"checkpoint of {draft.model.name}" if draft.named_model else f"{draft_word(draft)} head"
    return f"pass --draft-path to name the {which}"


def note_missing_cache(title: str, target: ServedTarget, backend: Backend | None, notes: list[str]) -> None:
    """Adds a note if an engine does not have the KV format of the prediction.

    - title: name of the engine.
    """
    if target.kv_dtype == "bf16":
        return
    where = f"{title} {backend.word}" if backend else title
    notes.append(f"{where} has no {target.kv_dtype} KV cache: its command line has bf16")


def several(count: int) -> int | None:
    """The count if it is above 1. The result is None for 1, which is the default of every engine."""
    return count if count > 1 else None


def words_of(values: Mapping[str, object]) -> list[str]:
    """The words of a command line from flags and their values. A flag is left out if its value is None or
    False. If the value is True, only the flag is written.
    """
    words: list[str] = []
    for flag, value in values.items():
        if value is None or value is False:
            continue
        words.append(flag)
        if value is not True:
            words.append(str(value))
    return words
