"""Rows of families, and readers at the numbers where they turn: dense layers before experts, biases."""

import json
from pathlib import Path
from typing import Any

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.specs import ModelSpec, load_gpu
from perfmodel.specs.huggingface import experts, from_config
from perfmodel.specs.huggingface.biases import biases_of
from perfmodel.specs.huggingface.families import Family, family_of, rows
from perfmodel.specs.huggingface.keys import Keys
from perfmodel.specs.models.components import MoE
from tests.refusals import refused
from tests.specs.configs import sizes

TOY = """\
# A table of one family.

toylm toylm_text:
  source: modeling_toylm.py of its makers
  names: {intermediate_size: mlp.width, rope_theta: base}
  windows: {rule: every_nth_full, full_every: 3}
  experts: {experts: n_experts, per_token: n_active, width: n_wide, dense_layers: n_dense}
  without_effect: [n_shared_experts]
  rules: [attention_bias, heads_are_kv_heads, tied]
  flags: {qk_norm: norm_heads}
  if_true: {parallel: {norms_per_layer: 1}}
  fixed: {gated_mlp: false}
"""
TOY_FILE = sizes(6, 64, 8, 8, 40, 100, 512) | {
    "model_type": "toylm_text",
    "intermediate_size": None,
    "mlp": {"width": 48},
    "base": 5e5,
    "sliding_window": 32,
    "n_experts": 4,
    "n_active": 2,
    "n_wide": 24,
    "n_dense": 1,
    "n_shared_experts": 1,
    "norm_heads": True,
    "parallel": True,
}


def test_every_row_of_the_tables_is_read_once_and_has_its_source() -> None:
    names = [word for _, row in set(rows().values()) for word in row.partition(":")[0].split()]
    assert sorted(names) == sorted(rows())
    assert all(len(family_of(name).source) > 10 for name in names)


def toy(folder: Path, table: str = TOY) -> Family:
    folder.mkdir()
    (folder / "toy.yaml").write_text(table)
    return family_of("toylm_text", folder)


def test_one_more_row_is_one_more_family(tmp_path: Path) -> None:
    """Windows, experts, flags and names of keys follow from the table alone."""
    spec = from_config(TOY_FILE, "c.json", family=toy(tmp_path / "tables"))
    assert (spec.sliding_window, spec.num_sliding_layers) == (32, 4)  # all but the third and the sixth
    assert (spec.intermediate_size, spec.rope_theta, spec.tie_word_embeddings) == (48, 5e5, True)
    assert (spec.qk_norm, spec.norms_per_layer, spec.gated_mlp) == (True, 1, False)
    assert spec.moe == MoE(num_experts=4, experts_per_token=2, intermediate_size=24, first_dense_layers=1)
    refused(
        r"c\.json: mlp\.width: must be a whole number .* and it is missing",
        from_config,
        TOY_FILE | {"mlp": None},
        "c.json",
        family=toy(tmp_path / "again"),
    )


@pytest.mark.parametrize(
    ("good", "bad", "refusal"),
    [
        ("every_nth_full", "some", "windows.rule: must be one of all, all_if_stated, .*, given 'some'"),
        (", full_every: 3", "", "windows: .*full_every must be given with every_nth_full"),
        ("tied]", "tyed]", "rules.2: must be one of attention_bias, .*, given 'tyed'"),
        ("gated_mlp: false", "gated: false", "fixed: no field named 'gated'; did you mean gated_mlp"),
        ("qk_norm: norm_heads", "qk: norm_heads", "flags: no field named 'qk'; did you mean qk_norm"),
        ("  rules:", "  experts_by: ernie\n  rules:", "experts_by must not be given together with experts"),
        (
            "  rules:",
            "  layers: [latent, ltnt]\n  rules:",
            "layers: no reader named 'ltnt'; .* latent",
        ),
        ("  source: modeling_toylm.py of its makers\n", "", "must have the keys source"),
        ("tied]", "tied", r"toy\.yaml: must be valid YAML"),
    ],
)
def test_a_row_with_a_mistake_is_refused(tmp_path: Path, good: str, bad: str, refusal: str) -> None:
    assert TOY.count(good) == 1
    refused(refusal, toy, tmp_path / "tables", TOY.replace(good, bad))


NANBEIGE = sizes(22, 3072, 48, 48, 10_752, 166_144, 4096) | {"model_type": "nanbeige"}


