"""Curves of GEMMs in llama.cpp, by hand: the share of the roofline by the tokens of a pass."""

from dataclasses import replace

import pytest

from perfmodel.specs import load_gpu
from perfmodel.validate.studies.llamacpp_curves import ONE_TOKEN, ExpectedCurve, vector_peak, with_factors

Q8 = ExpectedCurve(value_bytes=1.0, ridge=200.0, vector_ridge=50.0, flops_share=0.5, vector_share=0.5)
"""8-bit weights: loading and computing one after the other."""


def test_one_token_reaches_the_share_of_the_bandwidth() -> None:
    assert Q8.share(1) == pytest.approx(ONE_TOKEN)


def test_sixteen_tokens_also_compute() -> None:
    """In times of loading a byte at full bandwidth: 1/0.85 to load, 2 n / 100 to compute n tokens."""
    loading = 1 / ONE_TOKEN
    assert Q8.share(16) == pytest.approx(ONE_TOKEN * (loading + 0.02) / (loading + 0.32))


def test_packed_weights_load_and_compute_at_once_for_up_to_eight_tokens() -> None:
    """4-bit weights take 0.5/0.85 to load. Vector units take 2 n / 25 to compute n tokens, matrix units
    2 n / 100. From nine tokens on, matrix units take at least the time of vector units for eight.
    """
    packed = replace(Q8, value_bytes=0.5)
    loading = 0.5 / ONE_TOKEN

    def vector(n: int) -> float:
        return (loading**2.5 + (2 * n / 25) ** 2.5) ** (1 / 2.5)

    assert packed.share(4) == pytest.approx(ONE_TOKEN * vector(1) / vector(4))
    assert packed.share(8) == pytest.approx(ONE_TOKEN * vector(1) / vector(8))
    assert packed.share(9) == pytest.approx(ONE_TOKEN * vector(1) / vector(8))
    assert packed.share(40) == pytest.approx(ONE_TOKEN * vector(1) / (loading + 0.8))


def test_a_curve_never_lies_above_the_roofline() -> None:
    (one, high), (four, low) = with_factors(Q8, {1: 2.0, 4: 0.5})
    assert (one, high) == (1, 1.0)
    assert (four, low) == (4, pytest.approx(0.5 * Q8.share(4)))


@pytest.mark.parametrize(
    ("device", "flops"),
    [("rtx-4090", 512 * 128 * 2.52e9), ("h100", 512 * 132 * 1.83e9)],
)
def test_vector_units_of_a_multiprocessor_do_512_operations_in_a_cycle(device: str, flops: float) -> None:
    gpu = load_gpu(device)
    assert vector_peak(gpu) == pytest.approx(min(flops, gpu.peak_flops("bf16")))


@pytest.mark.parametrize("device", ["gb200", "a10"])
def test_a_device_without_stated_multiprocessors_or_clock_has_its_16_bit_peak(device: str) -> None:
    gpu = load_gpu(device)
    assert vector_peak(gpu) == gpu.peak_flops("bf16")
