"""The draft length: predicted and measured best, and the loss from choosing the predicted one."""

from dataclasses import replace
from typing import Any

import numpy as np

from perfmodel.specs.calibrations.calibration import Calibration
from perfmodel.specs.published import MeasuredPoint, published_points
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.chain import predict, speedups
from perfmodel.speculation.workload import Workload
from perfmodel.validate.accuracy.compare import Mode, calibration_for
from perfmodel.validate.fit.counted_points import scenario_of
from perfmodel.validate.fit.folds import held_out
from perfmodel.validate.fit.recipes import RECIPES

CONSTANTS = (1, 2, 3, 4, 5)
"""Draft lengths of baselines that always draft the same number of tokens."""
MAX_GAMMA = 8


def figures(mode: Mode) -> dict[str, Any]:
    """Errors of the speedup at the measured best gamma, the predicted best gamma, and the loss from choosing
    it.

    Held-out predicts each row with a fit that saw no time of its model, batch and context. regret: predicted
    best speedup over the predicted one at the measured gamma, minus 1. constant_regret: the same over that of
    each of `CONSTANTS`.
    """
    off, regrets, constant, choices = [], [], [], {}
    for p in published_points("gamma_optimal"):
        assert p.gamma is not None
        assert p.speedup is not None
        assert p.alpha is not None
        scenario = replace(scenario_of(p, _calibration(p, mode)), acceptance=Acceptance.from_alpha(p.alpha))
        best = predict(scenario, Workload.of(p.batch, p.context, p.gamma), MAX_GAMMA)
        off.append(float(best.speedup) / p.speedup - 1.0)
        regrets.append(float(best.speedup_at_gamma_optimal) / float(best.speedup) - 1.0)
        at = speedups(scenario, p.batch, p.context, np.array(CONSTANTS))
        constant.append(float(best.speedup_at_gamma_optimal) / at - 1.0)
        choices[p.row_id] = [p.gamma, int(best.gamma_optimal)]
    return {
        "rows": len(choices),
        "speedup_mape": float(np.mean(np.abs(off))),
        "speedup_worst": max(off, key=abs),
        "within_one": sum(abs(predicted - measured) <= 1 for measured, predicted in choices.values()),
        "regret_mean": float(np.mean(regrets)),
        "regret_worst": max(regrets),
        "constant_regret_mean": dict(
            zip(map(str, CONSTANTS), np.mean(constant, axis=0).tolist(), strict=True)
        ),
        "choices": choices,
    }


def _calibration(p: MeasuredPoint, mode: Mode) -> Calibration:
    shipped = calibration_for(p)
    if mode == "shipped" or shipped.name not in RECIPES:
        return shipped
    out, asked = held_out(RECIPES[shipped.name]), (p.target, p.batch, p.context)
    folds = zip(out.points.points, out.fold, strict=True)
    return next(
        (out.fits[f].calibration for one, f in folds if (one.target, one.batch, one.context) == asked),
        shipped,
    )
