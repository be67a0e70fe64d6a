"""llama.cpp's constants by device, fitted to public runs: ``hardware/calibrations/<device>.llamacpp.yaml``.

A constant is the product of a common value, a maker's factor and a device's factor, both expected to be 1. A
device with few rows stays near its maker, a maker with few rows near the common value. Rows are seconds of a
decode step, of a verification alone (kind ``pass``), of an iteration with drafts, and of a whole prompt.
``results/llamacpp.json`` has the errors of rows with constants fitted without their source.
"""

import datetime
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.question import Query, resolve
from perfmodel.specs import LLAMACPP, Calibration, GPUSpec, Scatter, files, load_gpu, load_model
from perfmodel.specs.calibrations.fit_errors import StepKind, step_kind
from perfmodel.specs.published import MS
from perfmodel.speculation import with_calibration
from perfmodel.validate.harness.micro.write import as_yaml
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import grouped, shortened
from perfmodel.validate.studies.held_out import quantile
from perfmodel.validate.studies.llamacpp_prompts import PROMPT_TOKENS, prompt_peak_share, prompt_s, prompts
from perfmodel.validate.studies.parameters import Parameter
from perfmodel.validate.studies.public_runs import PublicRun, public_runs
from perfmodel.validate.studies.reasons import Reason
from perfmodel.validate.studies.robust import (
    STEP,
    Array,
    FittedRows,
    Parts,
    Spread,
    Values,
    parts_of,
    solve,
)
from perfmodel.validate.studies.steps import StepGroup

FOLDER = files.data_directory("calibrations")
LEFT_OUT = BUNDLED / "llamacpp.json"
"""Figure (step, ratio, prompt) -> id of a run -> its log error without its source."""
COMMENT = "Written by `perfmodel validate calibrate llamacpp --write` from results/published/public_runs.csv."
LENGTHS = (1.0, 0.5, 0.25, 0.0)
"""Parts of a step that are tried. Full steps oscillate, because shares of a curve are pooled."""
GAUSS_NEWTON_STEPS = 4
FUSED = "2025-09"
"""Month from which builds start fewer kernels (a pass of older ones has its own factor)."""
FITTED = "fitted to public_runs.csv"
NOTES = (
    "Decode steps, verifications and MTP iterations of llama-bench, llama-batched-bench and llama-server, as "
    "users published them. A constant lies around that of the maker's boards, and this around that of all. "
    "Flash attention is on. Passes of more than 32 tokens are those of four prompts."
)
SAME_MAKER = "No run of this device is published: these are the constants of its maker's devices with runs."
NO_ROWS = "No run of a device of this maker is published: these are the constants of all devices with runs."
SET: dict[str, tuple[float, str]] = {
    "gemm_fixed_s": (0.0, "part of small_kernel_s"),
    "gemm_blend_power": (3.0, "not used beside gemm_efficiency"),
    "attention_flops_fraction": (0.3, "set: no prompt was timed"),
    "attention_fixed_s": (3e-6, "set"),
    "kv_reread_per_query": (0.0, "set: the contexts of iterations are short"),
    "small_bandwidth_fraction": (0.7, "set"),
    "scan_copies": (
        5.5,
        "steps of Nemotron-3-Super on DGX Spark at batch 1 to 32, github.com/ggml-org/llama.cpp",
    ),
    "routing_independence": (1.0, "set: fits end there"),
    "allreduce_multiplier": (1.0, "the curve of boards on PCIe"),
    "pass_fixed_s": (0.0, "part of small_kernel_s"),
    "token_s": (0.0, "part of gemm_efficiency"),
}
"""Fixed constants, which the rows do not determine."""
REFERENCE_BANDWIDTH = 5e11
"""Bytes per second at which `iteration_fixed_s` is fitted. A device's is inversely proportional to its own,
because an iteration copies states, hidden values and logits.
"""
ALONE_TOKENS = {"NVIDIA": 4.0, "AMD": 4.0, "Apple": 31.0}
"""Maker -> tokens of a pass up to which each token reads its own experts: those of the matrix-vector kernels
in ggml-cuda and ggml-metal of 0c1e57098.
"""
FITTED_ALONE: dict[str, tuple[float, float, float, float]] = {
    "attention_bandwidth_fraction": (0.65, 0.3, 0.3, 0.15),
    "small_kernel_s": (7e-6, 0.6, 0.5, 0.3),
    "expert_popularity": (0.5, 0.6, 0.3, 0.0),
    "state_layer_s": (6e-6, 0.6, 0.3, 0.0),
    "drafted_token_s": (2e-4, 0.6, 0.3, 0.0),
    "iteration_fixed_s": (1e-3, 0.6, 0.3, 0.0),
}
"""Constant -> expected value, and spreads of its logarithm: of the common value, a maker's and a device's
factor.
"""
TOKENS = (1, 2, 4, 8, 16, 32)
PROMPT = "prompt_share"
ONE_TOKEN = 0.85
"""Expected share of the bandwidth that the GEMMs of one token reach."""
VALUE_BYTES = {"bf16": 34 / 32, "q4_k": 144 / 256}
"""Curve -> bytes of a weight for its expected shares: of q8_0, and of q4_k."""
TERMS = FITTED_ALONE | {
    "expert_s": (1.3e-5, 0.5, 0.2, 0.0),
    "expert_share": (0.8, 0.2, 0.15, 0.1),
    "share": (1.0, 0.15, 0.1, 0.07),
    "flops_share": (0.45, 0.3, 0.2, 0.5),
    PROMPT: (0.24, 0.5, 0.2, 0.15),
    **{f"bf16@{n}": (1.0, 0.1, 0.1, 0.3) if n <= 8 else (1.0, 0.08, 0.4, 0.0) for n in TOKENS if n > 1},
    **{f"q4_k@{n}": (1.0, 0.1, 0.1, 0.3 if n > 1 else 0.1) for n in TOKENS},
}
"""More of these constants. prompt_share: of the int8 peak (`prompt_peak_share`). ``bf16@N``: factor on the
expected share of a pass of N tokens; ``q4_k@N``: another one for formats below one byte.
"""
USED = (None, Reason.NO_BASELINE, Reason.PASS_ALONE)
"""Reasons why rows of the fit are left out of the judgement."""
SPREAD = Spread(row=0.04, group=0.05, kind=0.08)
"""Spread of an error: the parts of a row, of a server (model, weights, device) and of a source."""
ALONE = Spread(row=0.1, group=0.15, kind=0.15)
"""Spread of passes alone, which ran on year-old builds."""


