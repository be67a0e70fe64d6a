"""Curves over the rows of a sweep."""

import pytest

from perfmodel import plots
from perfmodel.errors import InputError
from tests.plots.figures import laid_out, legend_of, swept, title_of


def test_curves_show_each_row_of_a_sweep_on_the_line_of_its_other_values() -> None:
    """Times are in milliseconds; the length of drafts is on a linear axis."""
    rows = swept(context="2k,8k", gamma="1..4", batch="8")
    (axes,) = laid_out(plots.curves(rows, "tpot_s", "gamma")).axes
    frame = rows.to_frame()
    for line, context in zip(axes.lines, (2048, 8192), strict=True):
        of_line = frame[frame["context_tokens"] == context]
        assert line.get_xdata().tolist() == [1, 2, 3, 4]
        assert line.get_ydata() == pytest.approx(1e3 * of_line["tpot_s"].to_numpy())
    assert legend_of(axes) == ["context 2k", "context 8k"]
    assert axes.get_xscale() == "linear"
    assert axes.get_title(loc="left") == "time per output token, ms"


def test_a_single_curve_of_the_speedup_has_its_interval_and_the_measured_dots() -> None:
    (axes,) = laid_out(plots.curves(swept(context="2k..128kx2"), measured=[(8192, 1.03)])).axes
    assert legend_of(axes) == ["measured"]
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices
    frame = swept(context="2k..128kx2").to_frame()
    assert corners[:, 1].min() == pytest.approx(frame["speedup_low"].min())
    assert corners[:, 1].max() == pytest.approx(frame["speedup_high"].max())
    assert axes.get_xscale() == "log"


def test_the_title_of_a_curve_says_where_its_speedup_is_smallest_and_largest() -> None:
    rows = swept(context="2k..128kx2")
    low, high = rows.to_frame()["speedup"].agg(["min", "max"])
    title = title_of(plots.curves(rows))
    assert title == f"Speedup from {low:.2f}× at context 2k to {high:.2f}× at context 128k"


def test_the_title_of_curves_over_the_draft_length_says_how_the_best_one_changes() -> None:
    rows = swept(context="2k,128k", gamma="1..8")
    frame = rows.to_frame().set_index("gamma")
    short, long = (frame[frame["context_tokens"] == n]["speedup"].idxmax() for n in (2048, 131072))
    assert title_of(plots.curves(rows, over="gamma")) == (
        f"The best draft length grows from {short} at context 2k to {long} at context 128k"
    )
    same = plots.curves(swept(context="1k,2k", gamma="1..8"), over="gamma")
    assert title_of(same) == "The best draft length is 1 at context 1k and at context 2k"


def test_curves_of_an_unknown_column_are_refused() -> None:
    rows = swept(context="2k,8k")
    with pytest.raises(InputError, match="curves: no column named 'speed'; did you mean speedup"):
        plots.curves(rows, "speed")
    with pytest.raises(InputError, match="curves: must be text, given 3"):
        plots.curves(rows, over=3)  # type: ignore[arg-type]
