"""Power limits: the rows, the constants of the device that was measured, and answers under a limit."""

import numpy as np
import pytest

from perfmodel import advise, whatif
from perfmodel.specs import load_gpu
from perfmodel.validate.studies.power import fitted, held_out, log_errors, power_table

GPU = load_gpu("rtx-5090")
AT = {"model": "qwen3.8-27b", "weights": "ud-q4_k_xl", "hardware": "5090", "batch": 1, "context": 250}
DRAFTED = {**AT, "draft": "mtp", "alpha": 0.84}


@pytest.mark.parametrize(
    ("limit_w", "seconds", "joules"), [(250 / 1.5, 1.5, 250), (600, 1.0, 500), (None, 1.0, 500)]
)
def test_the_clock_by_hand(limit_w: float | None, seconds: float, joules: float) -> None:
    """100 static watts, 400 J, half of a second loads. At clock 1/2: 0.5 + 0.5 x 2 s, 150 + 400 / 4 J."""
    stated = {"static_w": 100.0, "memory_share": 0.5, "joules_per_byte": 0.0, "joules_per_flop": 1.0}
    gpu = GPU.replace(power_draw=GPU.power_draw.replace(**stated))  # type: ignore[union-attr]
    assert gpu.limited(limit_w, 1.0, 1792e9 / 4, 400.0) == pytest.approx((seconds, joules))


def test_the_constants_explain_all_rows_and_rows_left_out() -> None:
    rows = power_table("rtx-5090")
    stated, best = (np.abs(log_errors(gpu, rows)).mean(1) for gpu in (GPU, fitted(GPU, rows)))
    assert stated == pytest.approx(best, abs=1e-3)
    assert stated.max() < 0.016
    for column in (0, 1):
        assert np.abs(held_out(GPU, rows, column)).mean() < 0.025


def test_a_limit_of_a_device_whose_power_was_not_measured_is_a_bound() -> None:
    at = {**DRAFTED, "hardware": "3090", "gamma": 4}
    free, low = (whatif(**at, power_limit=limit) for limit in (None, 250))
    assert low.tpot_s == free.tpot_s
    assert any("at 250 W the device may be slower" in warning for warning in low.warnings)


def test_a_limit_slows_saves_and_shortens() -> None:
    free, low = (whatif(**DRAFTED, gamma=4, power_limit=limit) for limit in (None, 400))
    parts = 4 * low.draft_step.predicted_s + low.verify_step.predicted_s + low.overhead_s
    assert low.iteration_s == pytest.approx(parts)
    assert 1 < low.ar_tpot_s / free.ar_tpot_s < low.iteration_s / free.iteration_s
    assert (low.joules_per_token or 9) < (free.joules_per_token or 0)
    assert low.power_w == pytest.approx(400)
    assert free.gamma_optimal == 4
    assert low.gamma_optimal == 3
    pick = advise(**AT, rate={"mtp": 0.84}, power_limit=400).chosen
    best = whatif(**DRAFTED, power_limit=400)
    assert pick is not None
    assert pick.gamma == 3
    assert pick.tpot_s == pytest.approx(best.tpot_s)
    assert pick.joules_per_token == pytest.approx(best.joules_per_token)
