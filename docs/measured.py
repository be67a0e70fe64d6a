"""What the records of the H200 show, as tables of `docs/h200.md`."""

import json
from pathlib import Path
from statistics import median

import numpy as np

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query, resolve
from perfmodel.costs.pass_time import LIMITERS
from perfmodel.specs import load_calibration, load_gpu
from perfmodel.speculation import inflection_context
from perfmodel.validate.accuracy.cells import Cell
from perfmodel.validate.accuracy.compare import compare_record
from perfmodel.validate.accuracy.markdown import table
from perfmodel.validate.accuracy.report import error_table, point_table
from perfmodel.validate.records import Record, load_plan, read_record, records

FOLDER = Path(__file__).parents[1] / "results" / "h200-1"
FIGURES = ("target_s", "draft_s", "verify_s", "speedup")
MICRO = "h200-sxm-141gb.micro"
BLOCKS = "blocks of 64 rows, two programs per multiprocessor"
SEARCH = "the search for the best pages reads up to 8,192 scores at a time"
PRODUCT = "a matrix product for few rows that divides the inputs among programs"
PLANS = (
    "gpu-headline",
    "gpu-repeat",
    "gpu-inflection",
    "gpu-headline-fp8",
    "gpu-quest",
    "gpu-trees",
    "gpu-unsplit",
)


def _records(plan: str) -> list[Record]:
    found = [record for record in records(FOLDER.parent, FOLDER.name) if record.data.plan.name == plan]
    return [record for record in found if record.data.kind == "measure"]


def _cells(*plans: str) -> list[Cell]:
    """The cells of each plan's last record under the calibration from kernels alone."""
    used = load_calibration(MICRO)
    return [cell for plan in plans for cell in compare_record(_records(plan)[-1], used)]


def h200_points() -> str:
    """Predicted and measured figures of every point of the main plan."""
    return "\n".join(table(*point_table(_cells("gpu-headline"), FIGURES))) + "\n"


def h200_errors() -> str:
    """Errors of four figures by plan."""
    rows = []
    for plan in PLANS:
        cells = _cells(plan)
        points = {cell.point.row_id for cell in cells}
        _, errors = error_table(cells, FIGURES)
        rows.append([f"`{plan}`", str(len(points)), *(row[1] for row in errors)])
    return "\n".join(table(["plan", "points", "T_T", "T_D", "T_V", "speedup"], rows)) + "\n"


def h200_figures() -> str:
    """Single figures: rates, repeatability, overhead, bounds and S_inflection."""
    rate = _copy_bytes_per_s()
    cells = _cells("gpu-headline", "gpu-inflection")
    step = _of(cells, "target_s", 24, 16384)
    draft = _of(cells, "draft_s", 32, 2048)
    lower_step = step.lower or 0.0
    lower_draft = draft.lower or 0.0
    sheet = load_gpu("h200").memory_bandwidth_bytes_per_s
    bound = [(cell.measured, cell.lower) for cell in cells if cell.binding and cell.lower]
    first, last = map(_times, _records("gpu-headline"))
    apart = [abs(last[key] / first[key] - 1.0) for key in first if key in last]
    outside = [
        1e3 * cell.measured
        for cell in _cells("gpu-headline", "gpu-repeat")
        if cell.quantity == "overhead_s" and not cell.point.read.startswith("quest")
    ]
    best = max((cell for cell in cells if cell.quantity == "speedup"), key=lambda cell: cell.measured)
    before = [
        cell.error
        for cell in compare_record(_records("gpu-headline")[0], load_calibration("h200-sxm-141gb.literature"))
        if cell.quantity == "speedup"
    ]
    rows = {
        "mean error of the speedups in the first run (predicted before any measurement)": (
            f"{sum(map(abs, before)) / len(before):.1%} ({len(before)} speedups)"
        ),
        "rate of a copy of 1 GiB (bytes read and written)": f"{rate / 1e12:.2f} TB/s",
        "baseline step, batch 24, context 16K: measured time / lower bound from the data sheet": (
            f"{step.measured / lower_step:.2f}"
        ),
        "the same step: measured time / lower bound from the rate of the copy": (
            f"{step.measured / lower_step * rate / sheet:.2f}"
        ),
        "draft step, batch 32, streamingllm:512: measured time / lower bound from the data sheet": (
            f"{draft.measured / lower_draft:.2f}"
        ),
        "the same draft step: measured time / lower bound from the rate of the copy": (
            f"{draft.measured / lower_draft * rate / sheet:.2f}"
        ),
        "median time of an iteration outside its passes, without Quest": (
            f"{median(outside):.2f} ms (largest {max(outside):.2f} ms)"
        ),
        "measured times below their lower bound": f"{sum(m < lower for m, lower in bound)} of {len(bound)}",
        "median times that agree within 3 % in the two runs of `gpu-headline`": (
            f"{sum(share < 0.03 for share in apart)} of {len(apart)}"
        ),
        "largest speedup": f"{best.measured:.2f} (predicted {best.predicted:.2f})",
        "S_inflection between batch 32 and 128, gamma 3": (
            f"{_inflection(cells):.0f} tokens (predicted {_predicted_inflection():.0f})"
        ),
    }
    return "\n".join(table(["figure", "measured"], rows.items(), text_columns=(0, 1))) + "\n"


