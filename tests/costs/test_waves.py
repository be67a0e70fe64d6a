"""The last wave of the attention kernel, by hand, and what the stack's other constants cost a pass."""

import numpy as np
import pytest

from perfmodel.answers.query import Query, resolve
from perfmodel.costs.roofline import wave_factor

A100 = Query(
    "llama-2-7b-32k",
    "a100-sxm-80gb",
    64,
    8000,
    2,
    tp=8,
    draft_kv="streamingllm:512",
    alpha=0.8,
    calibration="a100-sxm-80gb.magicdec",
)


@pytest.mark.parametrize(
    ("items", "factor"),
    [
        (1, 1.0),
        (215, 1.0),  # cut up until 216 places are busy
        (216, 1.0),  # one full wave
        (256, 1 + 68 / 256),  # 40 left over take as long as 108
        (324, 1.0),  # one and a half waves: every multiprocessor has one piece in the last
        (432, 1.0),
        (512, 1 + 28 / 512),
    ],
)
def test_by_hand(items: float, factor: float) -> None:
    assert wave_factor(items, 216.0, 108.0) == pytest.approx(factor)


def test_time_never_falls_with_the_batch() -> None:
    batches = np.arange(1.0, 1025.0)
    factor = wave_factor(batches, 216.0, 108.0)
    assert np.all(factor >= 1)
    assert np.all(np.diff(factor * batches) >= -1e-9)


def test_the_step_between_48_and_64_sequences() -> None:
    """Tables 3a and 3b of MagicDec: T_T rises by 10 ms there at 8000 tokens, by 5 ms from 32 to 48."""
    s = resolve(A100)
    t = [float(s.target_pass_s(float(b), 8000.0)) for b in (32, 48, 64)]
    assert (t[2] - t[1]) / (t[1] - t[0]) == pytest.approx((31.49 - 21.45) / (21.45 - 16.53), rel=0.1)
