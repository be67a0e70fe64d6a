"""Looks up the model, device and calibration that a question names."""

from dataclasses import replace

from perfmodel.answers.question.query import CommonOptions
from perfmodel.errors import InputError, refuse
from perfmodel.immutable import Immutable
from perfmodel.specs import (
    Calibration,
    GPUSpec,
    ModelSpec,
    Precision,
    calibration_of,
    engine_of,
    is_gguf,
    load_gpu,
    load_model,
    precision_of,
    serving_engine_of,
    serving_engines,
)
from perfmodel.specs.calibrations.engine_words import usual_engine
from perfmodel.specs.models.checkpoints import main_format
from perfmodel.specs.models.conversions import CONVERSIONS, Conversion
from perfmodel.specs.models.ggml import of_mix
from perfmodel.specs.models.gguf_names import ollama_tag
from perfmodel.specs.models.mlx import of_bits


class Named(Immutable):
    """The model, device and calibration that a question names."""

    target: ModelSpec
    gpu: GPUSpec
    calibration: Calibration

    @classmethod
    def of(cls, question: CommonOptions) -> "Named":
        """Looks up the names of a question. Raises InputError for an unknown name, or for a file that
        cannot be read.
        """
        gpu = load_gpu(question.hardware)
        target = load_model(question.model)
        file = is_gguf(question.model)
        calibration = calibration_of(
            gpu, question.engine, question.calibration, **_kind_of_file(question, target)
        )
        if _in_turn(question) or gpu.in_turn:
            gpu = _shared(question, gpu, engine_of(calibration))
        conversion = conversion_of(calibration)
        if conversion is not None and not file:
            target = target.replace(weights=conversion.default(target.weights))
        return cls(_with_states(question, target, calibration), gpu, calibration)

    def with_layers_on(self, devices: int, question: CommonOptions) -> "Named":
        """The names for a server whose layers are divided among `devices` devices. This number replaces the
        `layer_split` of the question.
        """
        if devices == question.layer_split:
            return self
        return Named.of(replace(question, layer_split=devices))

    def stated_weights(self, question: CommonOptions) -> str | None:
        """The weight format that the question states. The result is None if the question states none, or if
        most weights of the checkpoint already have this format. An example is MXFP4 in gpt-oss, whose
        attention weights have 16 bits.
        """
        own = self.target.weights
        converts = conversion_of(self.calibration) is not None
        if not converts and "," in own and question.weights == main_format(own):
            return None
        return question.weights

    def draft_keeps_format(self, question: CommonOptions) -> bool:
        """Whether a draft keeps the formats of its own checkpoint if the question states no format for it.

        Most engines serve checkpoints as published. Such engines read the format of each checkpoint from its
        own config.json (vLLM, get_draft_quant_config of model_executor/models/utils.py). Engines that convert
        checkpoints, and research code, quantise a draft like its target if the question states the target's
        format. Some engines convert every draft (`Conversion.drafts_too`).
        """
        target_named = self.stated_weights(question) is not None
        engine = serving_engine_of(self.calibration)
        if engine is None:
            return not target_named
        if engine.conversion is None:
            return True
        return not (target_named or CONVERSIONS[engine.conversion].drafts_too)

    def precision(self, question: CommonOptions) -> Precision:
        """The number formats that the engine uses for the question on this device."""
        own = self.target.weights
        weights = self.stated_weights(question)
        conversion = conversion_of(self.calibration)
        if conversion is not None:
            converted = conversion.named(weights or own, bool(self.target.moe))
            weights = converted if weights or converted != own else None
        engine = serving_engines().get(self.calibration.stack)
        return precision_of(
            self.target,
            self.gpu.peak,
            weights,
            question.kv_dtype,
            wide_mxfp4=engine is not None and engine.wide_mxfp4,
            weight_only=engine is not None and engine.weight_only,
        )


def _with_states(question: CommonOptions, target: ModelSpec, calibration: Calibration) -> ModelSpec:
    """The target with recurrent states in the format of the question. Raises InputError for an engine without
    a flag for this format.
    """
    recurrent = target.linear_attention
    if question.state_dtype is None or recurrent is None:
        return target
    engine = serving_engine_of(calibration)
    if engine is not None and engine.states is None and question.state_dtype != recurrent.state_dtype:
        allowed = f"{recurrent.state_dtype}, because {engine.title} has no flag for another"
        raise refuse("--state-dtype", None, allowed, question.state_dtype)
    return target.replace(linear_attention=recurrent.replace(state_dtype=question.state_dtype))


def _in_turn(question: CommonOptions) -> bool:
    """Whether several devices, or a device and the host, compute one after another. Only llama.cpp supports
    this.
    """
    return question.layer_split > 1 or question.cpu_moe > 0 or question.gpu_layers is not None


def _kind_of_file(question: CommonOptions, target: ModelSpec) -> dict[str, bool]:
    """Whether the weights are in a GGUF file, and whether they are an MLX checkpoint. Layers on the host or
    on several devices in turn also mean a GGUF file.
    """
    format_word = (question.weights or target.weights).partition(",")[0].lower()
    served_as_file = is_gguf(question.model) or ollama_tag(question.model)
    gguf = served_as_file or (question.weights and of_mix(format_word)) or _in_turn(question)
    return {"gguf": bool(gguf), "mlx": of_bits(format_word) is not None}


def engine_named(question: CommonOptions) -> str:
    """The engine that the question states, with the version if it states one. If the question states none,
    the result is the usual engine for the device and the kind of model file.
    """
    if question.engine is not None:
        return question.engine
    return usual_engine(load_gpu(question.hardware), **_kind_of_file(question, load_model(question.model)))


def conversion_of(calibration: Calibration) -> Conversion | None:
    """How the engine of a calibration converts checkpoints. The result is None if the engine serves
    checkpoints as published.
    """
    engine = serving_engines().get(calibration.stack)
    if engine is None or engine.conversion is None:
        return None
    return CONVERSIONS[engine.conversion]


def _shared(question: CommonOptions, gpu: GPUSpec, engine: str | None) -> GPUSpec:
    """One device that stands for all devices, or for a device and the host, that compute one after another.
    The device has the memory of all of them. Raises InputError for engines other than llama.cpp.
    """
    devices = question.layer_split
    host = "--cpu-moe" if question.cpu_moe else "--gpu-layers"
    if gpu.in_turn and devices > 1:
        raise refuse("--layer-split", None, f"1 for {gpu.name}, which already names each device", devices)
    known = serving_engines()
    if engine in known and not known[engine].divides_layers:
        able = " or ".join(word for word, each in known.items() if each.divides_layers)
        raise refuse("--engine", None, f"{able}, which has {_placed(gpu, devices, host)}", engine)
    if (question.cpu_moe or question.gpu_layers is not None) and question.host_bandwidth is None:
        raise InputError(f"{host}: needs --host-bandwidth, the memory bandwidth of the host in GB/s")
    if gpu.memory is None:
        return gpu
    total = gpu.reported_memory
    if devices > 1:  # the system's share depends on the memory of one machine
        total = gpu.memory.replace(value=gpu.memory_bytes * devices, unit="B")
    return gpu.replace(reported_memory=total, power_draw=None)


def _placed(gpu: GPUSpec, devices: int, host: str) -> str:
    """The argument of the question that places layers on several devices or on the host."""
    if gpu.in_turn:
        return "devices that run in turn"
    return "--layer-split" if devices > 1 else host
