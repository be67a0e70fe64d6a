"""Lines that start a server with the priced configuration, for every engine that has one
(`advice.servers`).

Where an engine has no such draft, the answer is None and a note gives the reason; no method name is invented.
The engines' own parsers accepted every kind of line (tests/engine/lines.json, made by ``make test-engine``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from perfmodel.answers.advice.draft_lengths import LengthTable
from perfmodel.answers.advice.servers import ServedFile, ServedTarget, Setup, Started, servers
from perfmodel.answers.advice.servers.base import longest_sequence
from perfmodel.answers.advice.servers.llamacpp import gguf_name
from perfmodel.answers.question import CommonOptions, Query, draft_word, published_head, resolve
from perfmodel.answers.question.placement import check_blocks
from perfmodel.drafts.base import Draft
from perfmodel.errors import InputError, refuse
from perfmodel.specs import (
    DRIFT,
    engine_of,
    in_gguf,
    is_gguf,
    served_id,
    serving_engines,
    weight_format,
)
from perfmodel.specs.acceptance.acceptance_library import head_kind
from perfmodel.specs.engines.backends import attention_of
from perfmodel.specs.models.checkpoints import alike, checkpoint, main_format
from perfmodel.specs.models.ggml import repository
from perfmodel.specs.models.mlx import converted_name
from perfmodel.specs.models.model import Checkpoint
from perfmodel.speculation import Scenario, speedups

UNQUANTISED = ("bf16", "fp16", "fp32")
"""Formats of checkpoints that are not quantised."""
UNQUANTISED_BYTES = 2.0
"""Bytes of a weight while an engine quantises it."""


def served_target(question: CommonOptions, model_id: str | None, scenario: Scenario) -> ServedTarget:
    """The target of a question. Formats of the checkpoint itself need no flag."""
    asked = question.weights not in (None, scenario.target.weights, main_format(scenario.target.weights))
    weights = scenario.precision.weights.name.replace("-wo", "")  # a checkpoint is the same on any device
    engine = engine_of(scenario.machine.calibration)
    known = serving_engines().get(engine or "")
    fabric = scenario.machine.fabric
    nodes = 1 if fabric is None else fabric.nodes
    _, _, version = (question.engine or "").partition(DRIFT)
    kv_dtype = "bf16" if question.kv_dtype is None else scenario.precision.kv.name
    quantises = weights == "fp8" and scenario.target.weights in UNQUANTISED
    longest = partial(longest_sequence, scenario, question.memory_fraction, question.max_model_len)
    latent = scenario.target.mla is not None
    backend, environment = _attention(scenario)
    if question.attention_backend is not None or not environment or latent:
        backend = question.attention_backend  # the engine has another word for a latent cache
    return ServedTarget(
        model_id,
        scenario.machine.tensor_parallel,
        weights if asked else "bf16",
        kv_dtype,
        question.memory_fraction,
        scenario.target.vocab_size,
        expert_parallel=scenario.expert_parallel,
        data_parallel=scenario.data_parallel,
        attention_backend=backend,
        environment=environment,
        half=known is not None and scenario.machine.gpu.architecture.startswith(known.no_bf16_on),
        file=_file(question, model_id, scenario),
        mtp_layers=scenario.target.num_nextn_predict_layers,
        latent=latent,
        engine=engine,
        nodes=nodes,
        dispatch=_dispatch(scenario),
        version=version,
        alone=known is not None and known.conversion == "mlx",
        on_load=quantises,
        holds_unquantised=_holds_unquantised(scenario),
        longest=longest,
    )


def _dispatch(scenario: Scenario) -> Mapping[str, str]:
    """Engine -> its word for the library that dispatches tokens to their experts; empty if none does."""
    fabric = scenario.machine.fabric
    if fabric is None or fabric.link.exchange is None or not scenario.layout.exchanges:
        return {}
    return fabric.link.exchange.words


def _attention(scenario: Scenario) -> tuple[str | None, str]:
    """The attention backend that was priced, and what it needs in the environment of the server."""
    machine = scenario.machine
    name = machine.attention.backend(scenario.target.head, scenario.precision.narrow_kv)
    known = attention_of(machine.calibration.stack)
    if name is None or known is None:
        return name, ""
    return name, known.backends[name].environment


def _file(question: CommonOptions, model_id: str | None, scenario: Scenario) -> ServedFile | None:
    machine = scenario.machine
    server = servers().get(engine_of(machine.calibration) or "")
    if server is None or not server.serves_files:
        return None
    given = next((p for p in (model_id or "", question.model) if is_gguf(p)), None)
    path = given or ""
    mix = in_gguf(question.weights or scenario.target.weights)
    if given is None or (repository(given) and "/" not in given):
        path = gguf_name(model_id or scenario.target.name, mix)
    elif question.weights is not None and repository(given):
        path = f"{given.partition(':')[0]}:{mix.upper()}"
    kv = scenario.precision.kv.name
    shared = (scenario.account.server.devices, question.cpu_moe, question.gpu_layers)
    stop = None
    known = scenario.acceptance
    if known is not None and known.bins:
        from perfmodel.speculation.confidence import best_stop

        stop = partial(best_stop, scenario, fraction=question.memory_fraction)
    return ServedFile(path, machine.tensor_parallel, *shared, kv, stop)


@dataclass(frozen=True, slots=True)
class Export:
    """The command lines. lines: word of the engine -> its line. remarks: word of the engine -> what a reader
    of its line must know, such as another meaning of the degrees. vllm and sglang are None for llama.cpp, and
    where `notes` give a reason.

    sglang_adaptive: contents of the file that SGLang's line names, if the length depends on the batch size.
    """

    vllm: dict[str, Any] | None
    vllm_line: str | None
    sglang: list[str] | None
    sglang_line: str | None
    notes: tuple[str, ...]
    sglang_adaptive: dict[str, Any] | None = None
    llamacpp_line: str | None = None
    lines: dict[str, str] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        started: Mapping[str, Started],
        notes: Sequence[str],
        remarks: Mapping[str, str] = MappingProxyType({}),
    ) -> "Export":
        """The lines of these engines."""
        lines = {word: each.line for word, each in started.items()}
        drafts = {word: each.draft for word, each in started.items()}
        sglang = started.get("sglang")
        return cls(
            drafts.get("vllm"),
            lines.get("vllm"),
            drafts.get("sglang"),
            lines.get("sglang"),
            tuple(notes),
            sglang.adaptive if sglang else None,
            lines.get("llamacpp"),
            lines,
            dict(remarks),
        )


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
    if served.model_id is None and served.file is None:
        return Export.of({}, (served.unnamed,))
    setup = Setup(table, draft, served, draft_path)
    notes: list[str] = []
    if not setup.drafts and served.file is None:
        notes.append("no draft with a known acceptance is faster in any range: leave speculation off")
    started: dict[str, Started] = {}
    for word, server in servers().items():
        if not server.offers(served):
            continue
        if setup.drafts and word in withheld:
            notes.append(f"no line for {server.title}: {withheld[word]}")
            continue
        line = server.start(setup, notes)
        if line is not None:
            started[word] = line
    notes += _parsed(started)
    remarks = {word: _remark(word, served) for word in started}
    return Export.of(started, notes, {word: text for word, text in remarks.items() if text})


def _remark(word: str, served: ServedTarget) -> str:
    """What a reader of the line must know: another meaning of the degrees, another format of the weights."""
    server = servers()[word]
    facts = [
        server.degrees(served.tensor_parallel, served.data_parallel, served.version_of(word)),
        server.other_nodes(served),
    ]
    if served.checkpoint not in ("", served.weights):
        facts.append(f"{served.model_id} is {served.checkpoint}; the prediction is for {served.weights}")
    return "; ".join(filter(None, facts))


def _parsed(words: Iterable[str]) -> Iterator[str]:
    """Which parsers accepted lines of this form, and which engines' parsers nobody asked."""
    accepted = []
    unasked = []
    for word in words:
        server = servers()[word]
        if not server.checked:
            unasked.append(server.title)
        else:
            accepted.append(server.checked if server.serves_files else f"{server.title} {server.checked}")
    if accepted:
        yield f"lines of this form parse in {' and '.join(accepted)}"
    if unasked:
        yield f"no parser of {' and '.join(unasked)} has read such a line"


