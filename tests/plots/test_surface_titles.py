"""The title of a surface says where speculation pays, and is true of the drawn numbers."""

import numpy as np
import pytest

from perfmodel import plots
from perfmodel.answers.question import resolve
from perfmodel.operations import Array
from perfmodel.plots.surface_claim import surface_claim
from perfmodel.speculation import speedups
from tests.plots.figures import ASK, title_of

BATCHES = np.array([1.0, 8.0, 64.0])
CONTEXTS = np.array([1024.0, 8192.0, 65536.0])


EVERYWHERE = [[2.0, 2.0, 2.0], [1.5, 1.5, 1.5], [1.1, 1.1, 1.1]]
SLOPED = [[0.7, 0.8, 1.2], [0.7, 1.1, 1.3], [1.05, 1.2, 1.4]]
FALLING = [[1.3, 1.3, 1.3], [1.1, 1.1, 0.9], [1.1, 0.9, 0.9]]
SMALL = [[1.3, 1.3, 1.3], [1.1, 1.1, 1.1], [0.9, 0.9, 0.9]]
CLAIMS: list[tuple[list[list[float]], str]] = [
    (EVERYWHERE, "A draft pays at every point: 2.00× at batch 1, 1.10× at batch 64"),
    ([[1.1, 1.2, 1.3]] * 3, "A draft pays at every point: 1.30× at context 64k, 1.10× at context 1k"),
    ([[0.7, 0.8, 0.9]] * 3, "A draft pays nowhere: 0.70× to 0.90×"),
    (SLOPED, "A draft pays from 1k tokens of context at batch 64, from 64k at batch 1: up to 1.4×"),
    ([[0.7, 1.1, 1.2]] * 3, "A draft pays from 8k tokens of context: up to 1.2×"),
    (
        [[0.9] * 3, [0.9] * 3, [0.9, 0.9, 1.1]],
        "A draft pays from 64k tokens of context at batch 64: up to 1.1×",
    ),
    (SMALL, "A draft pays up to batch 8: up to 1.3×"),
    ([[1.3, 1.1, 0.9]] * 3, "A draft pays up to 8k tokens of context: up to 1.3×"),
    (FALLING, "A draft pays up to batch 1 at context 64k, to 8 at 8k: up to 1.3×"),
    ([[0.9, 1.1, 0.9], [0.9, 1.3, 0.9], [0.9] * 3], "A draft pays up to batch 8 at context 8k: up to 1.3×"),
    ([[0.9, 1.1, 0.9], [0.9] * 3, [0.9, 1.3, 0.9]], "A draft pays at 22 % of the points: up to 1.3×"),
    ([[np.nan] * 3] * 3, "A draft: nothing fits in memory"),
]


@pytest.mark.parametrize(("speedup", "claim"), CLAIMS)
def test_the_title_says_where_it_pays(speedup: list[list[float]], claim: str) -> None:
    assert surface_claim("A draft", BATCHES, CONTEXTS, np.array(speedup)) == claim


def test_points_that_do_not_fit_are_no_part_of_the_title() -> None:
    speedup: Array = np.array([[0.9, 1.1, 1.2], [0.9, 1.1, np.nan], [0.9, np.nan, np.nan]])
    title = surface_claim("MTP", BATCHES, CONTEXTS, speedup)
    assert title == "MTP pays from 8k tokens of context: up to 1.2×"


def test_the_title_of_a_picture_is_true_of_the_engine() -> None:
    scenario = resolve(ASK)
    title = title_of(plots.surface(scenario, gamma=2, batch=(1, 64), context=(1024, 32768), points=17))
    assert title.startswith("A sparse self-draft pays from ")
    context = 1024 * int(title.split(" from ")[1].split("k tokens")[0])
    assert float(speedups(scenario, 64.0, 1.2 * context, np.array([2])).item()) > 1.0
    assert float(speedups(scenario, 64.0, context / 1.3, np.array([2])).item()) < 1.0
