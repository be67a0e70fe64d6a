"""llama.cpp's constants on a device, from values of its scopes by hand."""

import pytest

from perfmodel.specs import load_gpu
from perfmodel.validate.studies.llamacpp_constants import TERMS, DeviceConstants
from perfmodel.validate.studies.scoped_constants import Term, products_over_scopes

EXPECTED = {f"all.{name}": term.expected for name, term in TERMS.items()}


def test_a_constant_is_the_product_of_its_scopes() -> None:
    values = {"all.a": 2.0, "NVIDIA.a": 3.0, "rtx-4090.a": 5.0, "AMD.a": 7.0, "all.b": 11.0}
    scopes = ("all", "NVIDIA", "rtx-4090")
    assert products_over_scopes(["a", "b", "c"], scopes, values) == {"a": 30.0, "b": 11.0, "c": 1.0}
    assert Term(1.0, 0.3, 0.2, 0.1).spreads == (0.3, 0.2, 0.1)


@pytest.mark.parametrize(
    ("device", "old", "further"),
    [
        ("rtx-4090", False, ()),
        ("rtx-4090", True, ("old",)),
        ("t4", False, ("eager",)),
        ("v100", True, ("old", "eager")),
    ],
)
def test_scopes_of_old_builds_and_of_devices_without_cuda_graphs(device, old, further) -> None:
    gpu = load_gpu(device)
    assert DeviceConstants(gpu, old).scopes == ("all", gpu.vendor, gpu.name, *further)


def test_the_time_outside_passes_is_inversely_proportional_to_the_bandwidth() -> None:
    """1 ms at 500 GB/s."""
    gpu = load_gpu("rtx-4090")
    known = DeviceConstants(gpu).known({"all.iteration_fixed_s": 1e-3})
    assert known["iteration_fixed_s"] == pytest.approx(1e-3 * 5e11 / gpu.memory_bandwidth_bytes_per_s)


@pytest.mark.parametrize(("device", "tokens"), [("h100", 4.0), ("mi300x", 4.0), ("m4-max", 31.0)])
def test_few_tokens_read_their_own_experts(device: str, tokens: float) -> None:
    stated = DeviceConstants(load_gpu(device)).stated(EXPECTED)
    assert stated["expert_alone_tokens"]["value"] == tokens


def test_a_calibration_states_its_fitted_and_its_set_constants() -> None:
    stated = DeviceConstants(load_gpu("rtx-4090")).stated(EXPECTED | {"all.expert_popularity": 1.4})
    assert stated["expert_popularity"]["value"] == 1.0, "a share"
    assert stated["scan_copies"]["value"] == 5.5
    assert stated["routing_independence"]["value"] == 1.0
    assert stated["expert_kernels"]["kernels"]["bf16"]["flops_fraction"] == 0.3
    knots = stated["gemm_efficiency"]["knots"]["bf16"]
    assert [tokens for tokens, _ in knots] == [1, 2, 4, 8, 16, 32, 512]
    assert stated["gemm_bandwidth_fraction"]["value"] == knots[0][1]
    assert stated["gemm_flops_fraction"]["value"] == knots[-1][1]
