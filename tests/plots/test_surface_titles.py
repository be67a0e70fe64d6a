"""The title of a surface says where speculation pays off, and is true of the drawn numbers."""

import re
from dataclasses import replace

import numpy as np
import pytest

from perfmodel import plots
from perfmodel.answers.question import resolve
from perfmodel.operations import Array
from perfmodel.plots.surface_claim import round_batches, round_contexts, surface_claim
from perfmodel.speculation import speedups
from tests.plots.figures import ASK, title_of, words_around

BATCHES = np.array([1.0, 8.0, 64.0])
CONTEXTS = np.array([1024.0, 8192.0, 65536.0])


EVERYWHERE = [[2.0, 2.0, 2.0], [1.5, 1.5, 1.5], [1.1, 1.1, 1.1]]
SLOPED = [[0.7, 0.8, 1.2], [0.7, 1.1, 1.3], [1.05, 1.2, 1.4]]
FALLING = [[1.3, 1.3, 1.3], [1.1, 1.1, 0.9], [1.1, 0.9, 0.9]]
SMALL = [[1.3, 1.3, 1.3], [1.1, 1.1, 1.1], [0.9, 0.9, 0.9]]
CLAIMS: list[tuple[list[list[float]], str]] = [
    (EVERYWHERE, "A draft at context 1k: 2.00× at batch 1, falling to 1.10× at batch 64"),
    ([[1.1, 1.2, 1.3]] * 3, "A draft at batch 1: 1.30× at context 64k, falling to 1.10× at context 1k"),
    ([[0.7, 0.8, 0.9]] * 3, "A draft breaks even nowhere: 0.70× to 0.90×"),
    (SLOPED, "A draft breaks even at 36k tokens of context at batch 1, at 6k at batch 8: up to 1.4×"),
    ([[0.7, 1.1, 1.2]] * 3, "A draft breaks even at 6k tokens of context: up to 1.2×"),
    (
        [[0.9] * 3, [0.9] * 3, [0.9, 0.9, 1.1]],
        "A draft breaks even at 36k tokens of context at batch 64: up to 1.1×",
    ),
    (SMALL, "A draft at context 1k: 1.30× at batch 1, falling to 0.90× at batch 64"),
    ([[1.3, 1.1, 0.9]] * 3, "A draft breaks even at 36k tokens of context: up to 1.3×"),
    (FALLING, "A draft breaks even at 36k tokens of context at batch 8, at 5k at batch 64: up to 1.3×"),
    ([[0.9, 1.1, 0.9]] * 3, "A draft at batch 1: 1.10× at context 8k, falling to 0.90× at context 1k"),
    ([[np.nan] * 3] * 3, "A draft: nothing fits in memory"),
]


@pytest.mark.parametrize(("speedup", "claim"), CLAIMS)
def test_the_title_says_where_it_pays(speedup: list[list[float]], claim: str) -> None:
    assert surface_claim("A draft", BATCHES, CONTEXTS, np.array(speedup)) == claim


def test_points_that_do_not_fit_are_no_part_of_the_title() -> None:
    speedup: Array = np.array([[0.9, 1.1, 1.2], [0.9, 1.1, np.nan], [0.9, np.nan, np.nan]])
    title = surface_claim("MTP", BATCHES, CONTEXTS, speedup)
    assert title == "MTP breaks even at 4k tokens of context at batch 1, at 4k at batch 8: up to 1.2×"


def test_the_title_of_a_picture_is_true_of_the_engine() -> None:
    scenario = resolve(ASK)
    title = title_of(plots.surface(scenario, gamma=2, batch=(1, 64), context=(1024, 131072), points=17))
    assert title.startswith("A sparse self-draft breaks even at ")
    stated = re.findall(r"at (\d+)k(?: tokens of context)? at batch (\d+)", title)
    assert len(stated) == 2
    for context, batch in stated:
        near = 1024 * (np.array([-1, 1]) + float(context))
        below, above = speedups(scenario, float(batch), near, np.array([2]))[..., 0]
        assert below < 1.0 < above


def test_a_title_names_round_batches_and_contexts() -> None:
    assert round_batches((1, 256)).tolist() == [2.0**power for power in range(9)]
    assert round_batches((8, 200)).tolist() == [8, 16, 32, 64, 128, 200]
    assert all(context % 1024 == 0 for context in round_contexts((1024, 131072)))


def test_a_picture_on_the_ideal_roofline_says_so() -> None:
    words = words_around(plots.surface(replace(ASK, calibration="ideal"), gamma=2, points=9))
    assert words.startswith("On the ideal roofline, a sparse self-draft ")
    assert "\nideal roofline; llama-3.1-8b on " in words
