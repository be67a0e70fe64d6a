"""Computes llama.cpp's constants on a device from the parameters that are fitted to its runs.

A constant is the product of a common value, a factor for the vendor and a factor for the device. Both factors
are expected to be 1. A device with few measurements therefore keeps almost the constants of its vendor, and a
vendor with few measurements keeps almost the common value.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perfmodel.specs import LLAMACPP, Calibration, GPUSpec
from perfmodel.validate.solving import Values
from perfmodel.validate.studies.llamacpp_curves import VALUE_BYTES, ExpectedCurve, vector_peak, with_factors
from perfmodel.validate.studies.llamacpp_prompts import PROMPT_TOKENS, prompt_peak_share
from perfmodel.validate.studies.scoped_constants import Term, products_over_scopes, with_sources

FUSED = "2025-09"
"""The month since which builds of llama.cpp launch fewer kernels. Passes of older builds have their own
factor.
"""
OLD = "old"
"""Scope of the factors for builds older than `FUSED`."""
EAGER = "eager"
"""Scope of the factors for devices without CUDA graphs. The host launches their kernels one by one."""
EAGER_ARCHITECTURES = ("Pascal", "Volta", "Turing")
"""NVIDIA architectures on which ggml-cuda captures no CUDA graphs. They are older than GGML_CUDA_CC_AMPERE
(recalled from memory).
"""
FITTED = "fitted to public_runs.csv"
EXPERT_FLOPS_SHARE = 0.3
"""The share of the peak FLOP/s that kernels of experts reach. It is set, not fitted."""
SET: dict[str, tuple[float, str]] = {
    "gemm_fixed_s": (0.0, "part of small_kernel_s"),
    "gemm_blend_power": (3.0, "not used beside gemm_efficiency"),
    "attention_flops_fraction": (0.3, "set: no prompt was timed"),
    "attention_fixed_s": (3e-6, "set"),
    "kv_reread_per_query": (0.0, "set: the contexts of iterations are short"),
    "small_bandwidth_fraction": (0.7, "set"),
    "scan_copies": (
        5.5,
        "steps of Nemotron-3-Super on DGX Spark at batch 1 to 32, github.com/ggml-org/llama.cpp",
    ),
    "routing_independence": (1.0, "set: fits end there"),
    "allreduce_multiplier": (1.0, "the curve of boards on PCIe"),
    "pass_fixed_s": (0.0, "part of small_kernel_s"),
    "token_s": (0.0, "part of gemm_efficiency"),
}
"""Constant that the measurements do not determine -> its value and the reason for it."""
REFERENCE_BANDWIDTH = 5e11
"""Memory bandwidth, in bytes per second, to which the fitted `iteration_fixed_s` applies. The constant of a
device is inversely proportional to its bandwidth, because an iteration copies states, hidden values and
logits.
"""
ALONE_TOKENS = {"NVIDIA": 4.0, "AMD": 4.0, "Apple": 31.0}
"""Vendor -> largest number of tokens of a pass in which each token reads its own experts. The number is the
limit of the matrix-vector kernels in ggml-cuda and ggml-metal (llama.cpp@0c1e57098).
"""
FITTED_ALONE = {
    "attention_bandwidth_fraction": Term(0.65, 0.3, 0.3, 0.15),
    "small_kernel_s": Term(7e-6, 0.6, 0.5, 0.3),
    "expert_popularity": Term(0.5, 0.6, 0.3, 0.0),
    "state_layer_s": Term(6e-6, 0.6, 0.3, 0.0),
    "drafted_token_s": Term(2e-4, 0.6, 0.3, 0.0),
    "iteration_fixed_s": Term(1e-3, 0.6, 0.3, 0.0),
}
"""Fitted constants that have the same name in a calibration."""
TOKENS = (1, 2, 4, 8, 16, 32)
"""Tokens of a pass at the knots of the curves of GEMMs."""
PROMPT = "prompt_share"
TERMS = FITTED_ALONE | {
    "expert_s": Term(1.3e-5, 0.5, 0.2, 0.0),
    "expert_share": Term(0.8, 0.2, 0.15, 0.1),
    "share": Term(1.0, 0.15, 0.1, 0.07),
    "flops_share": Term(0.45, 0.3, 0.2, 0.5),
    "vector_share": Term(0.11, 0.3, 0.2, 0.2),
    PROMPT: Term(0.24, 0.5, 0.2, 0.15),
    **{f"bf16@{n}": Term(1.0, 0.1, 0.1, 0.3) for n in (2, 4, 8)},
    **{f"bf16@{n}": Term(1.0, 0.08, 0.4, 0.0) for n in (16, 32)},
    "q4_k@1": Term(1.0, 0.1, 0.1, 0.1),
    **{f"q4_k@{n}": Term(1.0, 0.1, 0.1, 0.3) for n in (2, 4, 8, 16, 32)},
}
"""All fitted constants, including those of the curves of GEMMs and of the kernels of experts. Their expected
values and spreads are priors, which are choices.

