"""Published measurements of exactly the question that was asked, beside what was predicted."""

from typing import Any

from perfmodel.answers.query import Query
from perfmodel.kv import parse_kv

FIGURES = {
    "target_s": ("target_step", "predicted_s"),
    "draft_s": ("draft_step", "predicted_s"),
    "verify_s": ("verify_step", "predicted_s"),
    "overhead_s": ("overhead_s",),
    "tokens_per_iteration": ("acceptance", "tokens_per_iteration"),
    "sd_tpot_s": ("tpot_s",),
    "speedup": ("speedup",),
}
"""Field of a measured point -> where the answer has the same figure."""


def measured(query: Query, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of ``results/published`` with this device, model, draft, method, budget, batch, context and gamma.

    Where the best gamma was asked for, also rows that state the best gamma measured. Each has its source and, per
    figure, predicted, measured and error (predicted / measured - 1); `fitted_on` is true where the calibration was
    fitted on this very set, so that the error is no test of it. Empty where nobody measured this.
    """
    from perfmodel.specs.published import published_points

    asked = answer["query"]
    if asked["kv_dtype"] != "bf16" or asked["draft_kv_dtype"] != "bf16" or asked["draft_weights"] != asked["weights"]:
        return []
    kv = parse_kv(asked["draft_kv"])
    same = (asked["hardware"], asked["tp"], asked["model"], asked["weights"], asked["batch"], asked["context"])
    drafted = (asked["draft"], kv.name if kv.budget is None else f"{kv.name}:{kv.budget}", asked["tp"])
    found = []
    for point in published_points():
        if (point.hardware, point.tp, point.target, point.weights, point.batch, point.context) != same or point.tree:
            continue
        plain = point.draft is None
        if not plain and (point.draft, point.draft_kv, asked["draft_tp"]) != drafted:
            continue
        best = query.gamma is None and point.set_name == "gamma_optimal"
        if point.gamma == asked["gamma"] or best or (plain and asked["gamma"] == 0):
            found.append(_beside(point, answer))
    return found


def _beside(point: Any, answer: dict[str, Any]) -> dict[str, Any]:
    figures = {}
    for name, path in FIGURES.items():
        clock = getattr(point, name)
        if clock is None:
            continue
        predicted = answer
        for key in path:
            predicted = predicted[key]
        figures[name] = {"predicted": predicted, "measured": clock, "error": float(predicted) / clock - 1.0}  # type: ignore[arg-type]
    return {
        "set": point.set_name,
        "row": point.row_id,
        "source": point.source,
        "stack": point.stack,
        "gamma": point.gamma,
        "notes": point.notes,
        "fitted_on": point.set_name in answer["calibration"]["fitted_on"],
        "figures": figures,
    }
