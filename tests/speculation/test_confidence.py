"""Verification by confidence: against every cut of every bin, and bins of a file by hand."""

import json
from itertools import product

import numpy as np
import pytest

from perfmodel.answers.question import Query, resolve
from perfmodel.specs.acceptance.acceptance_file import read_acceptance
from perfmodel.speculation import Acceptance
from perfmodel.speculation.confidence import best_stop, by_confidence, ideal_stop
from tests.refusals import refused

SURE = (0.95, 0.9, 0.9)
UNSURE = (0.5, 0.3, 0.3)
BINS = [{"share": 2.0, "positions": SURE}, {"share": 6.0, "positions": UNSURE}]
WEIGHTS = (0.25, 0.75)
"""Shares of the drafts in each bin."""


def accepted(rates: tuple[float, ...], count: int) -> float:
    """Tokens accepted on average of a draft of `count`."""
    return float(np.cumprod(rates)[:count].sum())


def first_below(rates: tuple[float, ...], least: float) -> int:
    """The position that ends a draft."""
    below = [position for position, rate in enumerate(rates) if rate < least]
    return min(below, default=len(rates))


def rows(tmp_path, **entry):  # type: ignore[no-untyped-def]
    row = {"target": "qwen3-8b", "draft": "dspark", "draft_kv": "full", "context_tokens": 4096, **entry}
    path = tmp_path / "bins.json"
    table = {"schema_version": 1, "source": "own", "rows": [row]}
    path.write_text(json.dumps(table))
    return read_acceptance(path)


def test_all_drafts_together_by_hand(tmp_path) -> None:
    """A quarter is sure: 0.25 x 0.95 + 0.75 x 0.5 = 0.6125 reach the first position."""
    (row,) = rows(tmp_path, confidence=BINS)
    first = 0.25 * 0.95 + 0.75 * 0.5
    second = 0.25 * 0.95 * 0.9 + 0.75 * 0.5 * 0.3
    assert row.positions[0] == pytest.approx(first)
    assert row.positions[1] == pytest.approx(second / first)
    assert row.bins == ((2.0, SURE), (6.0, UNSURE))


@pytest.mark.parametrize("batch", [1, 32, 256])
def test_no_cut_of_the_bins_is_faster(tmp_path, batch: int) -> None:
    (row,) = rows(tmp_path, confidence=BINS)
    query = Query("qwen3-8b", "h100", batch, 4096, draft="dspark:block=7")
    s = resolve(query, Acceptance.from_row(row))
    drafted_token_s = s.draft_token_s(float(batch), 4096.0, np.array([3]))[0]
    overhead_s = float(s.overhead_s(float(batch), 4096.0))
    rest = 3 * float(drafted_token_s) + overhead_s
    plain = float(s.target_pass_s(float(batch), 4096.0))
    best = 0.0
    for cuts in product(range(4), repeat=2):
        kept = list(zip(cuts, WEIGHTS, (SURE, UNSURE), strict=True))
        gained = 1 + sum(weight * accepted(rates, cut) for cut, weight, rates in kept)
        verified = 1 + sum(cut * weight for cut, weight, _ in kept)
        verify = float(s.target_pass_s(float(batch), 4096.0, verified))
        best = max(best, gained * plain / (rest + verify))
    choice = by_confidence(s, np.array([batch]), 4096.0)
    assert choice.speedup == pytest.approx(max(best, choice.fixed_speedup), rel=1e-12)
    assert choice.speedup >= choice.fixed_speedup
    assert 0 <= choice.verified <= choice.drafted == 3