def expected_share(tokens: int, value_bytes: float, ridge: float, flops_share: float) -> float:
    """Share of the roofline that the GEMMs of a pass reach if the times of loading and computing add.

    ridge: peak FLOPs per byte of bandwidth. flops_share: of the peak, while computing.
    """
    one, all_of_them = (value_bytes / ONE_TOKEN + 2.0 * n / (ridge * flops_share) for n in (1, tokens))
    return ONE_TOKEN * max(1.0, 2.0 * tokens / (ridge * value_bytes)) * one / all_of_them


@dataclass(frozen=True)
class DeviceConstants:
    """llama.cpp's constants on a device as functions of the parameters. old: of a build before `FUSED`."""

    gpu: GPUSpec
    old: bool = False

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes of a constant, the widest first: all devices, the maker's, this device."""
        return ("all", self.gpu.vendor, self.gpu.name, *["old"] * self.old)

    def known(self, values: Values) -> dict[str, float]:
        """The constants by name. Factors of scopes without rows are 1."""
        found = {n: math.prod(values.get(f"{scope}.{n}", 1.0) for scope in self.scopes) for n in TERMS}
        found["iteration_fixed_s"] *= REFERENCE_BANDWIDTH / self.gpu.memory_bandwidth_bytes_per_s
        return found

    def calibration(self, values: Values) -> Calibration:
        """The calibration with these values by place."""
        return Calibration.of_mapping(self.stated(values))

    def stated(self, values: Values, **more: Any) -> dict[str, Any]:
        """The content of the file. more: its other keys."""
        of = self.known(values)
        ridge = self.gpu.peak_flops("bf16") / self.gpu.memory_bandwidth_bytes_per_s
        wide = {n: of["share"] * of.get(f"bf16@{n}", 1.0) for n in TOKENS}
        packed = {n: factor * of[f"q4_k@{n}"] for n, factor in wide.items()}
        curves = {
            form: [
                (n, min(factor * expected_share(n, VALUE_BYTES[form], ridge, of["flops_share"]), 1.0))
                for n, factor in curve.items()
            ]
            for form, curve in (("bf16", wide), ("q4_k", packed))
        }
        for curve in curves.values():
            curve.append((PROMPT_TOKENS, prompt_peak_share(self.gpu, of[PROMPT])))
        kernel = {"fixed_s": of["expert_s"], "bandwidth_fraction": of["expert_share"], "flops_fraction": 0.3}
        alone = SET | {
            "gemm_bandwidth_fraction": (curves["bf16"][0][1], FITTED),
            "gemm_flops_fraction": (curves["bf16"][-1][1], f"as at {PROMPT_TOKENS} tokens"),
            "expert_alone_tokens": (ALONE_TOKENS.get(self.gpu.vendor, 1.0), "code of 0c1e57098"),
            **{name: (min(of[name], 1.0), FITTED) for name in FITTED_ALONE},
        }
        return {
            "name": f"{self.gpu.name}.{LLAMACPP}",
            "gpu": self.gpu.name,
            "stack": LLAMACPP,
            "kind": "fitted",
            "fitted_on": ["public_runs.csv"],
            "date": datetime.date.min,
            "gemm_efficiency": {"source": FITTED, "knots": curves},
            "expert_kernels": {"source": FITTED, "kernels": {"bf16": kernel}},
            **{n: {"value": value, "source": source} for n, (value, source) in alone.items()},
            **more,
        }


