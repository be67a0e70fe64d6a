"""Numbers as they are typed, on the command line and in Python."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.errors import InputError
from perfmodel.parse import (
    MAX_VALUES,
    parse_count,
    parse_counts,
    parse_gammas,
    parse_methods,
    parse_names,
    parse_numbers,
    parse_span,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8", (8,)),
        ("32k", (32768,)),
        ("32K", (32768,)),
        ("1m", (1048576,)),
        ("1.5k", (1536,)),
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
        ("1000..3000+1000", (1000, 2000, 3000)),
        ("1..16x2", (1, 2, 4, 8, 16)),
        ("1..20x3", (1, 3, 9)),
        ("4k..16kx2,20k", (4096, 8192, 16384, 20480)),
        ("5..5", (5,)),
    ],
)
def test_counts(text: str, expected: tuple[int, ...]) -> None:
    assert parse_counts(text, "--batch") == expected


NONSENSE = "x 0 -1 nan inf 1e 1e-3 1e16 1e3k 1.5 0.3k k 8kk 1,,2 1, ٣ 0x10 1__000 _1 1_"
RANGES = ["4..2", "0..4", "1..", "..4", "1..4..8", "1..8+0", "1..8x1", "1..8x0", "1..8x-2", "1..nan", f"1..{10**9}"]


@pytest.mark.parametrize("text", ["", " ", "8 4", *NONSENSE.split(), *RANGES, "9" * 400])
def test_nonsense_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InputError, match=r"^--context: must be ") as caught:
        parse_counts(text, "--context")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_too_many_values_are_refused() -> None:
    assert len(parse_counts(f"1..{MAX_VALUES}", "--batch")) == MAX_VALUES
    with pytest.raises(InputError, match="at most"):
        parse_counts(f"1..{MAX_VALUES},1", "--batch")


@given(st.integers(1, 10**15 - 1))
def test_bare_integers_are_exact(number: int) -> None:
    assert parse_count(str(number), "--context") == number


@given(st.integers(1, 10**6), st.sampled_from([("k", 1024), ("m", 1048576)]))
def test_suffixes_are_binary(number: int, suffix: tuple[str, int]) -> None:
    assert parse_count(f"{number}{suffix[0]}", "--context") == number * suffix[1]


@given(st.text(max_size=12))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        assert all(value >= 1 for value in parse_counts(text, "--batch"))


def test_gammas() -> None:
    assert parse_gammas("0,2,auto") == (0, 2, None)
    assert parse_gammas("0..3") == (0, 1, 2, 3)
    assert parse_gammas("AUTO") == (None,)
    for text in ("-1", "two", "1.5", "auto2", ""):
        with pytest.raises(InputError, match="--gamma"):
            parse_gammas(text)


def test_other_lists() -> None:
    assert parse_numbers("0.8,.9", "--alpha") == (0.8, 0.9)
    assert parse_names("a100, h100", "--hardware") == ("a100", "h100")
    assert parse_span("32..256", "--batch-range") == parse_span("32,256", "--batch-range") == (32.0, 256.0)
    assert parse_methods("quest:1k,page=16,snapkv:2k,window=8,kernel=3,full") == (
        "quest:1k,page=16",
        "snapkv:2k,window=8,kernel=3",
        "full",
    )
    for text in ("nan", "inf", "-inf", "x", "0.8,", ""):
        with pytest.raises(InputError, match="--alpha"):
            parse_numbers(text, "--alpha")
    for text in ("32", "1..2..3", "a..b", ""):
        with pytest.raises(InputError, match="--batch-range"):
            parse_span(text, "--batch-range")
    for text in ("", "a,,b"):
        with pytest.raises(InputError):
            parse_names(text, "--model")
        with pytest.raises(InputError):
            parse_methods(text)


@pytest.mark.parametrize(("text", "expected"), [("80%", (0.8,)), ("0.8, 75.5 %", (0.8, 0.755)), ("1e-1", (0.1,))])
def test_shares_may_be_percent(text: str, expected: tuple[float, ...]) -> None:
    assert parse_numbers(text, "--alpha") == pytest.approx(expected, rel=1e-12)
