"""Which half of a server is off, by times alone."""

from dataclasses import replace
from typing import Any

from perfmodel.answers.point.whatif import whatif
from perfmodel.validate.engine.expectation import Expectation
from perfmodel.validate.engine.health import Health, health
from perfmodel.validate.engine.pace import Pace
from perfmodel.validate.engine.signs import Half

ANSWER = whatif("qwen3-32b", "h100", batch=8, context=4096, tp=2)
PREDICTED_S = ANSWER.iteration_s
EAGER = "config: enforce_eager=True"
"""A line in a log that says that every step is slow."""


def health_of(
    times_slower: float,
    prompt_share: float = 0.0,
    log: str = "",
    waiting: float = 0.0,
    partly_idle: bool = False,
) -> Health:
    """The health of a server whose iterations take so many times the predicted time, of which prompts take a
    share. The interval ends at 0.5 and 1.5 times the prediction.
    """
    answer = replace(ANSWER, iteration_interval=(0.5 * PREDICTED_S, 1.5 * PREDICTED_S))
    pace = Pace(times_slower * PREDICTED_S, waiting, 1000.0 * prompt_share, partly_idle)
    return health(pace, Expectation(answer, 1.0, None, 1e-3), log)


def half_of(times_slower: float, prompt_share: float = 0.0, **more: Any) -> Half:
    return health_of(times_slower, prompt_share, **more).half


def test_prompts_explain_a_time_that_is_as_predicted_without_them() -> None:
    """They take 0.49 of the 0.96 predicted iterations above the prediction: less than two thirds."""
    assert half_of(1.96, 0.25) is Half.LOAD


def test_prompts_explain_a_time_of_which_they_are_most_of_the_excess() -> None:
    """Without them an iteration is still too slow, 1.6 times: they take 1.6 of the excess of 2.2."""
    assert half_of(3.2, 0.5) is Half.LOAD
    assert half_of(3.2, 0.4) is Half.STEP, "1.28 of 2.2"


def test_partly_idle_lines_blame_no_step_unless_the_log_has_a_sign() -> None:
    assert half_of(3.2, partly_idle=True) is Half.OPEN
    assert half_of(3.2, log=EAGER, partly_idle=True) is Half.STEP


def test_usual_prompts_excuse_a_server_unless_requests_wait_or_the_log_has_a_sign() -> None:
    """Without the fifth of the time that prompts take, 1.8 predicted iterations are 1.44."""
    assert half_of(1.8, 0.2) is Half.NONE
    assert half_of(1.8, 0.2, waiting=1.0) is Half.LOAD
    assert half_of(1.8, 0.2, log=EAGER) is Half.STEP


def test_requests_that_wait_for_a_slow_step_are_not_its_cause() -> None:
    assert half_of(3.2, waiting=20.0) is Half.LOAD
    assert half_of(3.2, waiting=1.0) is Half.LOAD
    assert half_of(3.2, waiting=20.0, log=EAGER) is Half.STEP


def test_a_server_that_is_faster_than_predicted_is_asked_about() -> None:
    _, line = health_of(0.4).lines
    assert line == (
        "faster than predicted: an iteration takes 0.40 times as long; are the model, its format and the "
        "device those of the server?"
    )
    assert len(health_of(0.6).lines) == 1, "inside its interval"
    assert len(health_of(1.4).lines) == 1, "inside its interval"


def test_the_host_that_launches_a_draft_is_a_possible_cause_only_with_a_draft() -> None:
    """A line of the log says nothing about it."""
    launches = []
    for drafted in ({"gamma": 0}, {"draft": "eagle3", "gamma": 3, "alpha": 0.7}):
        answer = whatif("qwen3-32b", "h100", batch=8, context=4096, tp=2, **drafted)
        slow = Pace(10 * answer.iteration_s, 0.0, 0.0)
        *_, possible = health(slow, Expectation(answer, 1.0, None, 1e-3), "").lines
        assert possible.startswith("not seen, but possible: a")
        launches.append("a draft launched by the host" in possible)
    assert launches == [False, True]
