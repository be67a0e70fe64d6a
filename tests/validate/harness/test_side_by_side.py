"""Plain and speculative decoding side by side."""

from collections.abc import Callable

import pytest
import torch

from perfmodel.validate.decoder.generation import Generation
from perfmodel.validate.decoder.kv import every_method
from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.request import Request
from perfmodel.validate.harness.clock import Clock
from perfmodel.validate.harness.side_by_side import compare, difference, run


def test_bf16_differences_are_near_ties(make_model: Callable[..., Model], prompts: list[list[int]]) -> None:
    """In bf16 outputs may differ from plain decoding, but only where two scores are nearly the same."""
    model, found = make_model(dtype=torch.bfloat16), []
    asked = Request(4, 70, 80, 4)
    requests = [Request(4, 70, 80, 4, draft_kv=method) for method in every_method(70, 4)[:4]]
    for one in compare(model, [asked, *requests], prompts)[1]:
        if one.difference is not None:
            found.append(one.difference.margin)
    assert all(margin <= 4 for margin in found), found


def test_a_real_difference_is_no_near_tie(target: Model) -> None:
    asked = Request(1, 4, 3)
    same = Generation([[1, 2, 3]], [[3]])
    assert difference(target, asked, [[5, 6, 7, 8]], same, same) is None
    told = difference(target, asked, [[5, 6, 7, 8]], same, Generation([[1, 9, 3]], [[3]]))
    assert told is not None
    assert (told.sequence, told.position) == (0, 1)
    assert told.margin > 1e6


class Ticks(Clock):
    """A second passes from mark to mark."""

    def mark(self) -> None:
        self._marks.append(len(self._marks) * 10**9)


def test_what_is_timed(target: Model, prompts: list[list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop is looked at after each iteration, gamma draft steps together, and the idle end does not count."""
    monkeypatch.setattr("perfmodel.validate.harness.side_by_side.clock_for", lambda device: Ticks())
    timed = run(target, Request(4, 70, 20, 4), prompts)
    assert (timed.prefill_s, timed.draft_s, timed.verify_s) == (1.0, 0.25, 1.0)
    assert timed.timed_tokens == 4 * 19
    assert timed.seconds == timed.timed_iterations == max(map(sum, timed.generation.histograms))
    assert run(target, Request(4, 70, 8, 1), prompts).draft_s == 1.0
    plain = run(target, Request(4, 70, 8), prompts)
    assert plain.draft_s == 0.0
    assert plain.seconds == plain.timed_iterations == 7, "eight iterations are run: the loop looks every four"


def test_a_first_token_that_ends_everything(target: Model, prompts: list[list[int]]) -> None:
    plain, runs = compare(target, [Request(4, 70, 20, 4, eos=tuple(range(61)))], prompts)
    assert [len(row) for row in plain.generation.tokens] == [1] * 4
    for one in (plain, *runs):
        assert (one.timed_iterations, one.timed_tokens, one.tokens_per_s) == (0, 0, 0.0)
        assert one.generation.tokens_per_iteration == 0
        assert one.generation.alpha is None