def line_of_file(query: Query, tokens: int) -> str | None:
    """The line of an engine that serves a file, for one question and a draft of `tokens` tokens; None for
    another engine.
    """
    scenario = resolve(query)
    served = served_target(query, served_id(query.model), scenario)
    if served.file is None:
        return None
    by_length = speedups(scenario, float(query.batch), float(query.context), np.arange(tokens + 1))
    table = LengthTable.at(query.batch, query.context, tokens, tuple(by_length.tolist()))
    named = query.draft or scenario.draft.name
    path = _named_head(query.draft, scenario.draft) or _draft_source(named, query.model, scenario)
    return export(table, scenario.draft, served, path).lines.get(served.engine or "")


def no_line(why: str) -> Export:
    """An export without lines, with the reason."""
    return Export.of({}, (f"{why}, so no command line is printed",))


def served_with(question: Any, scenario: Scenario, named: str | None) -> tuple[ServedTarget, str | None]:
    """The target of a question to `advise` or `schedule`, and the path where the engine finds its draft.

    named: the draft as the user named it; None without a draft. Raises InputError for a path that no line can
    show.
    """
    for flag in ("model_path", "draft_path"):
        if not (given := getattr(question, flag, None) or "").isprintable():
            raise refuse(f"--{flag.replace('_', '-')}", None, "printable characters", given)
    path = None
    if named is not None:
        path = question.draft_path or _named_head(question.draft, scenario.draft)
        path = path or _draft_source(named, question.model, scenario)
    served = served_target(question, question.model_path or served_id(question.model), scenario)
    if served.alone and question.model_path is None and served.model_id:
        served = replace(served, model_id=converted_name(served.model_id, scenario.precision.weights.name))
    elif question.model_path is None and served.file is None and served.weights != "bf16":
        served = _in_its_format(served, scenario)
    return served, path


