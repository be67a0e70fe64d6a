"""The acceptance that a server is expected to count, and the tokens per iteration that follow from it."""

from contextlib import suppress

from perfmodel.answers.question import Query, measured_acceptance
from perfmodel.answers.question.acceptance_of import library_word
from perfmodel.specs import UnknownAcceptance
from perfmodel.specs.acceptance.acceptance_file import read_acceptance
from perfmodel.specs.acceptance.acceptance_library import acceptance_library
from perfmodel.speculation import Acceptance, Scenario, interval_of
from perfmodel.validate.engine.paste import ExpectedGain
from perfmodel.validate.engine.timing import Timing


def expected(query: Query, scenario: Scenario, context: float, file: str | None) -> Acceptance | None:
    """The expected acceptance: from the rows of an acceptance file, or else the published one. None if there
    is neither.
    """
    rows = None if file is None else read_acceptance(file)
    with suppress(UnknownAcceptance):
        return measured_acceptance(query.model, scenario.target, scenario.draft, context, rows)
    return None


def expected_gain(query: Query, scenario: Scenario, file: str | None, timing: Timing) -> ExpectedGain | None:
    """The tokens per iteration that a step is expected to gain; None if they are not known.

    - file: an acceptance file.
    """
    known = expected(query, scenario, timing.context, file)
    if known is None:
        return None
    if known.max_gamma is not None and timing.gamma > known.max_gamma:
        if file is not None:
            return None
        decay = acceptance_library().typical.decay(library_word(scenario.draft))
        known = known.extended(timing.gamma, decay)
    mean = float(known.tokens_per_iteration(timing.gamma))
    origin = f"{mean:.2f} tokens per iteration at K = {timing.gamma} ({known.source})"
    return ExpectedGain(mean, origin)


def usual_gain(
    query: Query, scenario: Scenario, file: str | None, timing: Timing
) -> tuple[float, float] | None:
    """The smallest and the largest expected tokens per iteration of a step; None if they are not known.

    - file: an acceptance file.
    """
    if not timing.gamma:
        return None
    return expected_interval(expected(query, scenario, timing.context, file), timing.gamma)


def expected_interval(expected: Acceptance | None, gamma: int) -> tuple[float, float] | None:
    """The expected tokens per iteration with their spread between texts; None if none are known."""
    if expected is None or (expected.max_gamma is not None and gamma > expected.max_gamma):
        return None
    mean = float(expected.tokens_per_iteration(gamma))
    return interval_of(mean, float(expected.log_spread(gamma)))


def expected_words(expected: Acceptance, gamma: int, gained: float) -> str:
    """The expected acceptance at a draft length, and whether the counted acceptance is within its spread, in
    words.
    """
    longest = expected.max_gamma
    if longest is not None and gamma > longest:
        return f"expected: not known at K = {gamma}"
    mean = float(expected.tokens_per_iteration(gamma))
    spread = float(expected.log_spread(gamma))
    low, high = interval_of(mean, spread)
    if not spread:
        return f"expected {mean:.2f}"
    inside = "within it" if low <= gained <= high else "outside of it"
    return f"expected {mean:.2f} ({low:.2f} to {high:.2f}, {inside})"
