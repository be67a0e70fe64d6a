"""Number formats and what checkpoints come in: bytes by hand, every quantiser's file, refusals."""

import json
from pathlib import Path
from typing import Any

import pytest

from perfmodel.answers.query import Query, resolve
from perfmodel.costs import Shard, forward, shard
from perfmodel.errors import InputError
from perfmodel.kv import parse_kv
from perfmodel.operations import Op
from perfmodel.specs.formats import weight_format
from perfmodel.specs.huggingface import from_config
from perfmodel.specs.huggingface.keys import Keys
from perfmodel.specs.huggingface.schemes import scheme_of
from perfmodel.specs.model import load_model, precision_of
from tests.specs.configs import sizes, table

FULL = parse_kv("full")


def part(model: str, weights: str | None = None, peaks: tuple[str, ...] = ("bf16", "fp8", "int8")) -> Shard:
    spec = load_model(model)
    return shard(spec, 1, precision_of(spec, peaks, weights))


def ops(model: str, weights: str | None = None, batch: float = 1.0) -> dict[str, Op]:
    return {op.name: op for op in forward(part(model, weights), batch, 1.0, 100.0, FULL)}


# Bytes of a value.


@pytest.mark.parametrize(("name", "bits", "compute", "input_bytes"), [
    ("bf16", 16, "bf16", None),
    ("fp8", 8, "fp8", 1.0),
    ("fp8-block", 8 + 32 / (128 * 128), "fp8", 1 + 4 / 128),  # one fp32 scale a block
    ("fp8-block-wo", 8 + 32 / (128 * 128), "bf16", None),
    ("int8", 8, "int8", 1.0),
    ("mxfp8", 8 + 8 / 32, "fp8", 1 + 1 / 32),
    ("nvfp4", 4 + 8 / 16, "fp4", 0.5625),  # one fp8 scale per 16
    ("mxfp4", 4 + 8 / 32, "bf16", None),  # one e8m0 scale per 32
    ("mxfp4-a8", 4.25, "fp8", 1 + 1 / 32),
    ("mxfp4-a4", 4.25, "fp4", 0.5 + 1 / 32),
    ("nvfp4-wo", 4.5, "bf16", None),
    ("int4-g128", 4 + 32 / 128, "bf16", None),  # bf16 scale and zero
    ("int4-g128-sym-a8", 4 + 16 / 128, "fp8", 1.0),
    ("int8-g64", 8 + 32 / 64, "bf16", None),
    ("gptq", 4 + 16 / 128, "bf16", None),
    ("awq-g64", 4 + 20 / 64, "bf16", None),
    ("nf4", 4 + 32 / 64, "bf16", None),  # one fp32 a block of 64
    ("nf4-dq", 4 + 8 / 64 + 32 / (64 * 256), "bf16", None),
    ("nvfp4*3+bf16*1", (3 * 4.5 + 16) / 4, "fp4", 0.5625),
])  # fmt: skip
def test_bits_of_a_weight_and_what_it_runs_at(name: str, bits: float, compute: str, input_bytes: float | None) -> None:
    """Formats that quantise activations run at their peak; weight-only ones in bf16."""
    form = weight_format(name).base
    assert form.bytes_per_value * 8 == pytest.approx(bits, rel=1e-12)
    assert (form.compute, form.input_bytes) == (compute, input_bytes)