@pytest.mark.parametrize(("batches", "contexts"), [((1,), (4096,)), ((2, 3, 4), (1024, 8192))])
def test_no_length_and_probability_is_faster_in_llama_cpp(tmp_path, batches, contexts) -> None:  # type: ignore[no-untyped-def]
    """Slots draft together: a pass runs unless all drafts have ended, and finding an unlikely token costs
    one. A doubling of the batch counts as much as any other.
    """
    (row,) = rows(tmp_path, confidence=BINS, target="qwen3.5-27b", draft="mtp")
    query = Query("qwen3.5-27b", "3090", 1, 4096, draft="mtp", engine="llamacpp")
    s = resolve(query, Acceptance.from_row(row))
    ends = [0.0, *sorted({*SURE, *UNSURE})]
    edges = [batches[0], *(batch + 1.0 for batch in batches)]
    shares = np.diff(np.log(edges))

    def pass_ratio(batch: float, context: float, n: int, kept: list[int]) -> float:
        """Seconds of an iteration over those of a plain pass."""
        ended = [np.less(kept, position) for position in range(n)]
        passes = sum(1 - np.dot(WEIGHTS, each) ** batch for each in ended)
        drafted_token_s = float(s.draft_token_s(batch, context, np.array([n])))
        verified = 1 + np.dot(WEIGHTS, kept)
        seconds = drafted_token_s * passes
        seconds += float(s.target_pass_s(batch, context, verified))
        seconds += float(s.overhead_s(batch, context))
        return seconds / float(s.target_pass_s(batch, context))

    def slowness(n: int, at: int) -> float:
        kept = [first_below(rates[:n], ends[at]) for rates in (SURE, UNSURE)]
        gains = [accepted(rates, count) for count, rates in zip(kept, (SURE, UNSURE), strict=True)]
        total = 0.0
        for batch, share in zip(batches, shares, strict=True):
            ratios = [pass_ratio(float(batch), context, n, kept) for context in contexts]
            total += share * np.mean(ratios)
        gained = 1 + np.dot(WEIGHTS, gains)
        return total / shares.sum() / gained

    choices = product((1, 2, 3), range(len(ends)))
    pairs = {choice: slowness(*choice) for choice in choices}
    (n, at), best = min(pairs.items(), key=lambda pair: pair[1])
    middle = np.mean(ends[max(at - 1, 0) : at + 1])
    arguments = s, np.array(batches, float), np.array(contexts, float)
    plain_pass = ((2, pairs[2, 0]), (0, 1.0))
    for constant, always in plain_pass:
        gain, tokens, least = best_stop(*arguments, constant)
        assert gain == pytest.approx(always / best, rel=1e-9)
        assert tokens == n
        assert least == pytest.approx(middle, abs=1e-3)
        assert least > 0


def test_drafts_that_do_not_fit_in_memory_do_not_end_early(tmp_path) -> None:
    (row,) = rows(tmp_path, confidence=BINS)
    query = Query(model="llama-3.1-70b", hardware="h100", batch=1, context=4096, draft="llama-3.2-1b")
    s = resolve(query, Acceptance.from_row(row))
    assert best_stop(s, np.array([1.0]), np.array([4096.0]), 2) == (1.0, 2, 0.0)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"confidence": BINS, "alpha": 0.5}, "one of alpha, positions, histogram and confidence"),
        ({"confidence": [BINS[0], {"share": 1, "positions": [0.5]}]}, "as many positions in every bin"),
        ({"confidence": BINS[:1]}, "confidence"),
        ({"confidence": [BINS[0], {"share": 0, "positions": UNSURE}]}, "share"),
    ],
)
def test_bins_that_mean_nothing(tmp_path, entry: dict, message: str) -> None:
    refused(message, rows, tmp_path, **entry)


def test_the_best_early_end_is_before_the_first_wrong_token() -> None:
    """By hand: a draft of 3 with a of 0.6 each has 0, 1, 2 or 3 right tokens. It takes a pass for each right
    token and one for the wrong one, and the verification of the right tokens.
    """
    query = Query("qwen3.8-27b", "rtx-5090", 1, 4096, weights="q4_k_m", draft="mtp")
    s = resolve(query, Acceptance.from_positions([0.6, 0.6, 0.6]))
    one, context = np.array([1.0]), np.array([4096.0])
    seconds = tokens = 0.0
    for right, share in enumerate([0.4, 0.24, 0.144, 0.216]):
        passes = min(right + 1, 3)
        drafting_s = passes * float(s.draft_token_s(1.0, 4096.0, 3.0))
        tokens += share * (right + 1)
        seconds += share * (drafting_s + float(s.overhead_s(1.0, 4096.0)))
    seconds += float(s.target_pass_s(1.0, 4096.0, tokens))
    stop = ideal_stop(s, one, context, 0, longest=16)
    assert stop.longest == 3
    assert stop.gain == pytest.approx(tokens / seconds * float(s.target_pass_s(1.0, 4096.0)))


@pytest.mark.parametrize("sure", [0.1, 0.5, 0.9])
def test_no_known_confidence_gains_more_than_the_ideal_end(tmp_path, sure: float) -> None:
    bins = [{"share": sure, "positions": SURE}, {"share": 1 - sure, "positions": UNSURE}]
    (row,) = rows(tmp_path, confidence=bins)
    s = resolve(Query("qwen3-8b", "h100", 1, 4096, draft="dspark:block=7"), Acceptance.from_row(row))
    loads = np.array([1.0, 4.0]), np.array([4096.0])
    assert 1.0 < best_stop(s, *loads, 0).gain < ideal_stop(s, *loads, 0, longest=3).gain