def h200_draft_step() -> str:
    """Where the time of the draft step at batch 32 goes, by the constants of the kernels."""
    measured = _of(_cells("gpu-inflection"), "draft_s", 32, 2048).measured
    step = whatif(
        "llama-3.1-8b", "h200", 32, 2048, 3, draft_kv="streamingllm:512", alpha=0.8, calibration=MICRO
    ).draft_step
    terms = {LIMITERS[name]: seconds for name, seconds in step.terms_s.items() if seconds}
    rows = [
        ["lower bound from the data sheet", step.lower_s],
        *([f"predicted: {name}", seconds] for name, seconds in terms.items()),
        ["predicted", step.predicted_s],
        ["measured", measured],
    ]
    lines = [[name, f"{1e3 * seconds:.2f}", f"{seconds / step.lower_s:.2f}"] for name, seconds in rows]
    return "\n".join(table(["draft step", "ms", "divided by the lower bound"], lines)) + "\n"


def h200_paper() -> str:
    """The points that should show the paper's headline: predicted from kernels, and measured where a record
    has them.
    """
    rows = []
    for name in ("gpu-paper", "gpu-paper-fp8"):
        plan = load_plan(name)
        measured = {
            cell.point.row_id: cell.measured
            for record in _records(name)
            for cell in compare_record(record, load_calibration(MICRO))
            if cell.quantity == "speedup"
        }
        for point in plan.points():
            answer = whatif(
                point.target,
                "h200",
                point.batch,
                point.context,
                point.gamma,
                draft=point.draft,
                draft_kv=point.draft_kv,
                alpha=point.alpha,
                kv_dtype=plan.precision.kv,
                calibration=MICRO,
            )
            rows.append(
                [
                    f"{point.batch} x {point.context // 1024}K",
                    plan.precision.kv,
                    str(point.gamma),
                    f"{point.alpha:g}",
                    f"{answer.speedup:.2f}",
                    f"{measured[point.name]:.2f}" if point.name in measured else "not yet",
                ]
            )
    head = ["batch and context", "cache", "\u03b3", "alpha", "speedup, predicted", "measured"]
    return "\n".join(table(head, rows)) + "\n"