@pytest.mark.parametrize(("name", "words"), [
    ("fp9", "no weight format named 'fp9'; did you mean fp8"),
    ("fp8,head=bf16", "PART one of attention, indexer, recurrent, mlp"), ("fp8,lm_head", "PART=FORMAT"),
    ("fp8,o=fp8,o=bf16", "o is given twice"), ("bf16+fp8", "FORMAT[*]LAYERS"), ("bf16*0+fp8*3", "FORMAT[*]LAYERS"),
    ("int4-wo", "no weight format"), ("awq-g64-sym", "no weight format"), ("int4-g0", "no weight format"),
])  # fmt: skip
def test_refused_names(name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        weight_format(name)


# Formats by tensor.


@pytest.mark.parametrize("weights", ["fp8", "fp8-block", "int8", "nvfp4", "int4-g128", "awq", "mxfp4"])
def test_the_head_stays_in_bf16(weights: str) -> None:
    """Llama-3.1-8B: 6,979,321,856 weights in the layers, 525,336,576 in the LM head."""
    counted = ops("llama-3.1-8b", weights)
    each = weight_format(weights).base.bytes_per_value
    assert counted["lm_head"].cost.weight_bytes == 2 * 525_336_576
    assert counted["lm_head"].compute == "bf16"
    layers = sum(float(op.cost.weight_bytes) for op in counted.values()) - 2 * 525_336_576
    assert layers == pytest.approx(6_979_321_856 * each, rel=1e-12)
    assert ops("llama-3.1-8b", f"{weights},lm_head={weights}")["lm_head"].cost.weight_bytes == 525_336_576 * each


def test_parts_and_single_gemms_have_formats_of_their_own() -> None:
    counted = ops("llama-3.1-8b", "nvfp4,attention=fp8,o=bf16")
    hidden, layers = 4096, 32
    assert counted["qkv"].cost.weight_bytes == layers * hidden * 6144
    assert counted["o"].cost.weight_bytes == layers * hidden * hidden * 2
    assert counted["down"].cost.weight_bytes == layers * hidden * 14336 * 0.5625
    assert [counted[name].compute for name in ("qkv", "o", "down", "lm_head")] == ["fp8", "bf16", "fp4", "bf16"]
    assert [counted[name].quantisations for name in ("qkv", "o", "down", "lm_head")] == [32, 0, 32, 0]


def test_a_quantised_gemm_reads_quantised_inputs() -> None:
    """`down` of Llama-3.1-8B, 7 tokens: 14336 inputs at a byte each, 4096 outputs at two."""
    counted = ops("llama-3.1-8b", "fp8", 7.0)["down"]
    assert counted.cost.activation_bytes == 7 * 32 * (14336 + 2 * 4096)
    weight_only = ops("llama-3.1-8b", "fp8-wo", 7.0)["down"]
    assert weight_only.cost.activation_bytes == 7 * 32 * 2 * (14336 + 4096)
    assert (weight_only.compute, weight_only.quantisations) == ("bf16", 0)
    assert weight_only.packed_weights == 32 * 14336 * 4096


# Checkpoints as they ship.


def test_gpt_oss_20b_by_hand() -> None:
    """Experts 24 x 32 x 3 x 2880^2 at 4.25 bits with bf16 biases, all else bf16; the files weigh 13.8 GB (HF page)."""
    experts, biases, sinks = 24 * 32 * 3 * 2880**2, 24 * 32 * 3 * 2880, 24 * 64
    assert part("gpt-oss-20b").precision.weights.name == "bf16,experts=mxfp4"
    rest = load_model("gpt-oss-20b").total_params - experts - biases - sinks
    stored = part("gpt-oss-20b").stored_weight_bytes
    assert stored == pytest.approx(experts * 4.25 / 8 + 2 * (biases + rest), rel=1e-12)
    assert stored / 1e9 == pytest.approx(13.8, abs=0.05)
    touched = ops("gpt-oss-20b", batch=1e9)["experts"]
    assert touched.cost.weight_bytes == pytest.approx(experts * 4.25 / 8 + 2 * biases)
    assert touched.compute == "bf16"


def test_a_device_without_the_peak_runs_weight_only() -> None:
    own = weight_format("nvfp4,attention=fp8,o=nvfp4*2+bf16*1")
    assert own.within(("bf16", "fp8")).name == "nvfp4-wo,attention=fp8,o=nvfp4-wo*2+bf16*1"
    assert own.within(("bf16", "fp8", "fp4")) == own
    assert weight_format("bf16,experts=mxfp4").within(("bf16", "fp8", "fp4")).name == "bf16,experts=mxfp4-a8"
    asked = Query("deepseek-v3", "a100-sxm-80gb", 1, 4000, tp=8, alpha=0.8, gamma=1)
    assert resolve(asked).precision.weights.name == "fp8-block-wo"
    with pytest.raises(InputError, match="--weights: a100-sxm-80gb has no published fp8 peak"):
        resolve(Query("deepseek-v3", "a100-sxm-80gb", 1, 4000, tp=8, alpha=0.8, weights="fp8-block"))


def test_an_mtp_layer_that_the_checkpoint_keeps_in_bf16(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MOE))
    excluded = ["lm_head", *(f"model.layers.{i}.self_attn*" for i in range(4)), "model.layers.4*"]
    quantised = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": excluded}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(quantised))
    model = load_model(str(tmp_path))
    assert (model.weights, model.kv_dtype) == ("nvfp4,attention=bf16,mtp=bf16", "fp8")
    s = resolve(Query(str(tmp_path), "b200-sxm-180gb", 1, 4000, draft="mtp", alpha=0.8))
    assert (s.draft.precision.weights.name, s.draft.precision.kv.name) == ("bf16", "fp8")


