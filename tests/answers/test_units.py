"""Numbers are written with units that begin at their own number."""

import pytest

from perfmodel.answers import text


@pytest.mark.parametrize(
    ("written", "least"),
    [
        (text.size, {"kB": 3, "MB": 6, "GB": 9, "TB": 12, "PB": 15, "EB": 18}),
        (text.count, {"k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}),
    ],
)
def test_units_begin_at_their_own_number(written, least: dict[str, int]) -> None:
    for unit, power in least.items():
        assert written(10.0**power) == f"1.0 {unit}"
        assert not written(0.99 * 10.0**power).endswith(f" {unit}")


@pytest.mark.parametrize(
    ("written", "number", "said"),
    [
        (text.seconds, None, "unknown"),
        (text.seconds, 4e-8, "0.04 us"),
        (text.seconds, 9.96e-5, "100 us"),
        (text.seconds, 9e-4, "900 us"),
        (text.seconds, 9.996e-4, "1.0 ms"),
        (text.seconds, 0.0123, "12 ms"),
        (text.seconds, 0.9, "900 ms"),
        (text.seconds, 1.0, "1.0 s"),
        (text.seconds, 1000.0, "1,000 s"),
        (text.tokens, None, "none"),
        (text.tokens, 2.0, "2"),
        (text.tokens, 2.1, "3"),
        (text.tokens, 12345.0, "12,345"),
        (text.clients, 1, "1 client"),
        (text.clients, 2, "2 clients"),
    ],
)
def test_a_number_is_written_with_its_unit(written, number, said: str) -> None:
    assert written(number) == said


@pytest.mark.parametrize(("count", "said"), [(1, "x"), (2, "2 x x")])
def test_one_device_is_not_counted(count: int, said: str) -> None:
    assert text.devices("x", count) == said
