"""A calibration: the constants of one device and software stack. Each constant is declared once here. The
value of a constant in a file has a source and a standard error.
"""

import datetime
from collections.abc import Collection, Mapping
from typing import Annotated, Literal, get_type_hints

import numpy as np
from msgspec import field

from perfmodel.operations import Floats
from perfmodel.specs.calibrations.constants import (
    ABSENT,
    AllReduce,
    Constant,
    Declared,
    Scope,
)
from perfmodel.specs.calibrations.engine_constants import ONE, EngineConstants
from perfmodel.specs.calibrations.fit_errors import (
    MeasuredRange,
    Quantity,
    Relation,
    Scatter,
    StatedFit,
    StepKind,
)
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.devices.loading import load_gpu
from perfmodel.specs.engines.engines import engines, release


class Calibration(EngineConstants):
    """The constants that describe how a device with its software stack differs from the ideal roofline. It is
    read from ``hardware/calibrations/<gpu>.<stack>.yaml``.

    `kind` has one of four values. ``ideal``: all efficiencies are 1, and there are no fixed costs.
    ``literature``: the constants were measured by others. ``kernels``: kernel tables of this device, with the
    constants of an engine that was measured on other devices. ``fitted``: the constants were fitted to
    measurements of this engine on this device. If a calibration is used for another device, only the answer
    calls it *transferred*, and not the file.

    - observed_error: error of predictions for rows that were left out of the fit. For `literature`, it is the
      error for any rows.
    - transfer_error: error of predictions for another device than that of the calibration.
    - step_error: `observed_error` by kind of baseline step, for calibrations of llama.cpp.
    - version: version of the serving engine.
    - constants_of: the engine whose constants this engine borrows. It is empty for an engine with its own
      constants.
    - errors: errors of the engine's predictions, by the part of the measurements that was left out of the
      fit.
    - measured: ranges of the measurements, if the user measured an engine.
    - versions, drafts, longest_tokens, widest_tokens, unseen_draft, unseen_context, unseen_width: see
      `engines.FittedEngine` and `engines.Engines`.
    - measured_models: models whose baseline steps were measured with this engine on this device.
    - speculating_models: models whose speculative iterations were measured with this engine on this device.
    """

    name: str
    gpu: str | None
    stack: str
    version: str = ""
    constants_of: str = ""
    kind: Literal["ideal", "literature", "kernels", "fitted"]
    fitted_on: tuple[str, ...] = ()
    date: datetime.date
    notes: str = ""

    gemm_bandwidth_fraction: Annotated[
        Constant,
        Declared(
            "linear",
            "param_load",
            "fraction",
            "share of the memory bandwidth that GEMMs reach",
            Scope(0.75, 0.4, 1),
        ),
    ]
    gemm_flops_fraction: Annotated[
        Constant,
        Declared(
            "linear", "flops", "fraction", "share of the peak FLOP/s that GEMMs reach", Scope(0.6, 0.2, 1)
        ),
    ]
    gemm_fixed_s: Annotated[Constant, Declared("linear", "fixed", "s", "fixed time of each GEMM kernel")]
    gemm_bandwidth_fraction_fp8: Annotated[
        Constant,
        Declared(
            "linear",
            "param_load",
            "share",
            "`gemm_bandwidth_fraction` for fp8 weights; 0 means the same value as for other formats",
        ),
    ] = ABSENT
    gemm_flops_fraction_fp8: Annotated[
        Constant,
        Declared(
            "linear",
            "flops",
            "share",
            "`gemm_flops_fraction` at the fp8 peak; 0 means the same value as for other formats",
        ),
    ] = ABSENT
    gemm_fixed_fp8_s: Annotated[
        Constant,
        Declared(
            "linear",
            "fixed",
            "s",
            "`gemm_fixed_s` for GEMMs at the fp8 peak; 0 means the same value as for other formats",
        ),
    ] = ABSENT
    gemm_blend_power: Annotated[
        Constant,
        Declared(
            "linear",
            None,
            "power",
            "overlap of loading and computing in GEMMs: 1 adds the two times, infinity takes the larger one",
        ),
    ]
    gemm_column_s: Annotated[
        Constant,
        Declared(
            "linear",
            "fixed",
            "s",
            "time per output column of a GEMM, on top of the time to load the weights (CPUs)",
        ),
    ] = ABSENT
    weight_unpack_s: Annotated[
        Constant,
        Declared(
            "linear", "param_load", "s", "time to unpack each packed weight", Scope(1e-13, 0, 1e-11, 1e-13)
        ),
    ] = ABSENT
    attention_bandwidth_fraction: Annotated[
        Constant,
        Declared(
            "attention",
            "kv_load",
            "fraction",
            "share of the memory bandwidth that attention reaches",
            Scope(0.85, 0.5, 1),
        ),
    ]
    attention_flops_fraction: Annotated[
        Constant,
        Declared("attention", "flops", "fraction", "share of the peak FLOP/s that attention reaches"),
    ]
    attention_fixed_s: Annotated[
        Constant, Declared("attention", "fixed", "s", "fixed time of each attention call")
    ]
    attention_blocks_per_multiprocessor: Annotated[
        Constant,
        Declared(
            "attention",
            "kv_load",
            "count",
            "number of attention blocks that a multiprocessor runs at a time; 0 means no waves",
        ),
    ] = ABSENT
    kv_reread_per_query: Annotated[
        Constant,
        Declared(
            "attention",
            "kv_load",
            "share",
            "share of the cache that each query token after the first reads again",
            Scope(0.01, 0, 0.5, 0.01),
        ),
    ]
    kv_reread_per_tile: Annotated[
        Constant,
        Declared(
            "attention",
            "kv_load",
            "share",
            "share of the cache that each tile of query rows after the first reads again",
        ),
    ] = ABSENT
    small_kernel_s: Annotated[
        Constant,
        Declared(
            "small",
            "fixed",
            "s",
            "fixed time of each element-wise kernel",
            Scope(3e-6, 0, 3e-5, 1e-6),
        ),
    ]
    small_bandwidth_fraction: Annotated[
        Constant,
        Declared(
            "small",
            "activations",
            "fraction",
            "share of the memory bandwidth that element-wise kernels reach",
        ),
    ]
    allreduce_multiplier: Annotated[
        Constant,
        Declared("allreduce", "comm", "factor", "multiplies the times of `allreduce`", Scope(1, 0.3, 6)),
    ]
    allreduce: Annotated[
        AllReduce | None,
        Declared(
            "allreduce",
            "comm",
            "s",
            "time of an all-reduce by number of devices and message bytes; by default computed from the "
            "link's rate",
        ),
    ] = None
    pass_fixed_s: Annotated[
        Constant, Declared("pass", "fixed", "s", "fixed time of each pass", Scope(1e-4, 0, 3e-3, 1e-4))
    ]
    token_s: Annotated[
        Constant, Declared("pass", "fixed", "s", "time for each token in a pass, counted over all sequences")
    ]
    search_s: Annotated[
        Constant,
        Declared(
            "attention", "fixed", "s", "extra time for each search in which a draft selects the best tokens"
        ),
    ] = ABSENT
    searched_unit_s: Annotated[
        Constant,
        Declared("attention", "fixed", "s", "time of such a search for each token or page of a sequence"),
    ] = ABSENT
    full_cache_pass_s: Annotated[
        Constant,
        Declared(
            "pass",
            "fixed",
            "s",
            "extra time of a pass that reads the whole cache",
            Scope(5e-4, 0, 5e-3, 1e-4),
        ),
    ] = ABSENT
    sparse_cache_sequence_s: Annotated[
        Constant,
        Declared(
            "pass",
            "fixed",
            "s",
            "time of a draft step with a KV budget, per sequence and layer",
            Scope(5e-7, 0, 1e-5, 1e-7),
        ),
    ] = ABSENT
    tree_level_s: Annotated[
        Constant, Declared("pass", "fixed", "s", "time to choose the nodes of one level of a drafted tree")
    ] = ABSENT
    iteration_fixed_s: Annotated[
        Constant,
        Declared(
            "iteration", "overhead", "s", "time per iteration outside the passes", Scope(1e-3, 0, 1e-2, 1e-4)
        ),
    ]
    iteration_sequence_s: Annotated[
        Constant,
        Declared(
            "iteration",
            "overhead",
            "s",
            "time per sequence and iteration outside the passes",
            Scope(2e-6, 0, 1e-4, 1e-6),
        ),
    ] = ABSENT
    shards_lm_head: bool = True
    fit: StatedFit | None = None
    measured: MeasuredRange | None = None
    observed_error: dict[Quantity, Scatter] = field(default_factory=dict)
    transfer_error: Scatter | None = None
    step_error: dict[StepKind, Scatter] = field(default_factory=dict)
    measured_models: tuple[str, ...] = ()
    speculating_models: tuple[str, ...] = ()
    errors: dict[Relation, dict[Quantity, Scatter]] = field(default_factory=dict)
    versions: tuple[str, ...] = ()
    drafts: tuple[str, ...] = ()
    longest_tokens: float = 0.0
    widest_tokens: float = 0.0
    unseen_draft: Scatter | None = None
    unseen_context: Scatter | None = None
    unseen_width: Scatter | None = None

    @property
    def absent(self) -> set[str]:
        """Names of the constants that this calibration does not state."""
        return {name for name in CONSTANTS if getattr(self, name) in (ABSENT, ONE, None)}

    def relation(self, quantity: Quantity, model: str, gpu: GPUSpec) -> Relation:
        """How closely the measured rows are related to a model on a device (`fit_errors.Relation`)."""
        if self.constants_of and self.gpu is not None:
            return _of_another_device(self.gpu, gpu)
        is_step = quantity == "target_s"
        measured: Collection[str] = self.measured_models if is_step else self.speculating_models
        if self.gpu is not None and self.gpu != gpu.name:
            rows = _models_by_device(self.stack, is_step)
            if gpu.name not in rows:
                return _of_another_device(self.gpu, gpu)
            measured = rows[gpu.name]
        if model not in measured:
            return "model" if measured else "gpu"
        return "seen" if self._is_fitted_minor_version() else "version"

    def _is_fitted_minor_version(self) -> bool:
        """Whether the fit has rows of this version, whatever its patch number."""
        return release(self.version)[:2] in {release(version)[:2] for version in self.versions}

    def unseen_log_error(self, context: Floats, tokens: Floats) -> Floats:
        """Additional error of the time of an iteration divided by the time of a step. This error applies if
        the context or the number of verified tokens is above that of all fitted rows.

        The result is the standard deviation of the logarithm of this ratio. The result broadcasts over both
        arguments.

        - tokens: number of tokens that a pass verifies, over all sequences.
        """
        if self.unseen_context is None or self.unseen_width is None:
            return np.zeros(np.broadcast_shapes(np.shape(context), np.shape(tokens)))
        longer = beyond(context, self.longest_tokens)
        wider = beyond(tokens, self.widest_tokens)
        return np.hypot(longer * self.unseen_context.deviation, wider * self.unseen_width.deviation)

    def error(self, quantity: Quantity, model: str, gpu: GPUSpec) -> Scatter | None:
        """The expected error of a prediction for a model on a device. The result is None if no error was
        observed, as for an ideal calibration.

        If the acceptance is known, the error of an engine's speedup is the error of the iteration time
        divided by the step time.
        """
        if self.errors:
            figure: Quantity = "ratio" if quantity == "speedup" else quantity
            return self.errors[self.relation(figure, model, gpu)].get(figure)
        if self.gpu not in (None, gpu.name):
            return self.transfer_error
        return self.observed_error.get(quantity)

    def __post_init__(self) -> None:
        for name, constant in CONSTANTS.items():
            constant.check(name, getattr(self, name))
        if self.kind == "ideal":
            self._check_ideal()
        if self.fit is not None:
            self._check_fitted(self.fit)

    def _check_ideal(self) -> None:
        """Raises ValueError if a constant differs from its ideal value, or if the file states an error."""
        for name, constant in CONSTANTS.items():
            given = getattr(self, name)
            if name not in self.absent and any(value != constant.ideal for value in given.numbers()):
                raise ValueError(f"{name} must be {constant.ideal:g} where kind is ideal")
            if getattr(given, "stderr", None):
                raise ValueError(f"{name} must have no stderr where kind is ideal")
        if self.fit or self.observed_error or self.transfer_error:
            raise ValueError("fit and errors must be left out where kind is ideal")

    def _check_fitted(self, fit: StatedFit) -> None:
        """Raises ValueError for a parameter of the fit that is not a constant with its own error."""
        for name in fit.parameters:
            fitted = getattr(self, name, None)
            if not isinstance(fitted, Constant) or fitted.stderr is None:
                raise ValueError(f"fit: parameter {name} must be a constant of this file with a stderr")


CONSTANTS: dict[str, Declared] = {
    name: stated.__metadata__[0]
    for name, stated in get_type_hints(Calibration, include_extras=True).items()
    if isinstance(getattr(stated, "__metadata__", (None,))[0], Declared)
}
"""The declaration of every constant by its name, in the order of the files."""


def _models_by_device(engine: str, steps: bool) -> Mapping[str, Collection[str]]:
    """The models that were measured on each device with an engine. The result is empty for a research stack.

    - steps: whether baseline steps of these models were measured. Otherwise, iterations with a draft were.
    """
    fitted = engines().engines.get(engine)
    if fitted is None:
        return {}
    return fitted.measured if steps else fitted.speculating


def _of_another_device(kernels_gpu: str, gpu: GPUSpec) -> Relation:
    """The relation of rows on devices of the same vendor, or of another vendor."""
    return "transferred" if load_gpu(kernels_gpu).vendor == gpu.vendor else "maker"


def beyond(value: Floats, most: Floats) -> Floats:
    """The logarithm ln(value / largest fitted value) for a value above the largest fitted value. The result
    is 0 otherwise.
    """
    return np.log(np.maximum(np.divide(value, np.maximum(most, 1.0)), 1.0))
