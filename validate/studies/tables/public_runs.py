"""Tables of public runs: errors on sources that were left out, coverage of intervals, and choices."""

from typing import Any

from perfmodel.validate.studies.tables.cells import IN_INTERVAL, Record, Rows, figures, percent

FIGURE_HEADINGS = {"step": "step", "ratio": "iteration over step", "speedup": "speedup"}
"""Figure of a public run -> its heading."""
OF_STEPS = ("device", "model", "new", "data")
"""Beginnings of the names of groups that are shown only for steps."""
CLASS_HEADINGS = {
    "step own": "step, device with measured kernels or steps",
    "step borrowed": "step, kernels of another device",
    "step llamacpp": "step, llama.cpp",
    "step other_engine": "step, constants of another engine",
    "step mlx": "step, MLX",
    "speedup known": "speedup, kind of draft measured in the engine",
    "speedup new": "speedup, kind of draft never measured in the engine",
    "speedup llamacpp": "speedup, llama.cpp",
    "speedup other_engine": "speedup, constants of another engine",
    "speedup mlx": "speedup, MLX's own kernels",
    "speedup mlx-dspark": "speedup, mlx-dspark",
}
"""Figure and class of questions -> heading."""


def sources(record: Record, by_draft: bool = False) -> Rows:
    """The main table: the errors on sources that were left out of the fit, by the groups of `run_groups`.

    - by_draft: whether the table has only the groups by draft; otherwise it has only the other groups.
    """
    yield [
        *("whole sources left out", "rows", "sources", "mean error %", "of sources %", "as shipped %"),
        *(f"{IN_INTERVAL} %", f"{IN_INTERVAL}, as shipped %", "half-width % (median)", "worst source %"),
    ]
    names = "rows", "sources", "error", "macro", "shipped", "inside", "inside_shipped", "width"
    for figure, heading in FIGURE_HEADINGS.items():
        for name, errors in record["sources"][figure].items():
            if name.startswith("draft") != by_draft or not _is_shown(figure, name):
                continue
            worst = errors["worst"]
            worst_source = f"{percent(worst['error'], 0)} ({worst['source']})"
            yield [f"{heading}, {name}", *figures(errors, *names, digits=0), worst_source]


def _is_shown(figure: str, part: str) -> bool:
    """Whether a group of a figure has its own row in the table."""
    return figure == "step" or not part.startswith(OF_STEPS)


def coverage(record: Record) -> Rows:
    """The coverage of intervals by class of questions. The intervals of a source have a width that was fitted
    without the source.
    """
    yield [
        *("class", "rows", "sources", "mean error %", "half-width %", "half-width over error"),
        *(f"{IN_INTERVAL} %", "of sources %"),
        *("rows, including excluded rows", f"{IN_INTERVAL}, including excluded rows %"),
    ]
    for figure, classes in record["sources"]["coverage"].items():
        for name, covered in classes.items():
            heading = CLASS_HEADINGS[f"{figure} {name}"]
            errors = figures(covered, "rows", "sources", "error", "width", digits=0)
            inside = figures(covered, "inside", "inside_sources", "all_rows", "inside_all", digits=0)
            yield [heading, *errors, f"{covered['ratio']:.1f}", *inside]


def chances(record: Record) -> Rows:
    """The stated chances that speculation pays off, compared with measured speedups, by ranges of chances."""
    yield ["chance above 1 %", "rows", "sources", "stated chance % (mean)", "measured above 1 %"]
    for counts in record["sources"]["chances"]:
        limits = f"{percent(counts['least'], 0)} to {percent(counts['most'], 0)}"
        yield [limits, *figures(counts, "rows", "sources", "stated", "above_one", digits=0)]


def choices(record: Record) -> Rows:
    """The choices that were made by hand when the errors of some sources were known."""
    yield ["choice", "value"]
    chosen = record["sources"]["choices"]
    yield ["sources whose errors were known", ", ".join(chosen["sources"])]
    for name, value in chosen["choices"].items():
        yield [name.replace("_", " "), _in_words(value)]


def _in_words(value: Any) -> str:
    """A choice as the text of one cell."""
    if isinstance(value, dict) and any(isinstance(each, dict) for each in value.values()):
        return "; ".join(f"{key}: {_in_words(each)}" for key, each in value.items())
    if isinstance(value, dict):
        return ", ".join(f"{key} {_in_words(each)}" for key, each in value.items())
    if isinstance(value, list):
        are_names = not value or isinstance(value[0], str)
        return ", ".join(value) if are_names else " ".join(map(_in_words, value))
    return f"{value:g}"
