"""Finds the names, formats and files with which an engine serves the predicted target and draft."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from perfmodel.answers.advice.longest_request import longest_request
from perfmodel.answers.advice.servers import ServedFile, ServedTarget, servers
from perfmodel.answers.advice.servers.base import MODEL, UNQUANTISED, longest_sequence
from perfmodel.answers.advice.servers.llamacpp import gguf_name
from perfmodel.answers.question import CommonOptions, draft_word, known_head, published_head
from perfmodel.answers.question.published_format import published, reads_of, stored_weights, undivided
from perfmodel.drafts.base import Draft
from perfmodel.errors import refuse
from perfmodel.specs import (
    VERSION_SEPARATOR,
    engine_of,
    in_gguf,
    is_gguf,
    served_id,
    serving_engines,
)
from perfmodel.specs.acceptance.acceptance_library import head_kind
from perfmodel.specs.engines.backends import attention_of
from perfmodel.specs.models.checkpoints import alike, checkpoint, main_format, nearest
from perfmodel.specs.models.gguf_names import gguf_repository
from perfmodel.specs.models.mlx import converted_name
from perfmodel.specs.models.recurrent_kinds import STATE_FORMATS
from perfmodel.specs.models.stored_formats import stored_formats
from perfmodel.speculation import DEFAULT_MAX_GAMMA, Scenario
from perfmodel.speculation.confidence import best_stop, ideal_stop

UNQUANTISED_BYTES = 2.0
"""Bytes per weight before an engine has quantised it."""


def served_with(question: Any, scenario: Scenario, named: str | None) -> tuple[ServedTarget, str | None]:
    """The target of a question to `advise` or `schedule` as a server needs it, and the path or repository of
    its draft.

    - named: the name of the draft in the question; None without a draft.

    Raises InputError for a path with characters that cannot be printed.
    """
    for flag in ("model_path", "draft_path"):
        path = getattr(question, flag, None) or ""
        if not path.isprintable():
            raise refuse(f"--{flag.replace('_', '-')}", None, "printable characters", path)
    draft_path = None
    if named is not None:
        draft_path = question.draft_path or draft_source(question, scenario, named)
    served = served_target(question, question.model_path or served_id(question.model), scenario)
    if served.alone and question.model_path is None and served.model_id:
        served = replace(served, model_id=converted_name(served.model_id, scenario.precision.weights.name))
    elif question.model_path is None and served.file is None and served.weights != "bf16":
        served = _in_its_format(served, scenario)
    elif question.model_path is not None:
        served = _as_stored(served, question.model_path, scenario)
    if served.model_id is None and served.file is None:
        served = _unnamed(served)
    return served, draft_path


def _as_stored(served: ServedTarget, path: str, scenario: Scenario) -> ServedTarget:
    """The target with the weight format of the user's checkpoint, if that is known and is not the predicted
    one. Engines quantise a checkpoint with 16 bits when they load it.
    """
    stored = stored_formats(path)
    predicted = scenario.precision.weights.name
    if stored is None or stored.weights in ("bf16", predicted) or served.weights != predicted:
        return served
    return replace(served, checkpoint=stored.weights)


def _unnamed(served: ServedTarget) -> ServedTarget:
    """The target of a question whose model names no checkpoint, such as a config.json. The line then has the
    word `MODEL`.
    """
    form = "" if served.on_load or served.weights == "bf16" else f", in {served.weights}"
    stands = f"{MODEL} stands for the checkpoint of the model{form} (--model-path)"
    return replace(served, model_id=MODEL, stands_for=stands)


def served_target(question: CommonOptions, model_id: str | None, scenario: Scenario) -> ServedTarget:
    """The target of a question, with the values that a command line needs. A number format is only stated if
    it differs from the checkpoint's format.
    """
    checkpoint_format = scenario.target.weights
    other_format = question.weights not in (None, checkpoint_format, main_format(checkpoint_format))
    weights = stored_weights(scenario)
    engine = engine_of(scenario.machine.calibration)
    serving = serving_engines().get(engine or "")
    no_bf16_on = () if serving is None else serving.no_bf16_on
    fabric = scenario.machine.fabric
    _, _, version = (question.engine or "").partition(VERSION_SEPARATOR)
    kv_dtype = "bf16" if question.kv_dtype is None else scenario.precision.kv.name
    named_weights = weights if other_format else "bf16"
    quantises = weights == "fp8" and checkpoint_format in UNQUANTISED
    half = scenario.machine.gpu.architecture.startswith(no_bf16_on)
    devices = scenario.machine.tensor_parallel
    nodes = 1 if fabric is None else fabric.nodes
    alone = serving is not None and serving.conversion == "mlx"
    longest = longest_of(question, scenario)
    latent = scenario.target.mla is not None
    backend, environment = _attention(scenario)
    if question.attention_backend is not None or not environment:
        backend = question.attention_backend
    return ServedTarget(
        model_id=model_id,
        tensor_parallel=devices,
        weights=named_weights,
        kv_dtype=kv_dtype,
        state_dtype=_state_dtype(question, scenario),
        memory_fraction=question.memory_fraction,
        vocab_size=scenario.target.vocab_size,
        expert_parallel=scenario.expert_parallel,
        data_parallel=scenario.data_parallel,
        attention_backend=backend,
        environment=environment,
        half=half,
        file=_file(question, model_id, scenario),
        mtp_layers=scenario.target.num_nextn_predict_layers,
        latent=latent,
        engine=engine,
        nodes=nodes * math.ceil(scenario.server_devices // nodes / scenario.machine.gpu.box_devices),
        dispatch=_dispatch(scenario),
        version=version,
        alone=alone,
        on_load=quantises,
        too_large=_too_large(scenario),
        longest=longest,
    )


def longest_of(question: CommonOptions, scenario: Scenario) -> Callable[[int, int, int], int]:
    """A function that returns the maximum sequence length of a server, in tokens. The function takes the
    context, the number of sequences and the number of drafted tokens. Without a load, the length is the
    context plus an output. Under a load, the length leaves room for requests that are longer than the mean.
    """
    limits = (scenario, question.memory_fraction, question.max_model_len)
    input_len, output_len = (getattr(question, name, None) for name in ("input_len", "output_len"))
    if input_len is None or output_len is None:
        return partial(longest_sequence, *limits)
    return partial(longest_request, *limits, input_len + output_len)


def _dispatch(scenario: Scenario) -> Mapping[str, str]:
    """Engine -> its name for the library that dispatches tokens to their experts; empty without such a
    library.
    """
    fabric = scenario.machine.fabric
    if fabric is None or fabric.link.exchange is None or not scenario.layout.exchanges:
        return {}
    return fabric.link.exchange.words


def _attention(scenario: Scenario) -> tuple[str | None, str]:
    """The predicted attention backend, and the environment variable that its server needs. The name is None
    if the backend is unknown, and the variable is empty if none is needed.
    """
    machine = scenario.machine
    name = machine.attention.backend(scenario.target.head, scenario.precision.narrow_kv)
    attention = attention_of(machine.calibration.stack)
    if name is None or attention is None:
        return name, ""
    return name, attention.backends[name].environment


def _state_dtype(question: CommonOptions, scenario: Scenario) -> str | None:
    """The format of recurrent states that the question states, in the words of the engines."""
    if question.state_dtype is None or scenario.target.linear_attention is None:
        return None
    return {ours: theirs for theirs, ours in STATE_FORMATS.items()}[question.state_dtype]


def _file(question: CommonOptions, model_id: str | None, scenario: Scenario) -> ServedFile | None:
    """The GGUF file of a question; None for an engine that serves none."""
    machine = scenario.machine
    server = servers().get(engine_of(machine.calibration) or "")
    if server is None or not server.serves_files:
        return None
    acceptance = scenario.acceptance
    has_bins = acceptance is not None and bool(acceptance.bins)
    stop = partial(best_stop, scenario, fraction=question.memory_fraction)
    ideal = partial(ideal_stop, scenario, longest=DEFAULT_MAX_GAMMA, fraction=question.memory_fraction)
    return ServedFile(
        path=_path_of_file(question, model_id, scenario),
        tensor_parallel=machine.tensor_parallel,
        layer_devices=scenario.account.server.devices,
        cpu_moe=question.cpu_moe,
        gpu_layers=question.gpu_layers,
        kv_dtype=scenario.precision.kv.name,
        best_stop=stop if has_bins else None,
        ideal_stop=None if acceptance is None else ideal,
    )


def _path_of_file(question: CommonOptions, model_id: str | None, scenario: Scenario) -> str:
    """The GGUF file that the question names, in its format; else the usual name of such a file."""
    mix = in_gguf(question.weights or scenario.target.weights)
    named = next((name for name in (model_id or "", question.model) if is_gguf(name)), None)
    if named is None or (gguf_repository(named) and "/" not in named):
        return gguf_name(model_id or scenario.target.name, mix)
    if question.weights is not None and gguf_repository(named):
        return f"{named.partition(':')[0]}:{mix.upper()}"
    return named


def _in_its_format(served: ServedTarget, scenario: Scenario) -> ServedTarget:
    """The target with a checkpoint in the format of the question. If there is none, the engine quantises
    another checkpoint on load, or the line has the word `MODEL`.
    """
    checkpoint_format = scenario.target.weights
    if main_format(checkpoint_format) in alike(served.weights):
        return replace(served, checkpoint=checkpoint_format)
    if (model_id := served.model_id) is None:
        return served
    known = published(model_id, scenario)
    if known is not None and undivided(model_id, scenario) is None:
        return replace(served, model_id=known.checkpoint, checkpoint=known.weights, on_load=False)
    if served.on_load:
        return served
    stands = f"{MODEL} stands for a checkpoint of {model_id} in {served.weights} (--model-path)"
    return replace(served, model_id=MODEL, stands_for=f"{stands}{_nearest(served, model_id, scenario)}")


def _nearest(served: ServedTarget, model_id: str, scenario: Scenario) -> str:
    """A clause about a checkpoint that has this format but that the engine does not load. If there is none,
    the clause is about the checkpoint with the nearest format.
    """
    gpu = scenario.machine.gpu
    unread = checkpoint(model_id, served.weights, gpu)
    engine = serving_engines().get(served.engine or "")
    if unread is not None and engine is not None and engine.reads_instead:
        return f": {engine.title} reads {engine.reads_instead}, and not {unread.checkpoint}"
    similar = nearest(model_id, served.weights, gpu, reads_of(scenario))
    return ", and none is known" if similar is None else f"; the nearest known one is {similar.checkpoint}"


def _too_large(scenario: Scenario) -> str:
    """A clause with both sizes if the target's unquantised weights do not fit in the memory of the devices;
    empty if they fit.
    """
    machine = scenario.machine
    share_bytes = UNQUANTISED_BYTES * scenario.target.total_params / machine.tensor_parallel
    if machine.gpu.memory is None or share_bytes < machine.gpu.memory_bytes:
        return ""
    return (
        f"{share_bytes / 1e9:.1f} GB of unquantised weights per device do not fit in "
        f"{machine.gpu.memory_bytes / 1e9:.1f} GB"
    )


def draft_source(question: Any, scenario: Scenario, named: str) -> str | None:
    """The Hugging Face id of the head that the question names, of the draft model, or of a published head.
    The result is None if no id is known.

    - named: the name of the draft in the question.
    """
    draft = scenario.draft
    head = _named_head(question.draft, draft)
    if head is not None:
        return head
    if draft.named_model:
        return served_id(named.removeprefix(f"{draft.kind}:"), "--draft")
    if draft.kind == "mtp":
        mtp_head = scenario.target.mtp_head
        return None if mtp_head == scenario.target.hf_id else mtp_head
    of_acceptance = None
    if scenario.acceptance is not None:
        of_acceptance = published_head(question.model, draft, scenario.acceptance)
    return of_acceptance or known_head(question.model, draft)


def _named_head(drafts: str | Sequence[str] | None, draft: Draft) -> str | None:
    """The repository of a head of this kind that the question names as its draft."""
    names = [drafts] if isinstance(drafts, str) else drafts or ()
    return next((name for name in names if head_kind(name) == draft_word(draft)), None)
