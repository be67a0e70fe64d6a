"""Whether prompts explain a slow iteration, by times alone."""

from dataclasses import replace

from perfmodel.answers.point.whatif import whatif
from perfmodel.validate.engine.health import Expectation, Half, Pace, health

ANSWER = whatif("qwen3-32b", "h100", batch=8, context=4096, tp=2)
PREDICTED_S = ANSWER.iteration_s


def half_of(times_slower: float, prompt_share: float, log: str = "", partly_idle: bool = False) -> Half:
    """The half that is off in a server whose iterations take so many times the predicted time, of which
    prompts take a share. The interval ends at 1.5 times the prediction.
    """
    answer = replace(ANSWER, iteration_interval=(0.5 * PREDICTED_S, 1.5 * PREDICTED_S))
    pace = Pace(times_slower * PREDICTED_S, 0.0, 1000.0 * prompt_share, partly_idle)
    return health(pace, Expectation(answer, 1.0, None, 1e-3), log).half


def test_prompts_explain_a_time_that_is_as_predicted_without_them() -> None:
    """They take 0.49 of the 0.96 predicted iterations above the prediction: less than two thirds."""
    assert half_of(1.96, 0.25) is Half.LOAD


def test_prompts_explain_a_time_of_which_they_are_most_of_the_excess() -> None:
    """Without them an iteration is still too slow, 1.6 times: they take 1.6 of the excess of 2.2."""
    assert half_of(3.2, 0.5) is Half.LOAD
    assert half_of(3.2, 0.4) is Half.STEP, "1.28 of 2.2"


def test_partly_idle_lines_blame_no_step_unless_the_log_has_a_sign() -> None:
    assert half_of(3.2, 0.0, partly_idle=True) is Half.OPEN
    assert half_of(3.2, 0.0, "config: enforce_eager=True", partly_idle=True) is Half.STEP
