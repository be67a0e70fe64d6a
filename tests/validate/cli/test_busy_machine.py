"""The warning before a measurement on a machine that other processes use."""

import pytest

from perfmodel.validate.cli.timing import busy_warning


@pytest.mark.parametrize(
    ("busy", "threads", "effect"),
    [
        (0.16, 2, "the times will be of them too"),
        (0.6, None, "the times will be of them too"),
        (0.6, 1, "the clock leaves their turns out"),
    ],
)
def test_a_busy_machine_is_told_with_what_it_does_to_the_times(
    busy: float, threads: int | None, effect: str
) -> None:
    assert busy_warning(busy, threads) == f"WARNING: other processes use {busy:.0%} of the CPUs: {effect}"


@pytest.mark.parametrize("busy", [0.0, 0.14])
def test_a_machine_that_is_nearly_idle_gives_no_warning(busy: float) -> None:
    assert busy_warning(busy, 2) is None
