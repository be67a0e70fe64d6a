"""Computes three context lengths that are easily confused, for any model.

* `memory_bound_context`: the context from which a decoding step loads for longer than it computes. *
`break_even_context`: the context from which speculation is faster than the baseline, at one batch. *
`inflection_context` (S_inflection): the context from which the speedup does not fall as the batch grows.

Lengths are real numbers of tokens, which a user rounds up. None means that there is no such length up to
`SEARCH_TO`. docs/model.md derives closed forms for self-speculation on the ideal roofline.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from perfmodel.operations import Array, Mask
from perfmodel.speculation.changed_constants import with_calibration, with_values
from perfmodel.speculation.iteration import Passes
from perfmodel.speculation.remembered import once
from perfmodel.speculation.scenario import Scenario

SEARCH_TO = 2.0**24
"""The longest context that a search tries, in tokens."""
POINTS = 64
"""Number of contexts that each round of a search tries."""
REFINEMENTS = 5
"""Largest number of rounds of a search. The last round has contexts that differ by less than a token."""
STEPS = np.linspace(0.0, 1.0, POINTS)
"""The positions of these contexts between both ends of a round, on a logarithmic scale."""
EVERYWHERE = SEARCH_TO**STEPS
"""Contexts of the first round of a search."""
BATCHES_PER_OCTAVE = 4
"""Number of batches that the search for an inflection tries per doubling of the batch."""
_ROUNDING = 1e-12
"""A relative fall of the speedup of at most this size counts as a rounding error."""
DEFAULT_BATCH_RANGE = (32.0, 256.0)
"""Batches over which speedup must not fall at the inflection context."""


@dataclass(frozen=True, slots=True)
class ContextLengths:
    """The three context lengths in tokens. A length is None if it does not exist."""

    memory_bound_context: float | None
    break_even_context: float | None
    inflection_context: float | None


def context_lengths(
    scenario: Scenario, batch: float, gamma: int, batch_range: tuple[float, float] = DEFAULT_BATCH_RANGE
) -> ContextLengths:
    """All three context lengths, for one batch, one gamma and one range of batches."""
    loading = memory_bound_context(scenario, batch)
    if gamma == 0:
        return ContextLengths(loading, 1.0, 1.0)
    breaking = break_even_context(scenario, batch, gamma)
    return ContextLengths(loading, breaking, inflection_context(scenario, gamma, batch_range))


def memory_bound_context(scenario: Scenario, batch: float, query: float = 1.0) -> float | None:
    """The context from which a pass loads KV and weights for at least as long as it computes. The result is 1
    if this is true at every context.

    It is None if a pass computes for longer than it loads at long contexts. This happens with MLA, which
    needs 242 FLOPs per byte of its cache, on a device with fewer FLOP/s per byte/s of bandwidth. Linear
    operations and attention count, but the input embedding does not. The times have the calibration's
    efficiencies and no fixed costs.
    """
    surplus_s = scenario.formulas.surplus.along("context", batch, query)
    return last_where(lambda context: np.broadcast_to(surplus_s(context) > 0.0, context.shape))


def break_even_context(scenario: Scenario, batch: float, gamma: int) -> float | None:
    """The smallest context at which speculation with `gamma` drafted tokens is at least as fast as the
    baseline.
    """
    passes = Passes(scenario, np.array([batch]), 1.0, np.array([gamma]))
    return first_where(lambda context: passes.at(context).speedups(scenario)[0] >= 1.0)


@once
def inflection_context(
    scenario: Scenario,
    gamma: int,
    batch_range: tuple[float, float] = DEFAULT_BATCH_RANGE,
    tolerance: float = 0.0,
) -> float | None:
    """The smallest context from which the speedup at `gamma` does not fall as the batch grows over
    `batch_range`.

    Each batch that is tried is a quarter octave (a factor of 1.19) above the previous one. The partly filled
    last wave of the attention kernel is ignored, because its saw-tooth over the batch would hide the trend.
    The acceptance does not matter, because it multiplies the speedups at all batches by the same factor.

    - tolerance: relative fall of the speedup between two batches that is ignored.
    """
    smooth = without_waves(scenario).with_acceptance(None)
    passes = Passes(smooth, batches_between(*batch_range)[:, None], 1.0, np.array([gamma]))
    return last_where(lambda context: falls(passes.at(context).speedups(smooth)[0], tolerance))


@cache
def batches_between(low: float, high: float) -> Array:
    """The batches that the search for an inflection tries, in quarter octaves."""
    steps = math.ceil(math.log2(high / low) * BATCHES_PER_OCTAVE)
    batches = np.geomspace(low, high, max(steps, 1) + 1).round(
        9
    )  # removes rounding errors: 64 must not exceed 64
    batches.flags.writeable = False
    return batches


def falls(surface: Array, tolerance: float = 0.0) -> Mask:
    """For each context, whether the speedup falls anywhere along the batches. The batches are the first
    axis.
    """
    return np.any(surface[1:] < surface[:-1] * (1.0 - tolerance - _ROUNDING), axis=0)


def without_waves(scenario: Scenario) -> Scenario:
    """A copy of the scenario in which the last wave of the attention kernel is always full."""
    calibration = scenario.machine.calibration
    if not calibration.attention_blocks_per_multiprocessor.value:
        return scenario
    endless = {"attention_blocks_per_multiprocessor": np.inf}  # no wave is the last one
    return with_calibration(scenario, with_values(calibration, endless))


class ContextSearch:
    """A search for the first context from 1 to SEARCH_TO with a property. The search uses a logarithmic grid,
    and refines it around the change.

    - found: this context. It is None if there is none.
    - settled: whether a finer grid would find the same context.
    """

    def __init__(self) -> None:
        self.found: float | None = None
        self.settled = False
        self._ends = (1.0, SEARCH_TO)
        self._grid: Array | None = EVERYWHERE

    @property
    def grid(self) -> Array:
        """The contexts at which the current round evaluates the property. The contexts are computed on first
        use.
        """
        if self._grid is None:
            low, high = self._ends
            self._grid = low * (high / low) ** STEPS
            self._grid[-1] = high
        return self._grid

    def narrow(self, holds: Mask) -> None:
        """Receives the values of the property on the grid. Refines the grid around the first true value,
        unless the search is settled.
        """
        if self.settled:
            return
        grid = self.grid
        first = int(np.argmax(holds))
        self.found = float(grid[first]) if holds[first] else None
        self.settled = first == 0
        if first:
            self._ends = (float(grid[first - 1]), float(grid[first]))
            self._grid = None


def no_more(holds: Mask) -> Mask:
    """For each place on the grid, whether the property is false from there to the end of the grid."""
    return ~np.logical_or.accumulate(holds[::-1])[::-1]


def first_where(property_of: Callable[[Array], Mask]) -> float | None:
    """The first context at which a property is true. The result is None if there is no such context up to
    SEARCH_TO.
    """
    search = ContextSearch()
    for _ in range(REFINEMENTS):
        search.narrow(property_of(search.grid))
        if search.settled:
            break
    return search.found


def last_where(property_of: Callable[[Array], Mask]) -> float | None:
    """The context from which a property is false up to SEARCH_TO. The result is None if the property is true
    at SEARCH_TO.
    """
    return first_where(lambda context: no_more(property_of(context)))
