"""Fits constants to measured times of llama.cpp: decode steps, single verifications, iterations with drafts,
and prompts.

The errors of the rows of one source are correlated. The errors of the rows of one server have a stronger
correlation.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.question import Query, resolve
from perfmodel.operations import Array
from perfmodel.specs import LLAMACPP, Calibration, load_gpu
from perfmodel.specs.published import MS
from perfmodel.speculation import with_calibration
from perfmodel.validate.solving import Values, estimate, grouped
from perfmodel.validate.studies.answered_runs import SET_ALPHA
from perfmodel.validate.studies.error_parts import ErrorSpread, Parts, parts_of
from perfmodel.validate.studies.llamacpp_constants import EAGER, FUSED, OLD, PROMPT, TERMS, DeviceConstants
from perfmodel.validate.studies.llamacpp_prompts import prompt_s, prompts
from perfmodel.validate.studies.parameters import PlacedConstant
from perfmodel.validate.studies.public_runs import PublicRun, public_runs
from perfmodel.validate.studies.reasons import Reason
from perfmodel.validate.studies.robust import LOG_STEP, FittedRows, search_settings, searched
from perfmodel.validate.studies.scoped_constants import Term
from perfmodel.validate.studies.steps import StepGroup

TOLERANCE = 1e-5
"""Relative change of the sum of squares and of the values below which a search ends."""
SLOWER = 0.9
"""Factor by which a constant is multiplied to find the rows that depend on it."""
USED = (None, Reason.NO_BASELINE, Reason.PASS_ALONE)
"""Values of `PublicRun.left_out` with which a run is used in the fit. None means that the run also counts in
the errors.
"""
SPREAD = ErrorSpread(row=0.04, group=0.05, kind=0.08)
"""Standard deviations of the parts of an error. A group is a server, and a kind is a source."""
SPREAD_ALONE = ErrorSpread(row=0.1, group=0.15, kind=0.15)
"""The same standard deviations for single verifications, which were timed with builds that are a year old."""


@dataclass(frozen=True)
class MeasuredPass:
    """A measured time, in seconds.

    - figure: ``step``, ``pass``, ``iteration`` or ``prompt``. A ``pass`` is a single verification of gamma +
      1 tokens. A ``prompt`` has `input_tokens` tokens and no draft.
    """

    run: PublicRun
    figure: str
    seconds: float

    @property
    def is_alone(self) -> bool:
        """Whether the time is that of a single verification, without the other work of an engine."""
        return self.figure == "pass"

    @property
    def alike(self) -> tuple[object, ...]:
        """A key that is equal for rows that differ only in batch and context."""
        gamma = None if self.figure == "step" else self.run.gamma
        return self.run.server, self.run.kv_dtype, self.run.draft, self.figure, gamma


@dataclass
class PassGroup(StepGroup):
    """Rows that differ only in batch and context.

    - first: the row that represents them.
    """

    first: MeasuredPass

    def moved(self, name: str, values: Values, factor: float) -> Array:
        """The logarithm of the predicted seconds of each row if one constant is multiplied by a factor.

        - name: the name of the constant.
        """
        place = f"all.{name}"
        changed = {**values, place: values[place] * factor}
        return np.asarray(np.log(self.predict(self.constants.calibration(changed))))

    def depends_on(self, name: str, values: Values) -> bool:
        """Whether a constant affects the predictions for these rows. By choice, prompts determine only
        `PROMPT`, and other rows do not determine it.
        """
        of_prompts = self.first.figure == "prompt"
        if of_prompts != (name == PROMPT):
            return False
        moved = self.moved(name, values, SLOWER)
        return bool(np.any(moved != np.log(self.predicted(values))))

    def predict(self, calibration: Calibration) -> Array:
        """The predicted seconds of each row."""
        if self.first.figure == "step":
            return super().predict(calibration)
        s = with_calibration(self.scenario, calibration)
        if self.first.figure == "prompt":
            return np.array([prompt_s(s, tokens) for tokens in self.context.tolist()])
        place = (self.batch, self.context)
        gamma = self.first.run.gamma or 0
        verify_s = s.target_pass_s(*place, gamma + 1.0)
        if self.first.is_alone:
            return np.asarray(verify_s)
        draft_s = gamma * s.draft_token_s(*place, np.array([gamma]))
        return np.asarray(draft_s + verify_s + s.overhead_s(*place))


class LlamaCppPasses(FittedRows[MeasuredPass]):
    """The measured times of llama.cpp, with predictions as functions of the parameters."""

    terms: ClassVar[Mapping[str, Term]] = TERMS
    further: ClassVar[tuple[PlacedConstant, ...]] = (
        PlacedConstant(f"{OLD}.small_kernel_s", expected=1.3, spread=0.3, times=True),
        PlacedConstant(f"{EAGER}.small_kernel_s", expected=2.0, spread=0.4, times=True),
    )

    @staticmethod
    def runs() -> Iterable[PublicRun]:
        """The public runs and the published prompts of llama.cpp."""
        return (*(run for run in public_runs() if run.engine == LLAMACPP), *prompts())

    @staticmethod
    def constants_of(run: PublicRun) -> Any:
        """The constants for the device and the build of a run, as functions of the parameters."""
        return DeviceConstants(load_gpu(run.hardware), run.date < FUSED)

    def __init__(self) -> None:
        self.rows = tuple(row for run in self.runs() for row in _passes(run))
        self.logs = np.log([row.seconds for row in self.rows])
        self.parameters = [*self._scoped_terms(), *self.further]
        start = {p.place: p.expected for p in self.parameters}
        alike = grouped(range(len(self.rows)), lambda i: self.rows[i].alike)
        self.groups = [self._group(index, start) for index in alike.values()]
        pairs = product(self.terms, self.groups)
        self.moving = [(name, group) for name, group in pairs if group.depends_on(name, start)]
        """Pairs of a constant and a group of rows that depends on it."""

    def _scoped_terms(self) -> Iterator[PlacedConstant]:
        """The parameters: every constant for all devices, for each vendor and for each device."""
        level_of = {}
        for row in self.rows:
            widest_three = self.constants_of(row.run).scopes[:3]
            for level, scope in enumerate(widest_three):
                level_of[scope] = level
        for scope, level in level_of.items():
            for name, term in self.terms.items():
                is_factor = level > 0
                if spread := term.spreads[level]:
                    expected = 1.0 if is_factor else term.expected
                    yield PlacedConstant(f"{scope}.{name}", expected=expected, spread=spread, times=is_factor)

    def _group(self, index: list[int], start: Values) -> PassGroup:
        rows = [self.rows[i] for i in index]
        run = rows[0].run
        constants = self.constants_of(run)
        query = Query(
            batch=1,
            context=1,
            gamma=run.gamma or 0,
            draft=run.draft or None,
            alpha=SET_ALPHA,
            **run.query_arguments(),
        )
        scenario = with_calibration(resolve(query), constants.calibration(start))
        batch = np.array([row.run.batch for row in rows], float)
        context = np.array([row.run.context_tokens for row in rows], float)
        # a group needs only these two functions of its constants
        return PassGroup(constants, scenario, np.array(index), batch, context, rows[0])

    def slopes(self, values: Values, off: Array) -> Array:
        """See `FittedRows.slopes`. A constant is the product of its scopes' factors, so all these factors
        have the same slope.
        """
        slopes = np.zeros((len(self.rows), len(self.parameters)))
        for name, group in self.moving:
            moved_off = group.moved(name, values, np.exp(LOG_STEP)) - self.logs[group.index]
            slope = (moved_off - off[group.index]) / LOG_STEP
            scopes = group.constants.scopes
            columns = [p.name == name and p.scope in scopes for p in self.parameters]
            slopes[np.ix_(group.index, columns)] = slope[:, None]
        return slopes

    def settled(self, train: NDArray[np.bool_]) -> Values:
        """The values that are fitted to the rows in the mask `train`.

        The search begins at the expected values. If it began at the values of the fit to all rows, the result
        would depend on the rows that are left out.
        """
        return self.least_loss(self.parts(train))

    def least_loss(self, parts: Parts, start: Values | None = None) -> Values:
        """The values with the smallest loss of these parts.

        - start: values at which the search begins; by default the expected ones.
        """

        def residuals(values: Values) -> Array:
            return parts.residuals(parts.matrix @ self.off(values))

        def slopes(values: Values) -> Array:
            off = self.off(values)
            of_parts = parts.slopes(parts.matrix @ off)
            return np.asarray(of_parts[:, None] * (parts.matrix @ self.slopes(values, off)))

        end = estimate(
            searched(self.parameters),
            residuals,
            start,
            slopes=slopes,
            **search_settings(self.parameters),
            ftol=TOLERANCE,
            xtol=TOLERANCE,
        )
        return end.values

    def parts(self, train: NDArray[np.bool_], off: Array | None = None) -> Parts:
        """The parts of the errors: those of sources, of servers and of rows.

        - off: see `parts_of`.
        """
        servers = [(row.run.server, row.is_alone) for row in self.rows]
        sources = [(row.run.source_id, row.is_alone) for row in self.rows]
        spreads = [SPREAD_ALONE if row.is_alone else SPREAD for row in self.rows]
        return parts_of(servers, sources, train, spreads, off)


def _passes(run: PublicRun) -> list[MeasuredPass]:
    """The times that a run states; none if the run is not used in the fit."""
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
