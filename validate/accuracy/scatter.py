"""Predicted against measured as a scatter, and the errors over the context, in one picture."""

from pathlib import Path

from perfmodel.validate.accuracy.compare import Cell

SHOWN = ("target_s", "draft_s", "verify_s", "speedup")


def draw(cells: list[Cell], where: Path) -> None:
    """Write the picture; the file's suffix names its format."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for quantity in SHOWN:
        part = [c for c in cells if c.quantity == quantity]
        if not part:
            continue
        if quantity != "speedup":
            left.loglog([c.measured * 1e3 for c in part], [c.predicted * 1e3 for c in part], ".", label=quantity)
        right.semilogx([c.context for c in part], [100 * c.error for c in part], ".", label=quantity)
    ends = left.get_xlim()
    left.plot(ends, ends, color="grey", linewidth=0.8)
    left.set(xlabel="measured, ms", ylabel="predicted, ms", title="Times")
    left.legend(fontsize=7)
    right.axhline(0, color="grey", linewidth=0.8)
    right.set(xlabel="cached tokens per sequence", ylabel="error, %", title="Errors")
    right.legend(fontsize=7)
    figure.savefig(where, dpi=120)
    pyplot.close(figure)
