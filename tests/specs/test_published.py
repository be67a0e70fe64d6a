"""The published sets load, say what the sources say, and a row that contradicts itself is refused by name."""

import csv
from pathlib import Path

import pytest

from perfmodel.errors import InputError
from perfmodel.specs import PACKAGE
from perfmodel.specs.published import ROW_TYPES, GptFastRow, MagicDecRow, published_points, published_rows, read_rows

PUBLISHED = PACKAGE / "results" / "published"
COUNTS = {"magicdec": 59, "gamma_optimal": 11, "gptfast_decode": 32, "speculation_other": 24}


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_set_is_complete_and_sourced(name: str, count: int) -> None:
    points = published_points(name)
    assert len(points) == count
    assert len({p.row_id for p in points}) == count
    assert all(len(p.source) >= 8 and p.set_name == name for p in points)


def test_every_set_has_a_file_a_loader_and_a_count() -> None:
    assert set(ROW_TYPES) == set(COUNTS)
    assert set(COUNTS) <= {path.stem for path in PUBLISHED.glob("*.csv")}
    assert len(published_points()) == sum(COUNTS.values())


def test_the_readme_row_in_seconds() -> None:
    """Llama-3.1-8B, 8 x A100, B=64, S=32000, gamma=2 (Table 3c): 2.45 x 21.03 - 19.08 - 30.86 = 1.58 ms of overhead."""
    (point,) = (
        p
        for p in published_points("magicdec")
        if (p.hardware, p.target, p.batch, p.context) == ("a100-sxm-80gb", "llama-3.1-8b", 64, 32000)
    )
    assert (point.tp, point.draft, point.draft_kv, point.gamma) == (8, "self", "streamingllm:512", 2)
    assert point.draft_s == pytest.approx(9.54e-3)
    assert point.verify_s == pytest.approx(30.86e-3)
    assert point.target_s == point.ar_tpot_s == pytest.approx(26.99e-3)
    assert point.overhead_s == pytest.approx(1.5835e-3)
    assert (point.tokens_per_iteration, point.speedup) == (2.45, 1.28)


def test_overheads_are_what_the_tables_imply() -> None:
    """1.3 to 2.7 ms on A100 and 0.57 to 0.89 ms on H100, over all rows."""
    overheads = {"a100-sxm-80gb": (1.29, 2.75), "h100-sxm-80gb": (0.565, 0.895)}
    for point in published_points("magicdec"):
        low, high = overheads[point.hardware]
        assert point.overhead_s is not None
        assert low <= point.overhead_s * 1e3 <= high, point.row_id


def test_the_assumed_budget_is_said() -> None:
    assumed = [row for row in published_rows("magicdec") if isinstance(row, MagicDecRow) and row.kv_budget_assumed]
    assert [row.draft for row in assumed] == ["llama-3.2-1b"] * 4
    assert all(row.kv_budget_tokens == 512 and "assumption" in row.notes for row in assumed)
    assert all(isinstance(row, MagicDecRow) for row in published_rows("magicdec"))


def test_gptfast_rows_say_the_power_limit_and_map_to_weight_formats() -> None:
    points = published_points("gptfast_decode")
    assert {p.weights for p in points} == {"bf16", "int8-wo,lm_head=int8-wo", "int4-g32,lm_head=int4-g32"}
    assert {(p.hardware, p.batch, p.context) for p in points} == {("a100-sxm-80gb", 1, 105)}
    assert all("330 W" in p.notes and p.speedup is None and p.draft is None for p in points)


def test_the_tree_rows_leave_a_plausible_verification() -> None:
    """Sequoia, C4, T=0: 5.08 x 24.2 / 4.04 - 9 x 0.5 = 25.93 ms for 128 tokens, against 24.2 ms for one."""
    first = published_points("speculation_other")[0]
    assert first.tree == (128, 10)
    assert first.gamma is None
    assert first.context == 192
    assert first.tokens_per_iteration is not None
    assert first.sd_tpot_s is not None
    assert first.tokens_per_iteration * first.sd_tpot_s - 9 * 0.5e-3 == pytest.approx(25.93e-3, rel=1e-3)


