"""Eight-bit weights and caches: what is stored, and where it cannot be run; test_greedy.py has their
losslessness.
"""

from itertools import combinations
from unittest.mock import Mock

import pytest
import torch

from perfmodel.costs import Degrees, shard
from perfmodel.specs import MoE, Precision, kv_format, weight_format
from perfmodel.validate.decoder import Model, RandomWeights, Request, backends, build, make_decoder
from perfmodel.validate.decoder.fp8 import (
    FP8,
    Fp8Linear,
    by_row,
    check_runs,
    quantise,
    to_fp8,
)
from perfmodel.validate.decoder.weights import weight_bytes
from tests.refusals import refused
from tests.validate.tiny_model import tiny_spec

CPU = torch.device("cpu")
NEW = 24


@pytest.fixture(scope="module")
def eight() -> Model:
    return build(tiny_spec(), RandomWeights(0, CPU, torch.float64, 0.3), fp8=True)


def test_a_weight_by_hand() -> None:
    """Peaks 448 and 0.5: scales 1 and 0.5 / 448. 300 lies between 288 and 320 (steps of 32), 89.6 between 88
    and 96.
    """
    weight = torch.tensor([[448.0, -300.0, 1.0], [0.5, -0.25, 0.1]])
    dense = torch.nn.Linear(3, 2)
    dense.weight.data = weight
    linear = Fp8Linear(dense)
    assert linear.weight.dtype == FP8
    assert linear.weight.float().tolist() == [[448.0, -288.0, 1.0], [448.0, -224.0, 88.0]]
    assert linear.scale.tolist() == pytest.approx([1.0, 0.5 / 448], rel=1e-7)
    codes, scale = by_row(torch.zeros(2, 4), torch.zeros(2, 1))
    assert codes.float().eq(0).all()
    assert scale.gt(0).all()
    saturated = to_fp8(torch.tensor([1e9, -465.0, 0.001]))
    assert saturated.float().tolist() == [448.0, -448.0, 2**-9]
    mocked = Mock()
    to_fp8(mocked)
    mocked.clamp.assert_called_once_with(-448.0, 448.0)  # what this torch does by itself, older ones do not
    assert linear.bias is not None
    linear.bias.data = torch.tensor([10.0, 20.0])
    ones = linear(torch.ones(1, 3))
    first = 10 + 448 - 288 + 1
    second = 20 + (448 - 224 + 88) * 0.5 / 448
    assert ones.tolist()[0] == pytest.approx([first, second])


MOE = MoE(num_experts=5, experts_per_token=2, intermediate_size=24, first_dense_layers=1)


def test_experts_of_eight_bits(prompts: list[list[int]]) -> None:
    """A scale for each output of each expert, none for the router; as many bytes as the engine counts."""
    weights = RandomWeights(0, CPU, torch.float64, 0.3)
    narrow, wide = (build(tiny_spec(moe=MOE), weights, fp8=fp8) for fp8 in (True, False))
    actual = narrow.layers[1].mlp
    theirs = wide.layers[1].mlp
    assert actual.gate_up.dtype == FP8
    assert actual.down.dtype == FP8
    assert actual.router.dtype == torch.float64
    for name in ("gate_up", "down"):
        whole = getattr(theirs, name)
        codes, scale = by_row(whole[3], whole[3].abs().amax(1, keepdim=True))
        assert torch.equal(getattr(actual, name)[3].float(), codes.float())
        assert torch.equal(actual.scales[name][3], scale[:, 0])
    again = build(tiny_spec(moe=MOE), weights)
    quantise(again)
    assert torch.equal(again.layers[1].mlp.down.float(), actual.down.float())
    scales = sum(p.numel() for name, p in narrow.named_parameters() if "scale" in name)
    counted = shard(
        narrow.spec, Degrees(1), Precision(weight_format("fp8"), kv_format("fp8"))
    ).stored_weight_bytes
    assert weight_bytes(narrow, torch.bfloat16) == counted + 2 * scales
    assert tokens(narrow, prompts, gamma=3, draft_kv="snapkv:24,window=8") == tokens(narrow, prompts)
    assert tokens(narrow, prompts) != tokens(wide, prompts)


def tokens(
    model: Model, prompts: list[list[int]], small: Model | None = None, **settings: object
) -> list[list[int]]:
    request = Request(len(prompts), 70, NEW, **settings)  # type: ignore[arg-type]
    return make_decoder(model, request, small).generate(prompts, NEW).tokens


def test_formats_change_what_is_decoded(eight: Model, target: Model, prompts: list[list[int]]) -> None:
    """Else the losslessness of each of them (test_greedy.py) would show nothing."""
    every = [tokens(model, prompts, kv_dtype=kv) for model in (eight, target) for kv in ("fp8", "auto")]
    assert all(one != other for one, other in combinations(every, 2))


HOPPER = (9, 0)
ADA = (8, 9)
AMPERE = (8, 0)


def test_devices_without_the_format_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    cuda = torch.device("cuda")
    bf16 = torch.bfloat16
    names = {HOPPER: ("triton", "triton"), ADA: ("triton", "triton"), AMPERE: ("sdpa", "torch")}
    for capability, (attention, pointwise) in names.items():
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, version=capability: version)
        assert backends.choose("auto", cuda, bf16, fp8=True).name == attention
        assert backends.pointwise("auto", cuda, bf16, fp8=True).name == pointwise
        assert backends.pointwise("auto", cuda, bf16, fp8=True).fp8
        assert backends.choose("auto", cuda, bf16).name == "triton"
    for choice in (backends.choose, backends.pointwise):
        refused(r"a CUDA device of compute capability 8\.9 or later", choice, "triton", cuda, bf16, fp8=True)
    refused("need bf16 activations and a CUDA device", check_runs, cuda, bf16)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: HOPPER)
    check_runs(cuda, bf16)
    refused("fp8 weights: need bf16 activations", check_runs, cuda, torch.float32)
