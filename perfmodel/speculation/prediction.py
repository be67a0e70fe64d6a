"""Predicts a workload of any size: times, tokens per iteration and best draft length at every point."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.errors import InputError
from perfmodel.operations import Array, Ints
from perfmodel.speculation.iteration import Passes, check_draft_length
from perfmodel.speculation.length_to_run import length_to_run
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.workload import Workload

DEFAULT_MAX_GAMMA = 16
"""The longest draft that the search for the best length tries by default."""
BLOCK_ELEMENTS = 2**18
"""Number of points and gammas that are computed together. It limits the memory of large workloads."""
FIGURES = (
    "target_s",
    "draft_s",
    "verify_s",
    "overhead_s",
    "tokens_per_iteration",
    "speedup_at_gamma_optimal",
)
"""Fields of a prediction that are computed."""


@dataclass(frozen=True)
class Prediction:
    """A prediction over ``[batch, context, gamma]``. All times are calibrated seconds.

    - draft_s: draft time per drafted token. It is one draft step with its selection of cached tokens, or a
      share of a parallel draft's pass.
    - verify_s: time of the pass over gamma + 1 tokens.
    - gamma_optimal: the draft length with the largest speedup, from 0 (do not speculate) to the end of the
      search. On a tie, the shorter length is chosen.
    """

    batch: Array
    gamma: Ints
    target_s: Array
    draft_s: Array
    verify_s: Array
    overhead_s: Array
    tokens_per_iteration: Array
    gamma_optimal: Ints
    speedup_at_gamma_optimal: Array

    @cached_property
    def iteration_s(self) -> Array:
        """Seconds of one iteration: its draft steps, its verification and its overhead."""
        return np.asarray(self.gamma * self.draft_s + self.verify_s + self.overhead_s)

    @property
    def speedup(self) -> Array:
        """Speedup over the baseline at the same batch."""
        return self.tokens_per_iteration * self.target_s / self.iteration_s

    @property
    def tpot_s(self) -> Array:
        """Seconds per output token of one sequence with speculation."""
        return self.iteration_s / self.tokens_per_iteration

    @property
    def ar_tpot_s(self) -> Array:
        """Seconds per output token of the baseline."""
        return self.target_s

    @property
    def throughput_tokens_per_s(self) -> Array:
        """Tokens per second of the whole batch with speculation."""
        return self.batch / self.tpot_s

    @property
    def ar_throughput_tokens_per_s(self) -> Array:
        """Tokens per second of the whole batch without speculation."""
        return self.batch / self.target_s

    @property
    def draft_to_target(self) -> Array:
        """The cost ratio c = (T_D + T_select) / T_T: drafting one token, relative to a baseline step."""
        return self.draft_s / self.target_s

    @property
    def verify_to_target(self) -> Array:
        """The cost ratio v = T_V / T_T: the verification, relative to a baseline step."""
        return self.verify_s / self.target_s


def predict(
    scenario: Scenario, workload: Workload, max_gamma: int = DEFAULT_MAX_GAMMA, at_best: bool = False
) -> Prediction:
    """Predicts a workload of any size. Apart from the result, the memory use does not grow with its size.

    gamma_optimal is searched from 0 to `max_gamma`, or to the longest draft with a known acceptance.

    - at_best: whether to predict for the draft length to run (`length_to_run`, or 0 if the baseline is
      fastest) instead of the workload's gamma.

    Raises InputError if the acceptance is unknown at the workload's gamma, or if a result is not finite.
    """
    batch = workload.batch
    context = workload.context
    gamma = workload.gamma
    shape = np.broadcast_shapes(batch.shape, context.shape, gamma.shape)
    check_draft_length(scenario.draft, int(gamma.max()))
    last = scenario.longest(max_gamma)
    gammas = np.arange(max(last, int(gamma.max())) + 1)
    best = np.empty(shape, dtype=np.int64)
    predicted = np.empty(shape, dtype=np.int64)
    figures = {name: np.empty(shape) for name in FIGURES}
    for block in _blocks(shape, BLOCK_ELEMENTS // len(gammas)):
        b, c, g = (_within(a, block, shape) for a in (batch, context, gamma))
        passes = Passes(scenario, b, c, gammas)
        times = passes.times(scenario)
        step_s = times.target_s[0]
        rates = passes.tokens_per_s(times)[: last + 1]
        rates[0] = 1.0 / step_s
        top = rates.max(axis=0)
        fastest = _first_equal(rates, top)
        best[block] = fastest
        g = _to_run(scenario, c, rates, fastest) if at_best else g
        predicted[block] = g
        prediction = (
            step_s,
            times.draft_s if times.draft_s.ndim < times.verify_s.ndim else _at_gamma(times.draft_s, g),
            _at_gamma(times.verify_s, g),
            np.where(g == 0, 0.0, times.overhead_s),
            passes.gained[g],
            np.where(fastest == 0, 1.0, top * step_s),
        )
        for name, values in zip(FIGURES, prediction, strict=True):
            figures[name][block] = values
    if not np.isfinite(sum(figures.values())).all():
        _refuse_endless(scenario, figures)
    return Prediction(
        batch=np.broadcast_to(batch, shape),
        gamma=predicted[()],
        gamma_optimal=best[()],
        **{name: values[()] for name, values in figures.items()},
    )


def _first_equal(rates: Array, top: Array) -> Ints:
    """The first index of the leading axis at which `rates` equals `top`, for each point. This is the result
    of ``rates.argmax(0)``, which takes longer along a leading axis.
    """
    last = len(rates) - 1
    backwards = np.arange(last, -1, -1, dtype=np.min_scalar_type(last)).reshape(-1, *(1,) * top.ndim)
    return np.asarray(last - np.max((rates == top) * backwards, axis=0).astype(np.int64))


def _to_run(scenario: Scenario, context: Array, rates: Array, fastest: Ints) -> Ints:
    """The draft length to run at each point; 0 if the baseline is fastest.

    - rates: tokens per second, with the draft lengths from 0 on along the leading axis.
    - fastest: the fastest of these lengths.
    """
    if not fastest.any() or len(rates) == 1:
        return fastest
    return np.where(fastest, 1 + length_to_run(scenario, float(np.max(context)), 1.0 / rates[1:]), 0)


def _refuse_endless(scenario: Scenario, figures: dict[str, Array]) -> None:
    """Raises InputError for figures that are not finite."""
    for name, values in figures.items():
        if not np.isfinite(values).all():
            files = (
                f"{scenario.target.name}, {scenario.machine.gpu.name} and {scenario.machine.calibration.name}"
            )
            raise InputError(f"{name}: the answer is not a finite number; check the files of {files}")


def _at_gamma(values: Array, gamma: Ints) -> Array:
    """Picks the value at each point's gamma from a leading axis that starts at gamma = 0."""
    if gamma.size == 1:
        return np.asarray(values[int(gamma.reshape(-1)[0])])
    return np.asarray(np.take_along_axis(values, gamma[None], 0)[0])


def _blocks(shape: tuple[int, ...], limit: int) -> Iterator[tuple[slice, ...]]:
    """Cuts a grid along its longest axis into blocks of about `limit` points."""
    if not shape:
        yield ()
        return
    longest = int(np.argmax(shape))
    step = max(shape[longest] * limit // math.prod(shape), 1)
    for start in range(0, shape[longest], step):
        cut = slice(start, min(start + step, shape[longest]))
        yield tuple(cut if axis == longest else slice(0, size) for axis, size in enumerate(shape))


def _within(values: NDArray[Any], block: tuple[slice, ...], shape: tuple[int, ...]) -> NDArray[Any]:
    """The part of an array that broadcasts into a block of `shape`."""
    values = values.reshape((1,) * (len(shape) - values.ndim) + values.shape)
    return values[
        tuple(cut if size > 1 else slice(None) for cut, size in zip(block, values.shape, strict=True))
    ]