@dataclass(frozen=True)
class MeasuredPass:
    """A measured time. figure: ``step``, ``pass`` (gamma + 1 tokens verified alone), ``iteration`` or
    ``prompt`` (of `input_tokens`, without a draft).
    """

    run: PublicRun
    figure: str
    seconds: float


@dataclass
class PassGroup(StepGroup):
    """Rows with a common part, represented by the first."""

    first: MeasuredPass

    def moved(self, name: str, at: Values, factor: float) -> Array:
        """Logarithm of the seconds of each row with one constant times a factor."""
        values = {**at, f"all.{name}": at[f"all.{name}"] * factor}
        return np.asarray(np.log(self.predict(self.constants.calibration(values))))

    def predict(self, calibration: Calibration) -> Array:
        """Seconds of each row."""
        if self.first.figure == "step":
            return super().predict(calibration)
        s = with_calibration(self.scenario, calibration)
        if self.first.figure == "prompt":
            return np.array([prompt_s(s, tokens) for tokens in self.context.tolist()])
        place = (self.batch, self.context)
        gamma = self.first.run.gamma or 0
        verified = s.target_pass_s(*place, gamma + 1.0)
        if self.first.figure == "pass":
            return np.asarray(verified)
        drafted = gamma * s.draft_token_s(*place, np.array([gamma]))
        return np.asarray(drafted + verified + s.overhead_s(*place))


