"""Tables of research stacks: the errors on the rows to which calibrations are fitted. Each row is predicted
by a fit without its fold.
"""

from perfmodel.specs import COVERAGE
from perfmodel.validate.accuracy.cells import LABELS
from perfmodel.validate.fit.recipes import RECIPES
from perfmodel.validate.studies.tables.cells import Record, Rows, figures, percent, right_of_all

QUANTITIES = ("speedup", "target_s", "draft_s", "verify_s", "overhead_s")
FOLD_WORDS = {
    "point": "device, model, batch, context",
    "batch": "batch",
    "draft": "draft and KV method",
    "model": "target model",
    "context": "context",
    "tp": "device count",
}


def summary(record: Record) -> Rows:
    """The main results: errors, verdicts, physical bounds and best draft lengths."""
    yield ["quantity", "result"]
    yield from _replay_rows(record["replays"]["held-out"])
    yield from _bound_rows(record["bounds"])
    yield from _gamma_rows(record["gamma_optimal"]["held-out"])


def _replay_rows(replay: Record) -> Rows:
    """The errors and verdicts of published rows, each predicted by a fit without its fold."""
    overall = replay["overall"]
    yield ["number of measured values (T_T, T_D, T_V, speedup) of fitted stacks", str(overall["rows"])]
    yield ["mean error, each fold left out of the fit", f"**{percent(overall['mape'], 2)} %**"]
    bias = percent(overall["bias"], sign="+")
    worst = percent(overall["worst"], sign="+")
    yield ["bias; worst error", f"{bias} %; {worst} % ({overall['worst_row']})"]
    side = replay["side_of_one"]
    yield ["verdict (speedup above or below 1.0)", f"correct in {right_of_all(side)} rows"]
    wrong = [f"{measured:.2f} ({predicted:.2f})" for measured, predicted in side["wrong"].values()]
    yield ["measured (predicted) speedups of the incorrect rows", ", ".join(wrong)]


def _bound_rows(bounds: Record) -> Rows:
    """Measured times compared with their physical lower bounds."""
    yield [
        "measured times compared with their lower bound (data larger than the last-level cache)",
        str(bounds["checked"]),
    ]
    closest = f"{percent(bounds['closest'])} % of the measured time"
    yield [
        "measured times below their lower bound; largest ratio of bound to time",
        f"{len(bounds['violations'])}; {closest}",
    ]


def _gamma_rows(gamma: Record) -> Rows:
    """The predicted best draft length compared with the measured best draft length."""
    choices = [f"{predicted} ({measured})" for measured, predicted in gamma["choices"].values()]
    yield ["best γ, predicted (measured)", ", ".join(choices)]
    error = percent(gamma["speedup_mape"])
    worst = percent(gamma["speedup_worst"], sign="+")
    yield ["error of the speedup at the measured best γ", f"mean {error} %, worst {worst} %"]
    regret = percent(gamma["regret_mean"])
    worst_regret = percent(gamma["regret_worst"])
    yield ["speedup lost with the predicted γ", f"**{regret} %**, worst {worst_regret} %"]
    constant = [f"{percent(lost)} % for {length}" for length, lost in gamma["constant_regret_mean"].items()]
    yield ["speedup lost with a constant γ", ", ".join(constant)]


def held_out(record: Record) -> Rows:
    """The errors by calibration and quantity, compared with those of other calibrations."""
    yield [
        *("calibration", "rows", "mean error %", "bias %", "worst %"),
        *("in sample %", "literature %", "ideal %"),
    ]
    replays = record["replays"]
    held_out = replays["held-out"]["partitions"]
    shipped = replays["shipped"]["partitions"]
    for name, recipe in RECIPES.items():
        elsewhere = record["elsewhere"].get(name, {})
        for quantity in (*QUANTITIES, "speedup_alpha"):
            partition = f"{recipe.set_name}/{recipe.gpu}/{quantity}"
            if partition not in held_out:
                continue
            errors = held_out[partition]
            *cells, worst = figures(errors, "rows", "mape", "bias", "worst", digits=2)
            worst_row = f"{worst} ({errors['worst_row']})"
            in_sample = percent(shipped[partition]["mape"], 2)
            literature = _mape(elsewhere.get("literature", {}).get(quantity))
            ideal = _mape(elsewhere.get("ideal", {}).get(quantity))
            yield [f"{name}: {LABELS[quantity]}", *cells, worst_row, in_sample, literature, ideal]


def _mape(errors: Record | None) -> str:
    """The mean error as the text of a cell."""
    return figures(errors, "mape")[0]


def folds(record: Record) -> Rows:
    """The errors by calibration and kind of fold, with the coverage of intervals."""
    shown = QUANTITIES[:4]
    headings = [LABELS[quantity] for quantity in shown]
    yield ["calibration, held out by", *headings, f"in the {COVERAGE:.0%} interval"]
    for name, calibration in record["calibrations"].items():
        coverage = record["coverage"].get(name, {})
        for by, errors in calibration["held_out_by"].items():
            covered = coverage.get(by)
            inside = f"{covered['inside']} of {covered['rows']}" if covered else "-"
            cells = [_mape_and_worst(errors.get(quantity)) for quantity in shown]
            yield [f"{name}, by {FOLD_WORDS[by]}", *cells, inside]


def _mape_and_worst(errors: Record | None) -> str:
    """The mean and the worst error as the text of one cell."""
    return "-" if errors is None else " / ".join(figures(errors, "mape", "worst"))
