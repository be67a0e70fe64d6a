"""The last wave of the attention kernel, by hand, and what the stack's other constants cost a pass."""

import numpy as np
import pytest

from perfmodel.answers.query import Query, resolve
from perfmodel.costs.roofline import wave_factor
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.uncertainty import with_calibration, with_values

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


def changed(constant: str, value: float) -> tuple[Scenario, Scenario]:
    s = resolve(A100)
    zero = with_values(s.machine.calibration, {constant: 0.0})
    return with_calibration(s, zero), with_calibration(s, with_values(zero, {constant: value}))


def test_a_pass_over_the_whole_cache_pays_once_and_a_draft_not() -> None:
    without, paying = changed("full_cache_pass_s", 1e-3)
    assert paying.target_pass_s(64.0, 8000.0) - without.target_pass_s(64.0, 8000.0) == pytest.approx(1e-3)
    assert paying.draft_pass_s(64.0, 8000.0) == without.draft_pass_s(64.0, 8000.0)
    assert float(paying.target_step(64.0, 8000.0).fixed_s - without.target_step(64.0, 8000.0).fixed_s) == pytest.approx(
        1e-3
    )


def test_a_sparse_draft_pays_by_sequence_and_layer() -> None:
    without, paying = changed("sparse_cache_sequence_s", 1e-6)
    assert paying.draft_pass_s(64.0, 8000.0) - without.draft_pass_s(64.0, 8000.0) == pytest.approx(64 * 32 * 1e-6)
    assert paying.target_pass_s(64.0, 8000.0) == without.target_pass_s(64.0, 8000.0)


def test_an_iteration_pays_by_sequence() -> None:
    without, paying = changed("iteration_sequence_s", 1e-5)
    assert paying.overhead_s(64.0, 8000.0) - without.overhead_s(64.0, 8000.0) == pytest.approx(64e-5)


def test_packed_weights_pay_for_unpacking() -> None:
    """Llama-2-7B: 6,607,077,376 weights in layers and LM head; embedding and norms are not unpacked."""
    asked = Query(
        "llama-2-7b",
        "a100-sxm-80gb",
        1,
        100,
        0,
        calibration="a100-sxm-80gb.gpt-fast",
        weights="int8-wo,lm_head=int8-wo",
    )
    s = resolve(asked)
    zero = with_calibration(s, with_values(s.machine.calibration, {"weight_unpack_s": 0.0}))
    extra = float(s.target_pass_s(1.0, 100.0)) - float(zero.target_pass_s(1.0, 100.0))
    unpack = s.machine.calibration.weight_unpack_s
    assert unpack.value > 0
    assert extra == pytest.approx(6_607_077_376 * unpack.value, rel=0.01)
    plain = resolve(Query("llama-2-7b", "a100-sxm-80gb", 1, 100, 0, calibration="a100-sxm-80gb.gpt-fast"))
    assert all(op.packed_weights == 0.0 for op in plain.target_ops(1.0, 100.0))
