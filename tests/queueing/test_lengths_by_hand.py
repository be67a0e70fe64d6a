"""The context of a request that decodes, and the passes of a prompt, by hand."""

import numpy as np
import pytest

from perfmodel.queueing.load import Lengths, whole_passes


def test_a_request_that_decodes_has_its_prompt_and_half_its_output() -> None:
    assert Lengths(input_mean=1000.0, output_mean=200.0).context == 1100.0


def test_longer_outputs_stay_longer_and_weigh_more() -> None:
    """Outputs of 100 or 300 tokens: three of four decoding requests are long, and have 150 tokens, not 50."""
    lengths = Lengths(input_mean=1000.0, output_mean=200.0, output_std=100.0)
    assert lengths.context == 1000 + (1 * 50 + 3 * 150) / 4


def test_prompts_and_progress_spread_the_contexts() -> None:
    """A uniform 0 to 80 sqrt(3) tokens of output has a standard deviation of 40."""
    lengths = Lengths(input_mean=1000.0, output_mean=80 * 3**0.5, input_std=30.0)
    assert lengths.context_std == pytest.approx(50.0)


def test_contexts_spread_no_wider_than_from_zero_to_twice_their_mean() -> None:
    lengths = Lengths(input_mean=1000.0, output_mean=200.0, input_std=5000.0)
    assert lengths.context_std == pytest.approx(1100 / 3**0.5)


@pytest.mark.parametrize(
    ("mean", "half", "passes"),
    [
        (2.5, 0.0, 3.0),
        (2.5, 1.0, (0.5 * 2 + 1 * 3 + 0.5 * 4) / 2),
        (1.0, 1.5, (1 * 1 + 1 * 2 + 0.5 * 3) / 2.5),
    ],
    ids=["equal prompts", "from 1.5 to 3.5 passes", "no prompt is below 0"],
)
def test_a_prompt_takes_whole_passes(mean: float, half: float, passes: float) -> None:
    """Lengths from mean - half to mean + half passes; the standard deviation is half / sqrt(3)."""
    cv = half / 3**0.5 / mean
    assert float(whole_passes(np.array(mean), cv)) == pytest.approx(passes, rel=1e-4)
