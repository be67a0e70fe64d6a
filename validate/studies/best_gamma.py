"""The draft length: predicted best beside measured best, and what choosing the predicted one would lose."""

from dataclasses import dataclass, replace

import numpy as np

from perfmodel.specs.calibration import Calibration
from perfmodel.specs.published import MeasuredPoint, published_points
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.chain import predict, speedups
from perfmodel.speculation.workload import Workload
from perfmodel.validate.accuracy.compare import Mode, calibration_for
from perfmodel.validate.fit.counted import scenario_of
from perfmodel.validate.fit.folds import held_out
from perfmodel.validate.fit.recipes import RECIPES

CONSTANTS = (1, 2, 3, 4, 5)
"""Draft lengths of the baseline that always drafts the same number of tokens."""
MAX_GAMMA = 8


@dataclass(frozen=True, slots=True)
class BestGamma:
    """One row. regret: predicted best speedup over the predicted one at the measured gamma, less 1.

    constant_regret: the same for always drafting each of `CONSTANTS`, against the predicted best.
    """

    row: str
    measured_gamma: int
    predicted_gamma: int
    measured_speedup: float
    predicted_speedup: float
    regret: float
    constant_regret: tuple[float, ...]

    @property
    def error(self) -> float:
        """Of the speedup at the measured best gamma."""
        return self.predicted_speedup / self.measured_speedup - 1.0


def best_gammas(mode: Mode) -> list[BestGamma]:
    """All rows; held-out predicts each with a fit that saw no time of its model, batch and context."""
    return [_one(p, mode) for p in published_points("gamma_optimal")]


def _one(p: MeasuredPoint, mode: Mode) -> BestGamma:
    assert p.gamma is not None
    assert p.speedup is not None
    assert p.alpha is not None
    scenario = scenario_of(p, _calibration(p, mode))
    scenario = replace(scenario, acceptance=Acceptance.from_alpha(p.alpha))
    best = predict(scenario, Workload.of(p.batch, p.context, p.gamma), MAX_GAMMA)
    at = dict(zip(CONSTANTS, speedups(scenario, p.batch, p.context, np.array(CONSTANTS)).tolist(), strict=True))
    highest = float(best.speedup_at_gamma_optimal)
    return BestGamma(
        row=p.row_id,
        measured_gamma=p.gamma,
        predicted_gamma=int(best.gamma_optimal),
        measured_speedup=p.speedup,
        predicted_speedup=float(best.speedup),
        regret=highest / float(best.speedup) - 1.0,
        constant_regret=tuple(highest / at[gamma] - 1.0 for gamma in CONSTANTS),
    )


def _calibration(p: MeasuredPoint, mode: Mode) -> Calibration:
    shipped = calibration_for(p)
    if mode == "shipped" or shipped.name not in RECIPES:
        return shipped
    out, asked = held_out(RECIPES[shipped.name]), (p.target, p.batch, p.context)
    folds = zip(out.points.points, out.fold, strict=True)
    return next((out.fits[f].calibration for one, f in folds if (one.target, one.batch, one.context) == asked), shipped)
