"""Trees as they are written down: by their parents, by children a level, and as the best of a size."""

import pytest

from perfmodel.speculation.tree import TreeAcceptance
from perfmodel.speculation.tree_shape import branching, check_parents, depths, sequoia, sequoia_nodes, widths
from tests.refusals import refused

TREE = (-1, 0, 0, 1, 1, 2, 3)
"""A root with two children; the first has two of its own, the second one; one grandchild has a child."""


def test_depths_and_widths() -> None:
    assert depths(TREE) == [0, 1, 1, 2, 2, 2, 3]
    assert widths(TREE) == (1, 2, 3, 1)
    assert depths((-1,)) == [0]
    assert widths((-1,)) == (1,)


@pytest.mark.parametrize("parents", [TREE, (-1, 0), (-1, 0, 1, 2), (-1, *[0] * 1023)])
def test_parents_in_level_order_are_a_tree(parents: tuple[int, ...]) -> None:
    check_parents(parents)


NO_TREES = [
    (),
    (-1,),
    (0, 0),
    (-1, 0, 1, 0),
    (-1, 1),
    (-1, -1),
    (-1, 0, 2),
    (-2, 0),
    (-1, *[0] * 1024),
]


@pytest.mark.parametrize("parents", NO_TREES)
def test_other_parents_are_no_tree(parents: tuple[int, ...]) -> None:
    refused("tree: must be the parents of 2 to 1024 nodes", check_parents, parents)


def test_the_best_tree_is_asked_for_by_its_nodes() -> None:
    assert sequoia_nodes("sequoia:2") == 2
    assert sequoia_nodes("sequoia:1024") == 1024
    assert sequoia_nodes("4x2") is None
    for text in ("sequoia:1", "sequoia:1025", "sequoia:", "sequoia:-3", "sequoia"):
        refused("--tree: must be sequoia:NODES with 2 to 1024 nodes", sequoia_nodes, text)


def test_children_by_level() -> None:
    """Two children, then three each; a chain of three; 63 levels below the root are the most, as 1024 nodes
    are.
    """
    assert branching("2x3") == (-1, 0, 0, 1, 1, 1, 2, 2, 2)
    assert branching("1x1x1") == (-1, 0, 1, 2)
    assert len(branching("1023")) == 1024
    assert len(branching("x".join("1" * 63))) == 64
    for text in ("1024", "x".join("1" * 64), "2x0", "2xx2", "", "a", "-1"):
        refused("children by level as in 4x2x1, 1024 nodes and 64 levels at most", branching, text)


def test_the_best_tree_of_some_nodes() -> None:
    """Rates of 0.6 and 0.3: of three nodes a chain (1 + 0.6 + 0.36) beats two children (1.9), on three
    levels.
    """
    rates = TreeAcceptance.of([0.6, 0.3])
    assert sequoia(3, 9, rates) == (-1, 0, 1)
    assert sequoia(3, 2, rates) == (-1, 0, 0)
    assert sequoia(2, 2, rates) == (-1, 0)
    refused("an accepted child", sequoia, 4, 3, TreeAcceptance.of([0.0, 0.0]))
    refused(r"of 1 to .* children", TreeAcceptance.of, [[0.6, 0.3]])