class LlamaCppPasses(FittedRows[MeasuredPass]):
    """All rows, with their seconds as functions of the parameters."""

    terms: ClassVar[Mapping[str, tuple[float, float, float, float]]] = TERMS
    further: ClassVar[tuple[Parameter, ...]] = (Parameter("old.small_kernel_s", 1.3, 0.3, times=True),)

    @staticmethod
    def runs() -> Iterable[PublicRun]:
        """The runs of the engine, and its prompts."""
        return (*(run for run in public_runs() if run.engine == LLAMACPP), *prompts())

    @staticmethod
    def constants_of(run: PublicRun) -> "DeviceConstants":
        """The constants of a run's device and build."""
        return DeviceConstants(load_gpu(run.hardware), run.date < FUSED)

    def __init__(self) -> None:
        self.rows = tuple(row for run in self.runs() for row in _passes(run))
        self.logs = np.log([row.seconds for row in self.rows])
        boards = [self.constants_of(row.run) for row in self.rows]
        spreads = {scope: i for board in boards for i, scope in enumerate(board.scopes[:3])}
        self.parameters = [
            Parameter(f"{scope}.{name}", term[0] if i == 0 else 1.0, term[1 + i], times=i > 0)
            for scope, i in spreads.items()
            for name, term in self.terms.items()
            if term[1 + i]
        ] + [*self.further]
        common = [
            (r.run.server, r.run.kv_dtype, r.run.draft, r.figure, r.figure != "step" and r.run.gamma)
            for r in self.rows
        ]
        alike = grouped(range(len(common)), lambda i: common[i])
        start = {p.place: p.expected for p in self.parameters}
        self.groups = [self._group(index, start) for index in alike.values()]
        self.moving = [
            (name, group)
            for name in self.terms
            for group in self.groups
            if (name == PROMPT) == (group.first.figure == "prompt")
            if np.any(group.moved(name, start, 0.9) != np.log(group.at(start)))
        ]
        """Constants with the groups that they move. Prompts determine `PROMPT`, and nothing else does."""

    def _group(self, index: list[int], start: Values) -> PassGroup:
        rows = [self.rows[i] for i in index]
        run = rows[0].run
        constants = self.constants_of(run)
        draft: dict[str, Any] = {"draft": run.draft or None, "alpha": 0.7}
        query = Query(batch=1, context=1, gamma=run.gamma or 0, **draft, **run.query_arguments())
        scenario = with_calibration(resolve(query), constants.calibration(start))
        batch = np.array([row.run.batch for row in rows], float)
        context = np.array([row.run.context_tokens for row in rows], float)
        # a group needs only these two functions of its constants
        return PassGroup(constants, scenario, np.array(index), batch, context, rows[0])  # type: ignore[arg-type]

    def slopes(self, at: Values, off: Array) -> Array:
        """See `FittedRows.slopes`. Scopes multiply, so a constant has the same slope in each of them."""
        found = np.zeros((len(self.rows), len(self.parameters)))
        for name, group in self.moving:
            slope = (group.moved(name, at, np.exp(STEP)) - self.logs[group.index] - off[group.index]) / STEP
            columns = [p.name == name and p.scope in group.constants.scopes for p in self.parameters]
            found[np.ix_(group.index, columns)] = slope[:, None]
        return found

    def settled(self, train: NDArray[np.bool_]) -> Values:
        """The values from the rows of `train` alone: `GAUSS_NEWTON_STEPS` steps from the expectations."""
        parts = self.parts(train)
        values = {p.place: p.expected for p in self.parameters}

        def misfit(values: Values) -> float:
            strayed = [np.log(values[p.place] / p.expected) / p.spread for p in self.parameters]
            parted = parts.residuals(parts.matrix @ self.off(values))
            return float(np.dot(parted, parted) + np.dot(strayed, strayed))

        for _ in range(GAUSS_NEWTON_STEPS):
            off = self.off(values)
            end = solve(self.parameters, parts, values, off, self.slopes(values, off)).values
            tried = ({n: v ** (1 - t) * end[n] ** t for n, v in values.items()} for t in LENGTHS)
            values = min(tried, key=misfit)
        return values

    def parts(self, train: NDArray[np.bool_]) -> Parts:
        """The parts of the errors: of a source, of its servers, and of rows."""
        alone = [row.figure == "pass" for row in self.rows]
        groups = [(row.run.server, passes) for row, passes in zip(self.rows, alone, strict=True)]
        sources = [(row.run.source_id, passes) for row, passes in zip(self.rows, alone, strict=True)]
        return parts_of(groups, sources, train, [ALONE if passes else SPREAD for passes in alone])


def _passes(run: PublicRun) -> list[MeasuredPass]:
    """The known times of a run."""
    if run.left_out not in USED or not run.time_ms:
        return []
    if run.kind != "speculation":
        return [MeasuredPass(run, run.kind, run.time_ms * MS)]
    if not run.tokens_per_iteration:
        return []
    passes = [MeasuredPass(run, "iteration", run.tokens_per_iteration * run.time_ms * MS)]
    if run.baseline_ms:
        passes.append(MeasuredPass(run, "step", run.baseline_ms * MS))
    return passes