# Files of quantisers. Key subsets of published checkpoints, the layers cut to four.

DENSE: dict[str, Any] = {"model_type": "llama", **sizes(4, 1024, 8, 8, 4096, 1000, 4096)}
MOE: dict[str, Any] = {
    **DENSE, "model_type": "deepseek_v3", "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": 256,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 16, "n_shared_experts": 1,
    "num_experts_per_tok": 2, "num_nextn_predict_layers": 1, "moe_intermediate_size": 512,
}  # fmt: skip
TINY = {tiny["model_type"]: {"model_type": tiny["model_type"], **sizes(7, 64, 8, 4, 96, 101, 512), **tiny["keys"],
                             **tiny.get("file", {})} for tiny in table("tiny_configs")}  # fmt: skip
W4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}
F4 = {"num_bits": 4, "type": "float", "group_size": 16}
F8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
KIMI = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]


def compressed(weights: dict[str, Any], inputs: dict[str, Any] | None = None, ignore: list[str] | None = None) -> Any:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    kept = ["lm_head"] if ignore is None else ignore
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": kept}


def modelopt(algorithm: str, ignore: list[str] | None = None, **keys: Any) -> dict[str, Any]:
    kept = ["lm_head"] if ignore is None else ignore
    return {"quant_method": "modelopt", "quant_algo": algorithm, "ignore": kept, **keys}


def own(config: dict[str, Any], quantisation: dict[str, Any]) -> tuple[str, str]:
    spec = from_config({**config, "quantization_config": quantisation}, "config.json")
    return spec.weights, spec.kv_dtype