- flops_share, vector_share: the share of the peak that kernels for many and for few tokens reach while they
  compute.
- prompt_share: the share of the int8 peak that GEMMs of a prompt reach (`prompt_peak_share`).
- ``bf16@N``: a factor on the expected share in a pass of N tokens.
- ``q4_k@N``: a further factor for formats with less than one byte per weight.
"""


@dataclass(frozen=True)
class DeviceConstants:
    """llama.cpp's constants on a device as functions of the fitted parameters.

    - old: whether the build is older than `FUSED`.
    """

    gpu: GPUSpec
    old: bool = False

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that apply to the device: all devices, the vendor and the device. If they apply, `OLD`
        and `EAGER` follow.
        """
        scopes = ["all", self.gpu.vendor, self.gpu.name]
        if self.old:
            scopes.append(OLD)
        if self.gpu.architecture.startswith(EAGER_ARCHITECTURES):
            scopes.append(EAGER)
        return tuple(scopes)

    def known(self, values: Values) -> dict[str, float]:
        """Name -> value of each constant on this device. A scope without a value has the factor 1."""
        constants = products_over_scopes(TERMS, self.scopes, values)
        constants["iteration_fixed_s"] *= REFERENCE_BANDWIDTH / self.gpu.memory_bandwidth_bytes_per_s
        return constants

    def calibration(self, values: Values) -> Calibration:
        """The calibration with these values.

        - values: place of a parameter -> value.
        """
        return Calibration.of_mapping(self.stated(values))

    def stated(self, values: Values, **more: Any) -> dict[str, Any]:
        """The content of the calibration file.

        - more: the other keys of the file.
        """
        constants = self.known(values)
        curves = self.curves(constants)
        kernel = {
            "fixed_s": constants["expert_s"],
            "bandwidth_fraction": constants["expert_share"],
            "flops_fraction": EXPERT_FLOPS_SHARE,
        }
        _, one_token_share = curves["bf16"][0]
        _, prompt_share = curves["bf16"][-1]
        alone = dict(SET)
        alone["gemm_bandwidth_fraction"] = one_token_share, FITTED
        alone["gemm_flops_fraction"] = prompt_share, f"as at {PROMPT_TOKENS} tokens"
        alone["expert_alone_tokens"] = ALONE_TOKENS.get(self.gpu.vendor, 1.0), "code of 0c1e57098"
        for name in FITTED_ALONE:
            alone[name] = min(constants[name], 1.0), FITTED
        return {
            "name": f"{self.gpu.name}.{LLAMACPP}",
            "gpu": self.gpu.name,
            "stack": LLAMACPP,
            "kind": "fitted",
            "fitted_on": ["public_runs.csv"],
            "date": datetime.date.min,
            "gemm_efficiency": {"source": FITTED, "knots": curves},
            "expert_kernels": {"source": FITTED, "kernels": {"bf16": kernel}},
            **with_sources(alone),
            **more,
        }

    def curves(self, constants: Mapping[str, float]) -> dict[str, list[tuple[float, float]]]:
        """Format -> the knots of its curve: pairs of the tokens of a pass and the share of the roofline that
        GEMMs reach.

        - constants: see `known`.
        """
        wide = {n: constants["share"] * constants.get(f"bf16@{n}", 1.0) for n in TOKENS}
        packed = {n: factor * constants[f"q4_k@{n}"] for n, factor in wide.items()}
        prompt = PROMPT_TOKENS, prompt_peak_share(self.gpu, constants[PROMPT])
        return {
            "bf16": [*with_factors(self._expected("bf16", constants), wide), prompt],
            "q4_k": [*with_factors(self._expected("q4_k", constants), packed), prompt],
        }

    def _expected(self, form: str, constants: Mapping[str, float]) -> ExpectedCurve:
        bandwidth = self.gpu.memory_bandwidth_bytes_per_s
        return ExpectedCurve(
            value_bytes=VALUE_BYTES[form],
            ridge=self.gpu.peak_flops("bf16") / bandwidth,
            vector_ridge=vector_peak(self.gpu) / bandwidth,
            flops_share=constants["flops_share"],
            vector_share=constants["vector_share"],
        )
