"""Which pages and tokens a selection takes, at the ends: the newest page, empty pages, short sequences."""

import torch

from perfmodel.validate.decoder.selection import heaviest, newest_first


def test_the_newest_page_is_selected_and_empty_pages_are_not() -> None:
    """Sequences with 0, 1 and 3 of 3 pages filled."""
    score = torch.tensor([[[9.0, 8.0, 7.0]]]).repeat(3, 1, 1)
    ordered = newest_first(score, torch.tensor([0, 1, 3]))
    most, least = torch.inf, -torch.inf
    assert ordered[:, 0].tolist() == [[least] * 3, [most, least, least], [9.0, 8.0, most]]
    assert score[0, 0].tolist() == [9.0, 8.0, 7.0], "the scores themselves are kept"


def test_the_rows_of_a_head_vote_for_tokens_by_their_weights() -> None:
    """Weights 0.75, 0, 0.25 of one row and 0, 0.6, 0.4 of the other: 0.75, 0.6 and 0.65 together."""
    weights = torch.tensor([[0.75, 1e-9, 0.25], [1e-9, 0.6, 0.4]])
    scores = weights.log()[None, None]
    inside = torch.zeros(1, 3, dtype=torch.bool)
    assert sorted(heaviest(scores, inside, 2)[0, 0].tolist()) == [0, 2]


def test_a_token_outside_a_sequence_is_selected_last() -> None:
    """All tokens of an empty sequence have the same weight, and none of them is inside."""
    least = torch.finfo(torch.float32).min
    scores = torch.tensor([[[[-50.0, least, least]]], [[[least, least, least]]]])
    outside = torch.tensor([[False, True, True], [True, True, True]])
    best = heaviest(scores, outside, 2)
    assert best[0, 0, 0] == 0
    assert best.shape == (2, 1, 2)
