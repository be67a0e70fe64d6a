"""What an answer says first: its verdict, or that the baseline was asked for. What is said of a switch."""

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.point.whatif_answer import Remedy
from perfmodel.speculation import chance_above_one

ASKED = {"model": "llama-3.1-8b", "hardware": "h100", "batch": 1, "context": 4096}


def test_a_headline_has_verdict_speedup_interval_and_point() -> None:
    """An answer without an interval, because its constants have no scatter, shows none."""
    a = whatif(**ASKED, gamma=3, alpha=0.9, draft="eagle3")
    low, high = a.speedup_interval
    where = "llama-3.1-8b on h100-sxm-80gb, batch 1, context 4096"
    assert (
        a.headline()
        == f"Speculation pays off: {a.speedup:.2f}x ({low:.2f} to {high:.2f}) at gamma 3; {where}"
    )
    exact = whatif(**ASKED, gamma=3, alpha=0.9, tp=2, pp=2, calibration="ideal")
    where = "llama-3.1-8b on 4 x h100-sxm-80gb, batch 1, context 4096"
    assert exact.headline().endswith(f": {exact.speedup:.2f}x at gamma 3; {where}")


def test_an_interval_that_contains_1_is_told_with_the_chance_to_be_above_1() -> None:
    """ln 0.8 and ln 2 are 5 % and 95 % of a normal distribution, of which 80 % are above ln 1."""
    told = switched(1.3, (0.8, 2.0)).text
    assert told == "with --kv-dtype fp8 1.30x (0.80 to 2.00; chance above 1: 80 %) at gamma 3"


def test_the_chance_is_one_half_in_the_middle_and_certain_without_an_error() -> None:
    assert chance_above_one((0.8, 1.25)) == pytest.approx(0.5)
    assert chance_above_one((1.0, 1.25)) == pytest.approx(0.95)
    assert chance_above_one((0.8, 1.0)) == pytest.approx(0.05)
    assert chance_above_one((1.2, 1.2)) == 1.0
    assert chance_above_one((0.9, 0.9)) == 0.0


def test_an_answer_has_the_chance_if_the_acceptance_is_known() -> None:
    a = whatif(**ASKED, gamma=3, alpha=0.5, draft="eagle3")
    assert a.chance_above_one == chance_above_one(a.speedup_interval)
    assert whatif(**ASKED, gamma=3, draft="medusa").chance_above_one is None
    assert whatif(**ASKED, gamma=3, alpha=0.9, calibration="ideal").chance_above_one is None


def test_a_headline_of_an_unknown_acceptance_has_the_reason() -> None:
    a = whatif(**ASKED, gamma=3, draft="medusa")
    assert a.states_draft
    assert a.speedup is None
    assert a.headline() == f"Undecided: {a.reason}"


@pytest.mark.parametrize(
    ("changes", "states_draft", "sentence"),
    [
        # a draft whose acceptance is known: it would pay at its best length, but was not asked for
        ({"draft": "eagle3", "gamma": 0}, True, "Baseline (no speculation), as asked"),
        # no acceptance is known, and none is needed
        ({"draft": "medusa", "gamma": 0}, False, "Baseline (no speculation), as asked"),
        # the best length was sought, and is 0
        ({"draft": "ngram", "alpha": 0.05, "batch": 64}, True, "Too close to call"),
        # too large, whatever was asked
        ({"draft": "medusa", "gamma": 0, "model": "llama-3.1-70b"}, False, "Does not fit in memory"),
    ],
)
def test_a_baseline_is_called_so_only_where_it_was_asked_for(changes, states_draft, sentence) -> None:
    a = whatif(**ASKED | changes)
    assert a.query.gamma == 0
    assert a.states_draft is states_draft
    assert a.sentence == sentence
    assert a.headline().startswith(f"{sentence}: ")
    assert a.is_baseline_as_asked is sentence.startswith("Baseline")


def switched(speedup: float, interval: tuple[float, float] | None) -> Remedy:
    return Remedy("--kv-dtype fp8", 3, speedup, interval)


@pytest.mark.parametrize(
    ("speedup", "interval", "surely_pays", "helps"),
    [
        (1.05, (1.01, 1.1), True, True),
        (1.05, (1.0, 1.1), False, False),
        (1.2, (0.9, 1.5), False, True),  # more than enough, although not surely
        (1.1, (0.9, 1.5), False, False),  # enough is not more
        (1.2, None, False, True),
        (1.0, None, False, False),
    ],
)
def test_a_switch_helps_if_it_surely_pays_or_gains_more_than_enough(
    speedup: float, interval: tuple[float, float] | None, surely_pays: bool, helps: bool
) -> None:
    remedy = switched(speedup, interval)
    assert remedy.surely_pays is surely_pays
    assert remedy.helps(enough=1.1) is helps


def test_a_switch_is_told_with_its_speedup_and_its_draft_length() -> None:
    assert switched(1.476, (1.1, 2.3)).text == "with --kv-dtype fp8 1.48x (1.10 to 2.30) at gamma 3"
    assert switched(1.476, None).text == "with --kv-dtype fp8 1.48x at gamma 3"
