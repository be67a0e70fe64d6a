"""Request rates as users write them."""

import re

import pytest

import perfmodel as pm
from perfmodel.answers.load.rates import parse_rates
from tests.refusals import refused


@pytest.mark.parametrize(
    ("given", "rates"),
    [
        (2, (2,)),
        ("0.5,4", (0.5, 4)),
        ("1..4", (1, 2, 3, 4)),
        ("0.5..2+0.5,9", (0.5, 1, 1.5, 2, 9)),
        ("1..8x2", (1, 2, 4, 8)),
        ("3..3", (3,)),
        ("1e-2..0.03+0.01", (0.01, 0.02, 0.03)),
    ],
)
def test_rates_are_numbers_and_ranges(given, rates) -> None:
    assert parse_rates(given, "--request-rate") == pytest.approx(rates)


@pytest.mark.parametrize("given", ["", "4..1", "0..3", "1..8x1", "1..3+0", "x", "1..", "nan", "1..3x2x2"])
def test_other_rates_are_refused(given) -> None:
    refused("--request-rate: must be a number, a range such as", parse_rates, given, "--request-rate")


def test_a_range_has_an_end() -> None:
    refused("must be at most 1000 rates", parse_rates, "1..20000", "--request-rate")


def test_one_rate_without_a_draft_length_is_that_of_the_first_position() -> None:
    """The search goes two tokens beyond it, and the warning counts from it."""
    answer = pm.whatif("llama-3.1-8b", "h100", 4, 4096, draft="eagle3", rate="0.8")
    assert answer.query.gamma == 3
    beyond = "gamma 3 is the largest in this search, 2 more than the position at which the acceptance was"
    assert any(beyond in warning for warning in answer.warnings)


@pytest.mark.parametrize(
    ("listed", "means"),
    [
        ("0.82,0.61,0.4", "0.82/0.744/0.656"),
        ("(0.805, 0.632, 0.483)", "0.805/0.785/0.764"),
        ("0.4,0.6", ""),
        ("0.5,nan", ""),
        ("0.5,", ""),
    ],
)
def test_a_list_that_an_engine_prints_is_shares_of_all_drafts(listed: str, means: str) -> None:
    hint = f" (a list that an engine printed means {means})" if means else ""
    says = re.escape(f"hit x run 0.6x3.5{hint}, given '{listed}'")
    refused(says, pm.whatif, "llama-3.1-8b", "h100", 4, 4096, draft="eagle3", rate=listed)
