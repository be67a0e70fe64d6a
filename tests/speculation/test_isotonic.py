"""Isotonic regression."""

from perfmodel.speculation.isotonic import pooled


def test_a_pooled_block_falls_below_the_one_before_and_takes_it_too() -> None:
    """4 and -1 have a mean of 1.5, below the 3 before, so all three are one block; the last 4 stays."""
    assert pooled([3.0, 4.0, -1.0, 4.0], [1.0, 1.0, 1.0, 2.0]) == [(2.0, 3.0, 3), (4.0, 2.0, 1)]
