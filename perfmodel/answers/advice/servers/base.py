"""The contents of a line that starts a server, and the base class of the engines that have such a line."""

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
"""Room for the rest of an answer beyond the context of the question, in a served sequence. An assumption."""
UNQUANTISED = ("bf16", "fp16", "fp32")
"""Formats of checkpoints that are not quantised."""
HEAD = "HEAD"
"""Stands for the address of the first node in a line."""
MODEL = "MODEL"
"""Stands for a checkpoint that the reader must find, in a line."""


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


@dataclass(frozen=True, slots=True)
class ServedTarget:
    """The target as it was modelled: the values that the engine's command line must set."""

    model_id: str | None
    """The engine's name of the model; None if unknown."""
    tensor_parallel: int = 1
    """All devices of a server, over which data-parallel attention groups are formed."""
    weights: str = "bf16"
    kv_dtype: str = "bf16"
    state_dtype: str | None = None
    """Format of recurrent states in the words of the engines; None means that of the checkpoint."""
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
    """Whether its attention caches a latent."""
    on_load: bool = False
    """Whether engines quantise the checkpoint when they load it."""
    holds_unquantised: bool = True
    """Whether the devices have the memory for all weights before they are quantised."""
    checkpoint: str = ""
    """Format of the checkpoint that `model_id` names, if the question asks for another than the model's own;
    empty if no checkpoint of the question's format is known.
    """
    stands_for: str = ""
    """What `MODEL` stands for in the line, as a sentence; empty if the line names a checkpoint."""
    engine: str | None = None
    """The engine that was modelled, by its word."""
    nodes: int = 1
    """Nodes over which the devices of a server are spread evenly."""
    dispatch: Mapping[str, str] = field(default_factory=dict)
    """Engine -> its word for the library that dispatches tokens to their experts; empty if none does."""
    version: str = ""
    """The version of this engine that the question names; empty for the newest."""
    alone: bool = False
    """Whether no other engine serves the checkpoint, or runs on the device."""
    longest: Callable[[int, int, int], int] | None = None
    """Tokens of the longest sequence that a server accepts at a context, with this many sequences and drafted
    tokens; None leaves the engine's own limit.
    """

    def foreign(self, draft: Draft) -> bool:
        """Whether the draft model is known to have another vocabulary."""
        return self.vocab_size is not None and draft.model.vocab_size != self.vocab_size

    def version_of(self, engine: str) -> str:
        """The version of an engine that its line is for; empty for the newest."""
        return self.version if engine == self.engine else ""

    def dispatch_of(self, engine: str) -> str | None:
        """An engine's word for the library that dispatches tokens, in its newest version; None if it has
        no word.
        """
        return None if self.version_of(engine) else self.dispatch.get(engine)

    def sequence_tokens(self, table: LengthTable, sequences: int = 1) -> int | None:
        """Tokens of the longest sequence at the contexts of a table; None leaves the engine's own limit."""
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
    """A context with room for the answer, as far as the model and the memory of the devices allow it.

    stated: the limit that the question states. sequences: number of sequences that must have this room at
    once. gamma: drafted tokens, whose draft takes memory too.
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
    """A server to start: draft lengths by batch size, the draft, the target, and where the engine finds the
    head or draft model (None if that is unknown).
    """

    table: LengthTable
    draft: Draft
    target: ServedTarget
    draft_path: str | None = None

    @property
    def drafts(self) -> bool:
        """Whether some draft length gains."""
        return self.table.max_tokens > 0


@dataclass(frozen=True, slots=True)
class Started:
    """A line that starts a server. draft: the engine's own words for the draft. adaptive: contents of the
    file that the line names, if the length depends on the batch size.
    """

    line: str
    draft: Any = None
    adaptive: dict[str, Any] | None = None


class Server(ABC):
    """The names, flags and line of one engine.

    checked: the version whose parser accepted lines of this form (tests/engine); empty if no parser was
    tried. serves_files: whether it serves GGUF files, and nothing else. kv_names: KV format -> its name in
    the engine. alone: whether no other engine runs its checkpoints or devices, so that it is offered only
    to questions about it. states_length: whether its line states the longest sequence. degrees: one
    sentence with the engine's own meaning of its degrees of parallelism.
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
        """The line of a setup. None if the engine has no such draft or layout; `notes` gets the reason."""

    def offers(self, target: "ServedTarget") -> bool:
        """Whether it can serve the target as it was modelled."""
        if target.file is not None:
            return self.serves_files
        if self.alone or target.alone:
            return self.alone and self.word == target.engine
        return not self.serves_files

    def known_draft(self, draft: Draft) -> ServedDraft | None:
        """The draft in this engine; None if it has none."""
        return served_draft(serving_engines()[self.word], draft)

    def tree_flags(self, steps: int, candidates: int, verified: int) -> tuple[str, ...] | None:
        """The words that start a draft with trees of this shape; None if the engine has no trees."""
        return None

    def degrees(self, devices: int, groups: int, version: str = "") -> str:
        """The devices of a server, in groups of data-parallel attention, by the engine's own flags. Empty
        without such groups. version: empty for the newest.
        """
        return ""

    def environment(self, target: ServedTarget) -> list[str]:
        """The variable that must be set before the line, with its value; empty for none. The variable is
        only known for the engine that was modelled.
        """
        return [target.environment] if target.environment and target.engine == self.word else []

    def other_nodes(self, target: ServedTarget) -> str:
        """What to change in the line on the other nodes, as a sentence; empty for one node."""
        return ""


def say_others(nodes: int, change: str, step: int) -> str:
    """How the line differs on the other nodes, whose ranks rise by `step`; empty for one node."""
    if nodes == 1:
        return ""
    node, rank = "node 1", f"{step}"
    if nodes > 2:
        node, rank = f"node N of 1 to {nodes - 1}", "N" if step == 1 else f"{step} x N"
    return f"{HEAD} stands for the address of node 0; {node} {change} {rank}"


def named_backend(engine: str, target: ServedTarget) -> Backend | None:
    """The attention backend that the line states; None for the engine's own choice."""
    if not target.attention_backend:
        return None
    attention = engine_attention()[engine]
    names = attention.named(target.attention_backend)
    return attention.backends[names[0]] if names else None


def note_missing_cache(title: str, target: ServedTarget, backend: Backend | None, notes: list[str]) -> None:
    """A note if an engine has no KV cache of the format that was priced."""
    if target.kv_dtype == "bf16":
        return
    where = f"{title} {backend.word}" if backend else title
    notes.append(f"{where} has no {target.kv_dtype} KV cache: its command line has bf16")


def several(count: int) -> int | None:
    """A number of devices or groups as a flag states it; None for one, which is every engine's default."""
    return count if count > 1 else None


def words_of(values: Mapping[str, object]) -> list[str]:
    """Words of a command line from flags and values; a flag with the value None is left out, one with True
    stands alone.
    """
    words: list[str] = []
    for flag, value in values.items():
        if value is None or value is False:
            continue
        words.append(flag)
        if value is not True:
            words.append(str(value))
    return words
