"""Measured acceptance: the published rows, a user's file, and what is refused."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from perfmodel.errors import InputError
from perfmodel.specs import AcceptanceRow, find_acceptance
from perfmodel.specs.acceptance.acceptance_file import read_acceptance
from perfmodel.specs.acceptance.acceptance_rows import positions_from_histogram, published_rows
from perfmodel.specs.published import published_points
from perfmodel.speculation import Acceptance
from perfmodel.speculation.acceptance import alpha_from_tokens_per_iteration
from tests.refusals import refused

SUBJECT = ("llama-3.1-8b", "self", "streamingllm", 512)
ROW = {"target": "t", "draft": "self", "draft_kv": "snapkv", "kv_budget_tokens": 2049, "context_tokens": 1000}


def write(folder, rows, name="rows.json", **head):
    path = folder / name
    path.write_text(json.dumps({"schema_version": 1, "source": "a measurement", "rows": rows} | head))
    return path


def test_a_measured_context_is_the_row_itself_and_between_two_alpha_is_linear_in_the_logarithm():
    for context, alpha in ((4000, 0.84), (32_000, 0.81), (100_000, 0.79)):
        row = find_acceptance(*SUBJECT, context)
        assert row in published_rows()
        assert row.alpha == alpha
    row = find_acceptance(*SUBJECT, 32_768)
    share = math.log(32_768 / 32_000) / math.log(2)
    assert row.alpha == pytest.approx(0.81 - 0.02 * share, rel=1e-12)
    assert row.context_tokens == 32_768
    assert "interpolated in log context between 32000 and 64000 tokens" in row.source
    assert row.source.startswith("MagicDec")
    between = math.sqrt(8000 * 16_000)
    assert find_acceptance(*SUBJECT, between).alpha == pytest.approx(0.825)


def test_rows_from_tokens_per_iteration_are_the_means_of_the_points_of_their_table():
    rows = [row for row in published_rows() if "from tokens per iteration" in row.source]
    assert {row.target for row in rows} == {"llama-2-7b-32k", "llama-3.1-8b"}
    for row in rows:
        method = f"{row.draft_kv}:{row.kv_budget_tokens}"
        alphas = [
            alpha_from_tokens_per_iteration(point.tokens_per_iteration, point.gamma)
            for point in published_points("magicdec")
            if row.source.startswith(point.source)
            and (point.target, point.draft, point.draft_kv) == (row.target, row.draft, method)
            and point.context == row.context_tokens
        ]
        assert row.alpha == pytest.approx(np.mean(alphas), abs=6e-4), row


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ((*SUBJECT, 3999.0), "measured at 4000 to 100000 tokens, given 3999"),
        ((*SUBJECT, 128_000.0), "measured at 4000 to 100000 tokens"),
        ((*SUBJECT, math.nan), "given nan"),
        (("llama-3.1-8b", "self", "streamingllm", 511, 8000.0), "no acceptance is known for"),
        (("llama-3.1-8b", "self", "snapkv", 512, 8000.0), "snapkv:512"),
        (("llama-3.1-70b", "self", "streamingllm", 512, 8000.0), "llama-3.1-70b"),
        (("llama-3.1-8b", "llama-3.2-1b", "full", None, 8000.0), "draft llama-3.2-1b, full;"),
    ],
)
def test_no_nearest_neighbour_and_no_extrapolation(question, says):
    with pytest.raises(InputError) as refusal:
        find_acceptance(*question)
    assert says in str(refusal.value)
    assert "--acceptance FILE" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_longer_context_has_the_last_row_with_a_spread_where_that_is_allowed():
    row = find_acceptance(*SUBJECT, 400_000, doublings=2.0)
    assert (row.alpha, row.measured_context) == (0.79, 100_000)
    one_doubling = find_acceptance(*SUBJECT, 200_000, doublings=1.0)
    assert one_doubling.spread == pytest.approx(0.11)
    assert row.spread == pytest.approx(math.sqrt(2) * one_doubling.spread)
    assert "measured at 4000 to 100000 tokens: wider at 400000" in row.source
    refused("given 400001", find_acceptance, *SUBJECT, 400_001, doublings=2.0)
    refused("given 3999", find_acceptance, *SUBJECT, 3999, doublings=2.0)


def test_rows_that_differ_in_kind_have_nothing_between_them() -> None:
    low = AcceptanceRow("s", "a", "self", "full", None, 1e3, None, (0.9,))
    high = replace(low, source="t", context_tokens=4e3)
    middle = find_acceptance("a", "self", "full", None, 2000.0, [high, low])
    assert middle.positions == (0.9,)
    assert middle.alpha is None
    assert middle.source == "s; t (interpolated in log context between 1000 and 4000 tokens)"
    for other in (replace(high, positions=(0.9, 0.8)), replace(high, positions=None, alpha=0.9)):
        refused(
            r"rows at 1000 and 4000 tokens differ .* from s and t$",
            find_acceptance,
            "a",
            "self",
            "full",
            None,
            2000.0,
            [low, other],
        )
        refused(
            r"they are from t$",
            find_acceptance,
            "a",
            "self",
            "full",
            None,
            2000.0,
            [replace(low, source="t"), other],
        )


def test_a_users_file_with_alpha_positions_and_histogram(tmp_path):
    rows = [
        ROW | {"alpha": 0.9},
        ROW | {"context_tokens": 2000, "positions": [0.9, 0.8]},
        ROW | {"context_tokens": 4000, "histogram": [10, 30, 60]},
        ROW | {"draft_kv": "full", "kv_budget_tokens": None, "alpha": 1},
    ]
    rows_read = read_acceptance(write(tmp_path, rows))
    assert [row.alpha for row in rows_read] == [0.9, None, None, 1.0]
    assert rows_read[1].positions == (0.9, 0.8)
    # 90 of 100 accept one, 60 of those 90 a second
    assert rows_read[2].positions == pytest.approx((0.9, 60 / 90))
    assert rows_read[3].kv_budget_tokens is None
    assert all(row.source.startswith("a measurement (") for row in rows_read)
    between = find_acceptance("t", "self", "snapkv", 2049, math.sqrt(2000 * 4000), rows_read)
    assert between.positions == pytest.approx((0.9, (0.8 + 2 / 3) / 2))
    assert Acceptance.from_row(between).max_gamma == 2
    refused(
        r"^--acceptance: .* differ in kind or length, .* from .*rows\.json",
        find_acceptance,
        "t",
        "self",
        "snapkv",
        2049,
        1500,
        rows_read,
    )
    again = write(tmp_path, [ROW | {"alpha": 0.5}, ROW | {"alpha": 0.6}])
    refused(f"^{again}: rows.1: the same target", read_acceptance, again)


def test_histogram_by_hand_and_its_refusals():
    assert positions_from_histogram([50, 25, 25]) == (0.5, 0.5)
    assert positions_from_histogram([1, 0, 0]) == (0.0, 0.0)
    assert positions_from_histogram([0, 4]) == (1.0,)


@pytest.mark.parametrize("bad", [[], [3], [0, 0], [1, -1], [2, -1, -1], [1, math.nan], [1, math.inf]])
def test_a_histogram_that_counts_nothing_is_refused(bad: list[float]) -> None:
    refused("2 or more counts, none negative and not all 0", positions_from_histogram, bad)