@pytest.mark.parametrize(
    ("config", "quantisation", "weights"),
    [
        (DENSE, {"quant_method": "fp8", "activation_scheme": "static"}, "fp8"),
        (MOE, {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["gate", "lm_head"]},
         "fp8-block"),  # MiniMax-M2.5
        (MOE, {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.0.mlp",
                                                                  "model.layers.*.mlp.shared_experts", "lm_head"]},
         "bf16,experts=mxfp4"),  # gpt-oss
        (MOE, compressed(W4, None, KIMI), "bf16,experts=int4-g32-sym"),  # Kimi-K2.5
        (DENSE, modelopt("NVFP4", ["lm_head", *(f"model.layers.{i}.self_attn*" for i in range(4))]),
         "nvfp4,attention=bf16"),  # Gemma-4-31B-IT-NVFP4
        (MOE, modelopt("NVFP4", ["lm_head", "model.layers.0*", "model.layers.1.*", "model.layers.2.self_attn*",
                                 "model.layers.3.self_attn*", "model.layers.2.mlp.shared_experts*",
                                 "model.layers.3.mlp.shared_experts*"]),
         "bf16,experts=bf16*1+nvfp4*2"),  # GLM-5.1-NVFP4
        (DENSE, modelopt("MIXED_PRECISION", [], quantized_layers={
            **{f"model.layers.{i}.self_attn.{p}_proj": {"quant_algo": "FP8"} for i in range(4) for p in "qkvo"},
            **{f"model.layers.{i}.mlp.{p}_proj": {"quant_algo": "W4A16_NVFP4"} for i in range(4)
               for p in ("gate", "up", "down")}, "lm_head": {"quant_algo": "W4A16_NVFP4"}}),
         "fp8,mlp=nvfp4-wo,lm_head=nvfp4-wo"),  # Qwen3.6-27B-NVFP4
        (DENSE, {"quant_method": "gptq", "bits": 4, "group_size": 128, "lm_head": True},
         "int4-g128-sym,lm_head=int4-g128-sym"),
        (DENSE, {"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["model.layers.0.self_attn.q_proj"]},
         "fp8,qkv=bf16*1+fp8*3"),  # Llama-3.1-405B-FP8
        (MOE, {"quant_method": "compressed-tensors", "ignore": ["lm_head"], "config_groups": {"group_0": {
            "targets": [r"re:.*mlp\.experts.*"], "weights": W4}}}, "bf16,experts=int4-g32-sym"),
        (DENSE, {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True, "extra_config": {
            f"model.layers.{i}.mlp.down_proj": {"bits": 16} for i in range(4)}}, "int4-g128-sym,down=bf16"),
        (DENSE, {"quant_method": "quark", "exclude": ["lm_head"], "global_quant_config": {
            "weight": {"dtype": "fp4", "group_size": 32}, "input_tensors": {"dtype": "fp4"}},
            "layer_quant_config": {"*self_attn*": {"weight": {"dtype": "fp8_e4m3"},
                                                   "input_tensors": {"dtype": "fp8_e4m3"}}}},
         "mxfp4-a4,attention=fp8"),  # amd/*-MXFP4
        (DENSE, {"bits": 4, "group_size": 64, "model.layers.0.mlp.down_proj": {"bits": 8, "group_size": 64}},
         "int4-g64,down=int8-g64*1+int4-g64*3,lm_head=int4-g64,embedding=int4-g64"),  # mlx-community
        (DENSE, {}, "bf16"),
        (TINY["nemotron_h"], modelopt("FP8", [f"backbone.layers.{i}.mixer.in_proj" for i in (0, 2, 5)]),
         "fp8,state_in=bf16"),
        (TINY["nemotron_h"], modelopt("FP8", ["backbone.layers.3*"]), "fp8,attention=bf16"),
        (TINY["nemotron_h"], modelopt("FP8", ["backbone.layers.6*"]), "fp8,mlp=bf16"),
        (TINY["nemotron_h"], modelopt("FP8", ["backbone.layers.1*", "backbone.layers.4*"]),
         "fp8,shared=bf16,experts=bf16"),
        (TINY["qwen3_next"] | {"layer_types": ["linear_attention", "full_attention"] * 3 + ["linear_attention"]},
         modelopt("FP8", ["model.layers.0.linear_attn*"]), "fp8,recurrent=bf16*1+fp8*3"),
        (TINY["lfm2"] | {"layer_types": ["conv", "conv", "full_attention"] * 2 + ["conv"]},
         modelopt("FP8", [f"model.layers.{i}.conv.in_proj" for i in range(7)]), "fp8,state_in=bf16"),
    ],
)  # fmt: skip
def test_a_checkpoints_own_formats(config: dict[str, Any], quantisation: dict[str, Any], weights: str) -> None:
    assert own(config, quantisation) == (weights, "bf16")