def _in_its_format(served: ServedTarget, scenario: Scenario) -> ServedTarget:
    """The target with a checkpoint in the format of the question. Without one it is quantised on load, or has
    no name.
    """
    own = scenario.target.weights
    if main_format(own) in alike(served.weights):
        return replace(served, checkpoint=own)
    vendor = scenario.machine.gpu.vendor
    known = None if served.model_id is None else checkpoint(served.model_id, served.weights, vendor)
    if known is not None and _divides(known, scenario):
        return replace(served, model_id=known.checkpoint, checkpoint=known.weights, on_load=False)
    return served if served.on_load else replace(served, model_id=None)


def _divides(known: Checkpoint, scenario: Scenario) -> bool:
    """Whether the devices of the scenario divide the weights of a checkpoint along its blocks."""
    groups = (scenario.expert_parallel, scenario.data_parallel)
    precision = scenario.precision.replace(weights=weight_format(known.weights))
    try:
        check_blocks(scenario.target, precision, scenario.machine.tensor_parallel, *groups)
    except InputError:
        return False
    return True


def _holds_unquantised(scenario: Scenario) -> bool:
    """Whether the devices have the memory for the target's unquantised weights."""
    machine = scenario.machine
    share_bytes = UNQUANTISED_BYTES * scenario.target.total_params / machine.tensor_parallel
    return machine.gpu.memory is None or share_bytes < machine.gpu.memory_bytes


def _named_head(drafts: str | Sequence[str] | None, draft: Draft) -> str | None:
    """The repository of a head of this kind that the question names as its draft."""
    names = [drafts] if isinstance(drafts, str) else drafts or ()
    return next((name for name in names if head_kind(name) == draft_word(draft)), None)


def _draft_source(named: str, model: str, scenario: Scenario) -> str | None:
    """The Hugging Face id of the draft for an engine: that of its model, or of the published head."""
    draft = scenario.draft
    if draft.named_model:
        return served_id(named.removeprefix(f"{draft.kind}:"), "--draft")
    if draft.kind == "mtp":
        head = scenario.target.mtp_head
        return None if head == scenario.target.hf_id else head
    if scenario.acceptance is None:
        return None
    return published_head(model, draft, scenario.acceptance)


def five_item_rows(tables: Sequence[LengthTable]) -> list[list[int]]:
    """``[bs_lo, bs_hi, ctx_lo, ctx_hi, K]`` rows, sorted by context and then batch. They cover every point of
    the rectangle once.
    """
    return [[r.low, r.high, t.context_low, t.context_high, r.tokens] for t in tables for r in t.ranges]
