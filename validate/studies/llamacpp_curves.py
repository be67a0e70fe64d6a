"""The share of the roofline that GEMMs of llama.cpp are expected to reach, as a function of the tokens of a
pass. The fitted constants are factors on this share.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from perfmodel.specs import GPUSpec

ONE_TOKEN = 0.85
"""Expected share of the bandwidth that the GEMMs of one token reach."""
VECTOR_TOKENS = 8
"""Largest number of tokens of a pass in which vector units multiply quantised weights (MMVQ_MAX_BATCH_SIZE in
ggml-cuda/mmvq.cuh, and ``mul_mv_ext`` in ggml-metal).
"""
LANE_FLOPS = 64 * 8
"""FLOPs of a multiprocessor per cycle with dp4a (CUDA C++ programming guide, arithmetic throughput; RDNA3 ISA
guide, v_dot4; both recalled from memory).
"""
OVERLAP = 2.5
"""Exponent for the overlap of loading and computing in vector kernels: 1 means no overlap, and infinity means
full overlap. The value comes from iterations of one model on six devices (sudoingX/qwen38-mtp), whose peaks
are 25 to 164 FLOPs per byte.
"""
VALUE_BYTES = {"bf16": 34 / 32, "q4_k": 144 / 256}
"""Curve -> the bytes per weight for which its expected shares are computed: those of q8_0 and of q4_k."""


@dataclass(frozen=True)
class ExpectedCurve:
    """The expected share of the roofline that GEMMs of a format reach, as a function of the tokens of a pass.

    - value_bytes: bytes per weight.
    - ridge, vector_ridge: peak FLOP/s of matrix and of vector units over the memory bandwidth in bytes/s.
    - flops_share, vector_share: the shares of these peaks that kernels reach while they compute.
    """

    value_bytes: float
    ridge: float
    vector_ridge: float
    flops_share: float
    vector_share: float

    def share(self, tokens: int) -> float:
        """The expected share of the roofline in a pass of `tokens` tokens. For one token, it is `ONE_TOKEN`
        if memory limits the pass.
        """
        roofline = max(1.0, 2.0 * tokens / (self.ridge * self.value_bytes))
        return ONE_TOKEN * roofline * self._weight_time(1) / self._weight_time(tokens)

    def _weight_time(self, tokens: int) -> float:
        """The time for one weight, in units of the time to load one byte. For few tokens, formats below one
        byte per weight use vector units.
        """
        if self.value_bytes >= 1.0:
            return self._matrix_time(tokens)
        if tokens <= VECTOR_TOKENS:
            return self._vector_time(tokens)
        return max(self._vector_time(VECTOR_TOKENS), self._matrix_time(tokens))

    def _matrix_time(self, tokens: int) -> float:
        """The time for one weight on matrix units, where loading and computing do not overlap."""
        return self._loading + 2.0 * tokens / (self.ridge * self.flops_share)

    def _vector_time(self, tokens: int) -> float:
        """The time for one weight on vector units, where loading and computing overlap partly (`OVERLAP`)."""
        computing = 2.0 * tokens / (self.vector_ridge * self.vector_share)
        return float((self._loading**OVERLAP + computing**OVERLAP) ** (1.0 / OVERLAP))

    @property
    def _loading(self) -> float:
        return self.value_bytes / ONE_TOKEN


def vector_peak(gpu: GPUSpec) -> float:
    """The peak FLOP/s for products of 8-bit integers on vector units, at most the 16-bit peak.

    A multiprocessor or compute unit has 64 lanes with four multiply-adds each (dp4a). For a device without a
    stated clock, the result is the 16-bit peak, which is the same number on GeForce and Radeon boards.
    """
    peak = gpu.peak_flops("bf16")
    if gpu.multiprocessors is None or gpu.boost_clock is None:
        return peak
    return min(peak, LANE_FLOPS * gpu.multiprocessors.si * gpu.boost_clock.si)


def with_factors(expected: ExpectedCurve, factors: Mapping[int, float]) -> list[tuple[float, float]]:
    """Pairs of the tokens of a pass and the share of the roofline. The share is the expected share times a
    factor, but at most 1.

    - factors: tokens -> factor.
    """
    return [(tokens, min(factor * expected.share(tokens), 1.0)) for tokens, factor in factors.items()]
