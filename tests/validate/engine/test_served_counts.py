"""The counts of a server that drafts, from a row of imported figures."""

from perfmodel.specs.acceptance.acceptance_file import AcceptanceEntry
from perfmodel.validate.engine.served_counts import ServedCounts, rates_of
from tests.refusals import refused


def counts(gamma: int | None, **figures: object) -> ServedCounts:
    """The counts of a row with these figures."""
    row = AcceptanceEntry(target="m", draft="eagle3", draft_kv="full", context_tokens=1500, **figures)
    return ServedCounts.of(row, gamma, 4.0)


def test_a_given_draft_length_is_that_of_the_server() -> None:
    """The figures count three positions, and the server drafts five tokens."""
    positions = (0.7, 0.5, 0.3)
    assert counts(None, positions=positions).gamma == 3
    assert counts(5, positions=positions).gamma == 5


def test_a_mean_acceptance_is_known_up_to_the_served_length() -> None:
    """Beyond the served length, `drift` lets the acceptance fall."""
    served = counts(4, alpha=0.6)
    assert served.acceptance.alpha == 0.6
    assert served.acceptance.measured_to == 4
    assert rates_of(served.acceptance, 2) == "0.6/0.6"


def test_a_histogram_has_the_shares_of_drafts_by_position() -> None:
    """Of 10 drafts of two tokens, 6 kept the first token, and 3 of these the second."""
    served = counts(None, histogram=(4, 3, 3))
    assert served.gamma == 2
    assert rates_of(served.acceptance, 2) == "0.6/0.5"


def test_a_mean_acceptance_without_a_length_is_refused() -> None:
    refused("--gamma: must be given", counts, None, alpha=0.6)