def test_a_looped_model_stores_its_layers_once_and_reads_them_again(tmp_path: Path) -> None:
    """Nanbeige4.2-3B: 22 layers that run twice, each time with a cache of its own (SGLang 0.5.23)."""
    once, twice = (from_config(NANBEIGE | {"num_loops": n}, "c.json") for n in (1, 2))
    layers = 22 * (4 * 3072**2 + 3 * 3072 * 10_752 + 2 * 3072)
    assert once.total_params == twice.total_params == layers + 3072 + 2 * 166_144 * 3072
    assert once.num_hidden_layers == 22
    assert twice.num_hidden_layers == 44
    assert twice.kv_bytes_per_token() == 2 * once.kv_bytes_per_token() == 44 * 2 * 3072 * 2
    path = tmp_path / "config.json"
    steps = []
    for loops in (1, 2):
        path.write_text(json.dumps(NANBEIGE | {"num_loops": loops}))
        steps.append(whatif(str(path), "h100", 1, 1024, 0, calibration="ideal"))
    assert steps[1].memory.weight_bytes == steps[0].memory.weight_bytes
    read_again = layers * 2 / load_gpu("h100").memory_bandwidth_bytes_per_s
    loaded = [step.target_step.param_load_s for step in steps]
    assert loaded[1] - loaded[0] == pytest.approx(read_again, rel=1e-3)
    with pytest.raises(ValueError, match="loops must divide num_hidden_layers"):
        ModelSpec.of_mapping({**twice.as_mapping(), "loops": 3})


def test_dense_models_of_new_families() -> None:
    """K2-Horizon-3.7B stores 5.06B parameters (vllm recipes#910); Spark-X2.5 has a gate for each head."""
    horizon = sizes(36, 2560, 32, 8, 10_240, 250_624, 524_288) | {"head_dim": 128, "num_experts": 0}
    assert from_config(horizon | {"model_type": "k2_horizon"}, "c.json").total_params == 5_058_255_360
    refused("num_experts", from_config, horizon | {"model_type": "k2_horizon", "num_experts": 100}, "c.json")
    spark = sizes(4, 2048, 8, 2, 6656, 133_120, 8192) | {
        "model_type": "spark2_5",
        "head_dim": 256,
        "sliding_window": 512,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
        "headwise_attn_output_gate": True,
    }
    spec = from_config(spark, "c.json")
    assert spec.num_sliding_layers == 3
    assert [(gate.layers, gate.outputs) for gate in spec.projections] == [(1, 8), (3, 8)]
    assert not from_config(spark | {"headwise_attn_output_gate": False}, "c.json").projections


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
MIMO_V2, MINIMAX_M3 = (family_of(name).expert_fields for name in ("mimo_v2", "minimax_m3"))


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
        (MINIMAX_M3, {"mlp_layer_types": ["dense"] * 6}, 6),
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
    fields = reader(keys, 6)
    assert fields["moe"]["first_dense_layers"] == dense
    assert fields.get("intermediate_size", 48) == (48 if reader is MIMO_V2 else 96)


@pytest.mark.parametrize("kinds", [["dense", "sprase"] + ["sparse"] * 4, ["dense"] * 5, "dense"])
@pytest.mark.parametrize("reader", [MINIMAX_M3, experts.deepseek, experts.ernie])
def test_kinds_of_layers_that_nobody_knows_are_refused(reader: Any, kinds: Any) -> None:
    keys = Keys(SIZES | {"mlp_layer_types": kinds, "n_shared_experts": 0}, "file")
    refused("mlp_layer_types: must be a list of 6 words, each of dense or sparse", reader, keys, 6)


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
    family = Family(source="a page", rules=rules)
    if isinstance(biases, str):
        refused(biases, biases_of, keys, family)
    else:
        assert tuple(biases_of(keys, family).values()) == tuple(map(bool, biases))


def test_a_hybrid_file_that_lists_only_attention_has_no_states() -> None:
    """Granite-4.0's dense models are published as hybrids; they need none of the keys of Mamba."""
    file = sizes(2, 64, 8, 8, 40, 100, 512) | {
        "model_type": "granitemoehybrid",
        "layer_types": ["attention", "attention"],
        "num_local_experts": 0,
        "num_experts_per_tok": 0,
    }
    spec = from_config(file, "config.json")
    assert spec.linear_attention is None
    assert spec.attention_layers in (None, 2)


def test_jambas_attention_begins_at_its_offset() -> None:
    """Of nine layers the third and the seventh have attention; from the first on there would be three."""
    mamba = {"mamba_dt_rank": 4, "mamba_d_state": 16, "mamba_expand": 2, "mamba_d_conv": 4}
    attention = {"attn_layer_period": 4, "attn_layer_offset": 2}
    file = sizes(9, 64, 8, 8, 40, 100, 512) | mamba | attention
    file |= {"model_type": "jamba", "num_experts": 1, "num_experts_per_tok": 2}
    states = from_config(file, "config.json").linear_attention
    assert states is not None
    assert states.layers == 7