def h200_changes() -> str:
    """Times of the same points before and after a kernel changed; the old records are withdrawn."""
    rows = []
    for what, why, first, last, row, figure in (
        (
            "T_V, tree of 57 nodes, batch 4, context 64K",
            BLOCKS,
            "trees",
            "trees",
            "b4/s65536/g4/t8x2x1x1",
            "verify_s",
        ),
        (
            "T_V, tree of 21 nodes, batch 4, context 64K",
            BLOCKS,
            "trees",
            "trees",
            "b4/s65536/g3/t4x2x1",
            "verify_s",
        ),
        (
            "T_D, `quest:2048`, batch 4, context 32K",
            SEARCH,
            "headline",
            "quest",
            "quest:2048/b4/s32768",
            "draft_s",
        ),
        (
            "T_D, fp8 weights, batch 24, context 32K",
            PRODUCT,
            "headline-fp8",
            "headline-fp8",
            "streamingllm:512/b24",
            "draft_s",
        ),
    ):
        times = [
            next(
                1e3 * cell.measured
                for cell in compare_record(read_record(path), load_calibration(MICRO))
                if row in cell.point.row_id and cell.quantity == figure
            )
            for path in (
                next(FOLDER.glob(f"*-c801c9e0-gpu-{first}.json")),
                next(FOLDER.glob(f"*-f66ff6fd-gpu-{last}.json")),
            )
        ]
        rows.append([what, *(f"{ms:.2f}" for ms in times), why])
    return "\n".join(table(["time", "before, ms", "now, ms", "change"], rows, text_columns=(0, 3))) + "\n"


def _copy_bytes_per_s() -> float:
    """Rate of the largest timed copy."""
    (path,) = FOLDER.glob("*-gpu-headline-micro.json")
    copies = [row for row in json.loads(path.read_text(encoding="utf-8"))["points"] if row["kind"] == "copy"]
    largest = max(copies, key=lambda row: row["at"]["bytes"])
    return float(largest["at"]["bytes"] / median(largest["samples"]["call_s"]))


def _of(cells: list[Cell], quantity: str, batch: int, context: int) -> Cell:
    return next(
        cell
        for cell in cells
        if (cell.quantity, cell.point.batch, cell.point.asked_context) == (quantity, batch, context)
    )


def _times(record: Record) -> dict[tuple[str, str], float]:
    """Median seconds of the passes and loops of every row."""
    return {
        (row.key, name): median(values)
        for row in record.rows
        for name, values in row.samples.items()
        if not name.endswith(("accept_s", "commit_s"))
    }


def _inflection(cells: list[Cell]) -> float:
    """The context at which batch 128 gains as much as batch 32, between the measured ones."""
    gain = {
        (cell.point.batch, cell.point.asked_context): cell.measured
        for cell in cells
        if cell.quantity == "speedup"
    }
    contexts = sorted({context for batch, context in gain if batch == 128})
    return float(np.interp(0.0, [gain[128, context] - gain[32, context] for context in contexts], contexts))


def _predicted_inflection() -> float:
    point = {"batch": 32, "context": 2048, "gamma": 3, "alpha": 0.8, "draft_kv": "streamingllm:512"}
    asked = Query("llama-3.1-8b", "h200", calibration=MICRO, **point)
    return inflection_context(resolve(asked), 3, (32.0, 128.0)) or 0.0


def h200_attention() -> str:
    """Milliseconds of one layer's attention over the cache, by implementation."""
    rows = [json.loads(line) for line in (FOLDER / "attention.json").read_text(encoding="utf-8").splitlines()]
    timed = [row for row in rows if "queries" in row]
    counts = sorted({row["queries"] for row in timed})
    cells = {
        (row["batch"], row["context"], row["implementation"], row["queries"]): row["call_s"] for row in timed
    }
    lines = [
        [
            f"{batch} x {context // 1024}K",
            f"`{name}`",
            *(f"{1e3 * cells[batch, context, name, n]:.3f}" for n in counts),
        ]
        for batch, context, name in dict.fromkeys(key[:3] for key in cells)
    ]
    return (
        "\n".join(table(["cache", "kernel", *(f"n = {n}" for n in counts)], lines, text_columns=(0, 1)))
        + "\n"
    )