def quark(kind: str, inputs: str | None = None, **more: Any) -> dict[str, Any]:
    given = {"input_tensors": {"dtype": inputs}} if inputs else {}
    return {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": kind, **more}, **given}}


def mlx(bits: int, group: int, **mode: str) -> dict[str, Any]:
    return {"bits": bits, "group_size": group, **mode}


def by_groups(method: str, group: int = 128, bits: int = 4, **more: Any) -> dict[str, Any]:
    return {"quant_method": method, "bits": bits, "group_size": group, **more}


def torchao(kind: str, **more: Any) -> dict[str, Any]:
    return {"quant_method": "torchao", "quant_type": kind, "quant_type_kwargs": more}


FORMS: dict[str, list[dict[str, Any]]] = {
    "awq-g64": [{"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, quark("uint4", group_size=64),
                by_groups("gptq", 64, sym=False)],
    "int4-g64-sym": [by_groups("awq", 64, zero_point=False), by_groups("auto-round", 64)],
    "int4": [by_groups("gptq", 0), by_groups("gptq", -1), quark("int4"), quark("uint4", group_size=-1),
             compressed({**W4, "group_size": -1}), compressed({"num_bits": 4, "type": "int", "strategy": "channel"})],
    "int4-g1-sym": [by_groups("gptq", 1), quark("int4", group_size=1), compressed({**W4, "group_size": 1})],
    "int4-g9999-sym": [by_groups("gptq", 9999)],
    "int4-g128-sym": [by_groups("auto-round", extra_config={"model.layers.0.mlp.down_proj": {"group_size": 64}})],
    "int4-g32-sym": [quark("int4", group_size=32)],
    "int4-g128-sym-a8": [quark("int4", "int8", group_size=128), torchao("float8_dynamic_activation_int4_weight"),
                         modelopt("W4A8_AWQ"), compressed({"num_bits": 4, "type": "int", "group_size": 128}, F8)],
    "awq-g32": [compressed({**W4, "symmetric": False}), by_groups("awq", 32)],
    "int4-g128": [torchao("int4_weight_only"), torchao("int4_weight_only", inner_k_tiles=8), mlx(4, 128)],
    "int4-g9999": [torchao("int4_weight_only", group_size=9999), mlx(4, 9999)],
    "int4-g32": [mlx(4, 32, mode="affine")],
    "int2-g64": [mlx(2, 64)],
    "int8-g32": [mlx(8, 32)],
    "mxfp4": [mlx(4, 32, mode="mxfp4"), quark("fp4"), quark("mxfp4", group_size=32),
              compressed({**F4, "group_size": 32})],
    "nvfp4": [compressed(F4, F4)],
    "nvfp4-wo": [mlx(4, 16, mode="nvfp4"), compressed(F4)],
    "nf4": [{"quant_method": "bitsandbytes", "load_in_4bit": True}],
    "nf4-dq": [{"quant_method": "bitsandbytes", "_load_in_4bit": True, "bnb_4bit_use_double_quant": True}],
    "int4-g64": [{"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig",
                                                                       "_data": {"group_size": 64}}}}],
    "mxfp8-wo": [mlx(8, 32, mode="mxfp8")],
    "mxfp4-a8": [quark("fp4", "fp8_e4m3"), quark("mxfp4", "int8")],
    "mxfp4-a4": [quark("mxfp4", "mxfp4")],
    "fp8-wo": [quark("fp8_e4m3"), quark("fp8_e4m3", "int8"), torchao("float8_weight_only"), compressed(F8)],
    "int8": [quark("int8", "int8"), {"quant_method": "bitsandbytes", "load_in_8bit": True},
             torchao("int8_dynamic_activation_int8_weight"),
             compressed({"num_bits": 8, "type": "int"}, {"num_bits": 8, "type": "int"})],
    "int8-wo": [quark("int8"), quark("uint8", "fp8_e4m3"), by_groups("gptq", bits=8)],
    "bf16": [{"quant_method": "quark", "global_quant_config": {"input_tensors": None, "bias": {"dtype": "int8"}}}],
    "mxfp8": [compressed({**F8, "group_size": 32}, F8)],
    "fp8-block": [compressed({**F8, "block_structure": [128, 128]}, F8)],
    "fp8": [compressed({**F8, "group_size": 33}, F8), compressed(F8, {**F8, "dynamic": True})],
    "nvfp4-a8": [compressed(F4, F8)],
}  # fmt: skip
"""Format -> configurations that say it for all linear modules, each in the words of its method."""


@pytest.mark.parametrize("form", FORMS)
def test_one_format_in_the_words_of_every_method(form: str) -> None:
    for config in FORMS[form]:
        assert scheme_of(Keys(config, "config.json")).default == form, config


def test_modules_by_part_of_their_path_and_by_pattern() -> None:
    layers = {"quant_method": "compressed-tensors", "config_groups": {"group_0": {
        "targets": [r"re:model\.layers\.\d+\.mlp.*"], "weights": F8, "input_activations": F8}}}  # fmt: skip
    assert own(DENSE, layers)[0] == "bf16,mlp=fp8"
    assert own(DENSE, modelopt("FP8", ["self_attn.o_proj"]))[0] == "fp8,o=bf16"
    assert own(DENSE, modelopt("FP8", ["model.layers.1.self_attn.o_proj"]))[0] == "fp8,o=fp8*3+bf16*1"


