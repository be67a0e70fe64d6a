"""Numbers as they are typed, on the command line and in Python."""

import contextlib
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfmodel.errors import InputError
from perfmodel.parse import (
    MAX_VALUES,
    parse_count,
    parse_counts,
    parse_gamma,
    parse_gammas,
    parse_methods,
    parse_names,
    parse_numbers,
    parse_span,
    parse_switch,
    parse_text,
)
from tests.refusals import refused


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8", (8,)),
        ("32k", (32768,)),
        ("32K", (32768,)),
        ("1m", (1048576,)),
        ("32000", (32000,)),
        ("32_000", (32000,)),
        ("1_000_000", (1_000_000,)),
        ("1e5", (100_000,)),
        ("1.5e3", (1500,)),
        ("1.001e3", (1001,)),
        ("1e3..3e3+1_000", (1000, 2000, 3000)),
        ("1,8,64", (1, 8, 64)),
        (" 4k , 32k ", (4096, 32768)),
        ("1..4", (1, 2, 3, 4)),
        ("1..3+1", (1, 2, 3)),
        ("1000..3000+1000", (1000, 2000, 3000)),
        ("1..16x2", (1, 2, 4, 8, 16)),
        ("1..20x3", (1, 3, 9)),
        ("4k..16kx2,20k", (4096, 8192, 16384, 20480)),
        ("5..5", (5,)),
        ("1.5k", (1536,)),
        ("1.6k", (1638,)),  # the nearest whole number
    ],
)
def test_counts(text: str, expected: tuple[int, ...]) -> None:
    assert parse_counts(text, "--batch") == expected


NONSENSE = "x 0 -1 nan inf 1e 1e-3 1e16 1e3k 1.5 k 8kk 1,,2 1, ٣ 0x10 1__000 _1 1_"
RANGES = [
    "4..2",
    "0..4",
    "1..",
    "..4",
    "1..4..8",
    "1..8+0",
    "1..8x1",
    "1..8x0",
    "1..8x-2",
    "1..nan",
    f"1..{10**9}",
]


@pytest.mark.parametrize("text", ["", " ", "8 4", *NONSENSE.split(), *RANGES, "9" * 400])
def test_nonsense_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InputError, match=r"^--context: must be ") as caught:
        parse_counts(text, "--context")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("given", [10**15 + 1, 1e308, 10**400, "2e15", "1000000000m"])
def test_a_number_that_no_float_holds_exactly_is_refused(given: float | str) -> None:
    with pytest.raises(InputError, match="--batch: must be "):
        parse_count(given, "--batch")
    assert parse_count(10**15, "--batch") == parse_count("1e15", "--batch") == 10**15


def test_too_many_values_are_refused() -> None:
    assert len(parse_counts(f"1..{MAX_VALUES}", "--batch")) == MAX_VALUES
    refused("at most", parse_counts, f"1..{MAX_VALUES},1", "--batch")
    refused("range of at most 1000000 values", parse_counts, f"1..{MAX_VALUES + 1}", "--batch")


@given(st.integers(1, 10**15 - 1), st.sampled_from([("", 1), ("k", 1024), ("m", 1048576)]))
def test_bare_integers_are_exact_and_suffixes_binary(number: int, suffix: tuple[str, int]) -> None:
    number //= suffix[1]
    thousands = number or 1
    assert parse_counts(f"{thousands}{suffix[0]}", "--context") == (thousands * suffix[1],)


@given(st.text(max_size=12))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        assert all(value >= 1 for value in parse_counts(text, "--batch"))


def test_what_python_gives() -> None:
    """Numbers as they are, a path as its text; lists only where several are meant; no true or false for a
    number.
    """
    assert parse_count(8.0, "--tp") == parse_count(np.int64(8), "--tp") == 8
    assert parse_text(Path("a/b"), "--model") == "a/b"
    gammas = [parse_gamma(each, "--gamma") for each in (None, " Auto ", 0, "3")]
    assert gammas == [None, None, 0, 3]
    assert [parse_switch(each, "--x") for each in (True, False)] == [True, False]
    for junk in (True, math.nan, math.inf, 10**400, [8], 0, 1.5):
        refused("--tp: must be a positive whole number", parse_count, junk, "--tp")
    refused(
        "--tp: must be one value here, given 2; `perfmodel sweep` takes lists", parse_count, [1, 2], "--tp"
    )
    refused("--x: must be True or False, given 1", parse_switch, 1, "--x")


def test_other_lists() -> None:
    assert parse_gammas("0,2,auto") == (0, 2, None)
    assert parse_gammas("0..3") == (0, 1, 2, 3)
    assert parse_gammas("AUTO") == (None,)
    assert parse_numbers("0.8,.9", "--alpha") == (0.8, 0.9)
    assert parse_numbers("80%, 75.5 %,1e-1", "--alpha") == pytest.approx((0.8, 0.755, 0.1), rel=1e-12)
    assert parse_names("a100, h100", "--hardware") == ("a100", "h100")
    assert parse_span("32..256", "--batch-range") == parse_span("32,256", "--batch-range") == (32.0, 256.0)
    methods = ("quest:1k,page=16", "snapkv:2k,window=8,kernel=3", "full")
    assert parse_methods(",".join(methods)) == methods


@pytest.mark.parametrize(
    ("parse", "flag", "texts"),
    [
        (lambda text, _: parse_gammas(text), "--gamma", ("-1", "two", "1.5", "auto2", "")),
        (parse_numbers, "--alpha", ("nan", "inf", "-inf", "x", "0.8,", "")),
        (parse_span, "--batch-range", ("32", "1..2..3", "a..b", "256..32", "32..32", "")),
        (parse_names, "--model", ("", "a,,b")),
        (lambda text, _: parse_methods(text), "--draft-kv", ("", "a,,b")),
    ],
)
def test_a_list_that_is_none_is_refused(parse, flag: str, texts: tuple[str, ...]) -> None:
    for text in texts:
        refused(flag, parse, text, flag)