def spoil(tmp_path: Path, name: str, row: int, **cells: str) -> Path:
    """A copy of a bundled set with some cells of one row (counted from 0) replaced."""
    with (PUBLISHED / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    rows[row] |= cells
    path = tmp_path / f"{name}.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize(
    ("name", "cells", "column"),
    [
        ("magicdec", {"source": ""}, "source"),
        ("magicdec", {"source": " " * 12}, "source"),
        ("magicdec", {"gamma": "0"}, "gamma"),
        ("magicdec", {"gamma": "1"}, "tokens_per_iteration"),  # 2.19 tokens from one drafted
        ("magicdec", {"verify_ms": "9.55 ms"}, "verify_ms"),
        ("magicdec", {"verify_ms": "nan"}, "verify_ms"),
        ("magicdec", {"verify_ms": "-1"}, "verify_ms"),
        ("magicdec", {"verify_ms": "0.00955"}, "sd_tpot_ms"),  # seconds among milliseconds
        ("magicdec", {"verify_ms": "12.00"}, "sd_tpot_ms"),  # the phases exceed the whole
        ("magicdec", {"speedup": "0.97"}, "speedup"),
        ("magicdec", {"batch": "32.5"}, "batch"),
        ("magicdec", {"kv_budget_tokens": ""}, "kv_budget_tokens"),
        ("magicdec", {"weights": "bf17"}, "weights"),
        ("magicdec", {"hardware": "A100 SXM"}, "hardware"),
        ("gamma_optimal", {"alpha": "1.2"}, "alpha"),
        ("gamma_optimal", {"speedup": "4.5"}, "speedup"),
        ("gptfast_decode", {"step_ms": "9.6"}, "step_ms"),
        ("gptfast_decode", {"power_limit_w": ""}, "power_limit_w"),
        ("speculation_other", {"speedup": "5.0"}, "speedup"),
        ("speculation_other", {"tree_levels": "5"}, "tokens_per_iteration"),
        ("speculation_other", {"tree_levels": "129"}, "tree_levels"),
    ],
)
def test_a_spoilt_row_is_refused_by_file_line_and_column(
    tmp_path: Path, name: str, cells: dict[str, str], column: str
) -> None:
    path = spoil(tmp_path, name, 0, **cells)
    with pytest.raises(InputError) as caught:
        read_rows(path, ROW_TYPES[name])
    message = str(caught.value)
    assert message.startswith(f"{path}: line 2 (row ")
    assert f"): {column}: " in message
    assert "\n" not in message


def test_the_h100_overhead_limit_is_tighter(tmp_path: Path) -> None:
    read_rows(spoil(tmp_path, "magicdec", 58, notes="unchanged"), MagicDecRow)
    path = spoil(tmp_path, "magicdec", 58, verify_ms="31.00")  # 1.38 ms of overhead
    with pytest.raises(InputError, match=r"line 60 .*sd_tpot_ms: .* 0 to 1\.2 ms on h100-sxm-80gb"):
        read_rows(path, MagicDecRow)


def test_an_id_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 3: id: .*given 'gptfast-01' again"):
        read_rows(spoil(tmp_path, "gptfast_decode", 1, id="gptfast-01"), GptFastRow)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,source\n", "missing .*step_ms"),
        ("", "line 1: must have each of the columns"),
        (",".join(GptFastRow.model_fields) + "\n", "at least one row"),
        (",".join(GptFastRow.model_fields) + ",bandwidth\n", "unknown bandwidth"),
        (",".join(GptFastRow.model_fields) + "\na,b\n", r"line 2 \(row a\): must have one cell"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_rows(path, GptFastRow)


def test_unknown_set_and_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean magicdec"):
        published_rows("magicdeck")
    with pytest.raises(InputError, match="readable file"):
        read_rows(tmp_path / "none.csv", GptFastRow)
