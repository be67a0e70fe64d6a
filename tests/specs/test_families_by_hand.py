"""Readers of families at the numbers where they turn: dense layers before experts, and which biases count."""

from typing import Any

import pytest

from perfmodel.specs.huggingface import _biases, experts
from perfmodel.specs.huggingface.families import FAMILIES, Family
from perfmodel.specs.huggingface.keys import Keys
from tests.validate.tiny import refused

SIZES = {
    "num_experts_per_tok": 2,
    "n_routed_experts": 8,
    "num_local_experts": 8,
    "moe_intermediate_size": 24,
    "intermediate_size": 48,
    "shared_intermediate_size": 12,
    "dense_intermediate_size": 96,
    "intermediate_size_mlp": 96,
}
MIMO_V2, MINIMAX_M3 = (FAMILIES[name].readers[1] for name in ("mimo_v2", "minimax_m3"))


@pytest.mark.parametrize(
    ("reader", "config", "dense"),
    [
        (MIMO_V2, {"moe_layer_freq": [0, 0, 1, 1, 1, 1]}, 2),
        (MIMO_V2, {"moe_layer_freq": [1] * 6}, 0),
        (MIMO_V2, {"moe_layer_freq": [0, 0, 1, 1, 1]}, None),
        (MIMO_V2, {"moe_layer_freq": [0, 0, 1, 1, 1, 2]}, None),
        (MINIMAX_M3, {"moe_layer_freq": [0, 0, 1, 1, 1, 1]}, 2),
        (
            MINIMAX_M3,
            {"mlp_layer_types": ["dense", "sparse", "sparse", "sparse", "sparse", "sparse"]},
            1,
        ),
        (experts.llama4, {}, 0),  # every layer from the first on
        (experts.llama4, {"interleave_moe_layer_step": 2}, 3),  # the second, fourth and sixth
        (experts.llama4, {"interleave_moe_layer_step": 4}, 5),  # the fourth
        (experts.llama4, {"moe_layers": [1, 2], "interleave_moe_layer_step": 1}, 4),
    ],
)
def test_dense_layers_of_six(reader: Any, config: dict[str, Any], dense: int | None) -> None:
    keys = Keys(SIZES | config, "file")
    if dense is None:
        refused("moe_layer_freq: must be a list of 6 zeros", reader, keys, 6)
        return
    found = reader(keys, 6)
    assert found["moe"]["first_dense_layers"] == dense
    assert found.get("intermediate_size", 48) == (48 if reader is MIMO_V2 else 96)


@pytest.mark.parametrize(
    ("rules", "config", "biases"),
    [
        # biases: of q, k and v, of o, of the MLP
        (("attention_bias", "mlp_bias"), {}, (0, 0, 0)),
        (("attention_bias", "mlp_bias"), {"attention_bias": True}, (1, 1, 0)),
        (("attention_bias", "mlp_bias"), {"mlp_bias": True}, (0, 0, 1)),
        (("attention_bias", "mlp_bias"), {"attention_bias": True, "attention_out_bias": False}, (1, 0, 0)),
        (("attention_bias_of_qkv",), {"attention_bias": True, "mlp_bias": True}, (1, 0, 0)),
        (("attention_bias", "bias_default"), {}, (1, 1, 0)),
        (("bias_default",), {"attention_bias": True}, (0, 0, 0)),
        (("use_bias",), {}, (1, 1, 1)),
        (("use_bias",), {"use_bias": False, "attention_bias": True}, (0, 0, 0)),
        (("unbiased",), {"attention_bias": False, "mlp_bias": False}, (0, 0, 0)),
        (("unbiased",), {"attention_bias": True}, "attention_bias: must be false"),
        (("unbiased",), {"mlp_bias": True}, "mlp_bias: must be false"),
    ],
)
def test_which_biases_count(rules: Any, config: dict[str, Any], biases: tuple[int, int, int] | str) -> None:
    keys = Keys({"model_type": "x"} | config, "file")
    family = Family("x", rules=rules)
    if isinstance(biases, str):
        refused(biases, _biases, keys, family)
    else:
        assert tuple(_biases(keys, family).values()) == tuple(map(bool, biases))