@dataclass(frozen=True)
class LeftOut:
    """Errors of steps, of iterations over steps, and of prompts, by run, with constants fitted without the
    run's source or device.
    """

    step: dict[str, float]
    ratio: dict[str, float]
    prompt: dict[str, float]
    runs: dict[str, PublicRun]

    @classmethod
    def by(cls, rows: LlamaCppPasses, names: NDArray[np.str_]) -> "LeftOut":
        """Each row with constants fitted without those of its name. names ``[row]``: of the sources, say."""
        off = np.empty(len(names))
        for name in np.unique(names):
            out = names == name
            off[out] = rows.off(rows.settled(~out))[out]
        return cls.of(rows.rows, off)

    @classmethod
    def of(cls, rows: Sequence[MeasuredPass], off: Array) -> "LeftOut":
        """Built from the error of each row."""
        runs = grouped((i for i, row in enumerate(rows) if row.run.counts), lambda i: rows[i].run.id)
        by = {id: {rows[i].figure: float(off[i]) for i in index} for id, index in runs.items()}
        whole = {id: of for id, of in by.items() if "iteration" in of and "step" in of}
        return cls(
            {id: of["step"] for id, of in by.items() if "iteration" not in of and "step" in of},
            {id: of["iteration"] - of["step"] for id, of in whole.items()},
            {id: of["prompt"] for id, of in by.items() if "prompt" in of},
            {row.run.id: row.run for row in rows},
        )

    def stated(self, of: str, maker: str | None = None) -> dict[str, Any]:
        """The errors that a file of a maker's device states (None: of any maker)."""
        steps = {kind: [self.step[run.id] for run in self.alike(kind, maker)] for kind in get_args(StepKind)}
        return {
            "observed_error": {
                "target_s": scatter(self.step.values(), f"steps of {of}"),
                "speedup": scatter(self.ratio.values(), f"iterations over steps of {of}"),
            },
            "step_error": {kind: scatter(off, f"steps of {of}: {kind}") for kind, off in steps.items()},
        }

    def alike(self, kind: StepKind, maker: str | None) -> list[PublicRun]:
        """Steps of a kind. maker: if it has the kind in several sources, the steps of all such makers, else
        the steps of all others, because without its only source nothing of a maker is known; None takes all.
        """
        runs = [self.runs[id] for id in self.step if kind_of(self.runs[id]) == kind]
        by_maker = grouped(runs, lambda run: load_gpu(run.hardware).vendor)
        several = {name for name, own in by_maker.items() if len({run.source_id for run in own}) > 1}
        same = [
            own for name, own in by_maker.items() if maker is None or (name in several) == (maker in several)
        ]
        return [run for own in same for run in own]


def scatter(off: Iterable[float], source: str) -> dict[str, Any]:
    """The error to state; its interval contains nine in ten rows."""
    size = np.abs([*off])
    rms = float(np.sqrt(np.mean(size**2)))
    within = quantile(size, np.ones(len(size)))
    return Scatter(log_rms=rms, log_within=within, rows=len(size), source=source).as_mapping()


def kind_of(run: PublicRun) -> StepKind:
    """The kind of a run's steps."""
    return step_kind(bool(load_model(run.model).moe), run.batch, run.context_tokens)


def texts(date: datetime.date, passes: LlamaCppPasses | None = None) -> dict[Path, str]:
    """The files of all devices with rows, and the errors of rows with constants fitted without their source;
    by path. passes: those of all public runs by default.
    """
    rows = passes or LlamaCppPasses()
    whole = rows.settled(np.ones(len(rows.rows), dtype=bool))

    gpus = [load_gpu(row.run.hardware) for row in rows.rows]
    sources = np.array([row.run.source_id for row in rows.rows])
    devices = np.array([gpu.name for gpu in gpus])
    makers = np.array([gpu.vendor for gpu in gpus])

    source = LeftOut.by(rows, sources)
    device = LeftOut.by(rows, devices)
    maker = LeftOut.by(rows, makers)
    errors = {"step": source.step, "ratio": source.ratio, "prompt": source.prompt}
    found = {LEFT_OUT: json.dumps(shortened(errors, 4), indent=1) + "\n"}
    for gpu in map(load_gpu, files.bundled_names("gpus")):
        if gpu.name not in devices and (gpu.kind != "gpu" or gpu.link is not None):  # a board of servers
            continue
        if gpu.vendor in makers:
            transferred = device.stated("devices left out whole, by constants of their maker", gpu.vendor)
        else:
            transferred = maker.stated("makers left out whole, by constants of all")
        more = {"kind": "literature", "notes": SAME_MAKER if gpu.vendor in makers else NO_ROWS, **transferred}
        if gpu.name in devices:
            more = {"notes": NOTES, **source.stated("sources left out whole", gpu.vendor)}
        more["transfer_error"] = transferred["observed_error"]["target_s"]
        made = Calibration.of_mapping(shortened(DeviceConstants(gpu).stated(whole, date=date, **more), 4))
        found[FOLDER / f"{made.name}.yaml"] = as_yaml(made, COMMENT)
    return found