def test_two_files_that_speak_of_different_modules() -> None:
    """What the second leaves alone is as the first says; DeepSeek-V4 names its experts' format by itself."""
    block = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    experts = {f"model.layers.{i}.mlp.experts": {"quant_algo": "NVFP4"} for i in range(4)}
    beside = {"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": experts}}
    assert from_config({**MOE, **block}, "config.json", beside).weights == "fp8-block,experts=nvfp4"
    last = from_config(
        {**DENSE, **block}, "c.json", {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    )
    assert (last.weights, last.kv_dtype) == ("fp8", "fp8"), "the file beside the config has the last word"
    other = {"quantization_config": {"quant_method": "bitsandbytes"}}
    assert from_config({**MOE, **other}, "config.json", beside).weights == "bf16,experts=nvfp4"
    assert from_config({**MOE, **block, "expert_dtype": "fp4"}, "config.json").weights == "fp8-block,experts=mxfp4"
    assert from_config({**MOE, **block, "expert_dtype": "fp8"}, "config.json").weights == "fp8-block"


def test_scales_of_the_cache_make_it_fp8() -> None:
    """As engines take it: vLLM resolves `--kv-cache-dtype auto` by the checkpoint's scheme."""
    for scheme, form in (({"num_bits": 4, "type": "float"}, "nvfp4"), ({"num_bits": 8, "type": "int"}, "bf16"),
                         ("fp8", "fp8"), ({"num_bits": 8, "type": "float", "dynamic": False}, "fp8")):  # fmt: skip
        assert own(DENSE, modelopt("FP8", kv_cache_scheme=scheme))[1] == form
    assert own(DENSE, modelopt("FP8", kv_cache_quant_algo="NVFP4"))[1] == "nvfp4"


def test_an_mlx_file_by_hand(tmp_path: Path) -> None:
    """Qwen3-8B: 8,190,735,360 parameters, all matrices at 4 bits with 32 bits per 64, the two tables among them."""
    model = load_model("qwen3-8b")
    norms = model.norm_params + 36 * 2 * 128
    weights = "int4-g64,lm_head=int4-g64,embedding=int4-g64"
    stored = part("qwen3-8b", weights).stored_weight_bytes
    assert stored == pytest.approx((model.total_params - norms) * 4.5 / 8 + 2 * norms, rel=2e-5)
    assert stored / 1e9 == pytest.approx(4.61, abs=0.01)
    (tmp_path / "config.json").write_text(json.dumps(DENSE | {"quantization": {"group_size": 64, "bits": 4}}))
    assert load_model(str(tmp_path)).weights == weights


@pytest.mark.parametrize(("quantisation", "words"), [
    ({"quant_method": "hqq"}, "quantization_config.quant_method: must be one of auto-round, awq, bitsandbytes"),
    ({"quant_method": "torchao", "quant_type": "int3_weight_only"}, "quant_type: must be one of int4weightonly"),
    ({"quant_method": "quark"}, "global_quant_config: must be a mapping"),
    ({"bits": 4, "group_size": 64, "mode": "k-quants"}, "mode: must be affine, mxfp4"),
    ({"bits": 4}, "quantization_config.quant_method: .*missing"),
    (by_groups("awq", bits=8), "bits: must be 4, given 8"),
    *((by_groups("gptq", group), "group_size: must be a whole number from -1 to 9999") for group in (-2, 10_000)),
    (torchao("int4_weight_only", group_size=10_000), "group_size: must be a whole number from 1 to 9999"),
    (quark("fp4", group_size=16), "weight.dtype: must be fp8_e4m3, int8, int4, uint4, or fp4 in groups of 32"),
    (compressed({**W4, "group_size": -2}), "group_size: must be a whole number from -1"),
    *((mlx(bits, 64), "bits: must be a whole number from 2 to 8") for bits in (1, 9)),
    (mlx(4, 10_000), "group_size: must be a whole number from 1 to 9999"),
    (mlx(8, 32, mode="mxfp4"), "mode: must be affine, mxfp4"),
    ({"quant_method": "fp8", "weight_block_size": [64, 64]}, r"weight_block_size: must be \[128, 128\] or null"),
    ({"quant_method": "awq", "bits": 3, "group_size": 128}, "bits: must be 4, given 3"),
    (compressed({"num_bits": 3, "type": "int"}), "config_groups.group_0.weights.num_bits: must be 8"),
    ({"quant_method": "compressed-tensors"}, "config_groups: must be a mapping of groups, and it is missing"),
    (compressed(W4, None, ["re:(*"]), "ignore: must be a list of module names or regular expressions"),
    (modelopt("W3A8"), "quant_algo: must be one of FP8"),
    (modelopt("MIXED_PRECISION"), "quantized_layers: must be a mapping of modules"),
    ({"quant_method": "fp8", "modules_to_not_convert": "lm_head"}, "modules_to_not_convert: must be a list"),
    ([], "quantization_config: must be a mapping"),
])  # fmt: skip
def test_what_is_not_understood_is_named(quantisation: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        own(DENSE, quantisation)
