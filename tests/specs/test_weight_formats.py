"""Number formats and what checkpoints come in: bytes by hand, every quantiser's file, refusals."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfmodel.answers.question import Query, resolve
from perfmodel.costs import Degrees, PassShape, Shard, forward, shard
from perfmodel.kv import parse_kv
from perfmodel.specs import load_model, precision_of, weight_format
from perfmodel.specs.huggingface import from_config
from tests.refusals import refused
from tests.specs.configs import TABLE, sizes, table

FULL = parse_kv("full")
FILES = table("quantised")
DENSE, MOE = (FILES["bases"][name] for name in ("dense", "moe"))


def part(model: str, weights: str | None = None, peaks: tuple[str, ...] = ("bf16", "fp8", "int8")) -> Shard:
    spec = load_model(model)
    return shard(spec, Degrees(1), precision_of(spec, peaks, weights))


def ops(model: str, weights: str | None = None, batch: float = 1.0) -> dict[str, Any]:
    return {op.name: op for op in forward(part(model, weights), PassShape(batch, 1.0, 100.0), FULL)}


# Bytes of a value.


@pytest.mark.parametrize(
    ("name", "bits", "compute", "input_bytes"),
    [
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
        ("bf16*1+nvfp4*3", (3 * 4.5 + 16) / 4, "fp4", 0.5625),
        ("q4_k*1+q6_k*1", (4.5 + 6.5625) / 2, "bf16", None),
        ("5.25bpw", 5.25, "bf16", None),
    ],
)
def test_bits_of_a_weight_and_what_it_runs_at(
    name: str, bits: float, compute: str, input_bytes: float | None
) -> None:
    """Formats that quantise activations run at their peak; weight-only ones in bf16."""
    form = weight_format(name).base
    assert form.bytes_per_value * 8 == pytest.approx(bits, rel=1e-12)
    assert form.compute == compute
    assert form.input_bytes == input_bytes


# Formats by tensor.


@pytest.mark.parametrize(
    ("model", "mix", "bits"),
    [
        *(
            ("llama-3.1-8b", mix, bits)  # tools/quantize/README.md of llama.cpp, its table of sizes
            for mix, bits in {
                "IQ1_S": 2.0042,
                "IQ1_M": 2.1460,
                "IQ2_XXS": 2.3824,
                "IQ2_XS": 2.5882,
                "IQ2_S": 2.7403,
                "IQ2_M": 2.9294,
                "Q2_K": 3.1593,
                "Q3_K_S": 3.6429,
                "Q3_K_M": 3.9960,
                "Q3_K_L": 4.2979,
                "IQ4_XS": 4.4597,
                "Q4_K_S": 4.6672,
                "IQ4_NL": 4.6818,
                "Q4_K_M": 4.8944,
                "Q5_K_S": 5.5704,
                "Q5_K_M": 5.7036,
                "Q6_K": 6.5633,
                "Q8_0": 8.5008,
            }.items()
        ),
        ("llama-2-7b", "Q4_0", 3.562 * 2**33 / 6.738e9),  # lhl/strix-halo-testing@5ee14b5b, llm-bench
        ("llama-3.1-70b", "Q4_K_M", 39.593 * 2**33 / 70.554e9),
    ],
)
def test_bits_of_a_weight_of_published_gguf_files(model: str, mix: str, bits: float) -> None:
    """The whole file over its parameters; norms in fp32 are what is left out."""
    stored = part(model, mix).stored_weight_bytes
    assert stored * 8 / load_model(model).total_params == pytest.approx(bits, rel=6e-4)


def test_a_mix_keeps_its_name_and_takes_parts_of_its_own() -> None:
    mix = weight_format("Q4_K_M, lm_head=q8_0")
    assert mix.name == "q4_k_m,lm_head=q8_0"
    assert weight_format(mix.name) == mix
    forms = {"o": "q4_k", "down": "q4_k*1+q6_k*1", "lm_head": "q8_0", "router": "bf16"}
    assert {gemm: mix.of(gemm).name for gemm in forms} == forms
    assert mix.within(("bf16",)) == mix
    assert weight_format("mxfp4_moe").within(("fp4",)).of("experts").name == "mxfp4-a8"
    refused(r"--weights: must be the file \(--model FILE.gguf\) or its mean", weight_format, "UD-Q4_ODD")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("UD-Q4_K_M", "q4_k_m"),
        ("UD-Q5_K_XL", "q5_k_m"),
        ("Q4_K_XL", "ud-q4_k_xl"),
        ("w4a16", "int4-g128-sym"),
        ("gptq-int4", "gptq"),
        ("int4-gptq", "gptq"),
        ("int4-awq", "awq"),
        ("awq_marlin", "awq"),
        ("f16", "fp16"),
    ],
)
def test_words_of_users_name_a_format(given: str, meant: str) -> None:
    assert weight_format(given).of("down") == weight_format(meant).of("down")


@pytest.mark.parametrize("weights", ["fp8", "fp8-block", "int8", "nvfp4", "int4-g128", "awq", "mxfp4"])
def test_the_head_stays_in_bf16(weights: str) -> None:
    """Llama-3.1-8B: 6,979,321,856 weights in the layers, 525,336,576 in the LM head."""
    counted = ops("llama-3.1-8b", weights)
    each = weight_format(weights).base.bytes_per_value
    assert counted["lm_head"].cost.weight_bytes == 2 * 525_336_576
    assert counted["lm_head"].compute == "bf16"
    layers = sum(float(op.cost.weight_bytes) for op in counted.values()) - 2 * 525_336_576
    assert layers == pytest.approx(6_979_321_856 * each, rel=1e-12)
    assert (
        ops("llama-3.1-8b", f"{weights},lm_head={weights}")["lm_head"].cost.weight_bytes == 525_336_576 * each
    )


def test_parts_and_single_gemms_have_formats_of_their_own() -> None:
    counted = ops("llama-3.1-8b", "nvfp4,attention=fp8,o=bf16")
    hidden = 4096
    layers = 32
    assert counted["qkv"].cost.weight_bytes == layers * hidden * 6144
    assert counted["o"].cost.weight_bytes == layers * hidden * hidden * 2
    assert counted["down"].cost.weight_bytes == layers * hidden * 14336 * 0.5625
    assert [counted[name].compute for name in ("qkv", "o", "down", "lm_head")] == [
        "fp8",
        "bf16",
        "fp4",
        "bf16",
    ]
    assert [counted[name].quantisations for name in ("qkv", "o", "down", "lm_head")] == [32, 0, 32, 0]


def test_a_quantised_gemm_reads_quantised_inputs() -> None:
    """`down` of Llama-3.1-8B, 7 tokens: 14336 inputs at a byte each, 4096 outputs at two."""
    counted = ops("llama-3.1-8b", "fp8", 7.0)["down"]
    assert counted.cost.activation_bytes == 7 * 32 * (14336 + 2 * 4096)
    weight_only = ops("llama-3.1-8b", "fp8-wo", 7.0)["down"]
    assert weight_only.cost.activation_bytes == 7 * 32 * 2 * (14336 + 4096)
    assert weight_only.compute == "bf16"
    assert weight_only.quantisations == 0
    assert weight_only.packed_weights == 32 * 14336 * 4096


# Checkpoints as they ship.


def test_gpt_oss_20b_by_hand() -> None:
    """Experts 24 x 32 x 3 x 2880^2 at 4.25 bits with bf16 biases, all else bf16; the files weigh 13.8 GB (HF
    page).
    """
    experts = 24 * 32 * 3 * 2880**2
    biases = 24 * 32 * 3 * 2880
    sinks = 24 * 64
    assert part("gpt-oss-20b").precision.weights.name == "bf16,experts=mxfp4"
    rest = load_model("gpt-oss-20b").total_params - experts - biases - sinks
    stored = part("gpt-oss-20b").stored_weight_bytes
    expected = experts * 4.25 / 8 + 2 * (biases + rest)
    assert stored == pytest.approx(expected, rel=1e-12)
    assert stored / 1e9 == pytest.approx(13.8, abs=0.05)
    touched = ops("gpt-oss-20b", batch=1e9)["experts"]
    expected = experts * 4.25 / 8 + 2 * biases
    assert touched.cost.weight_bytes == pytest.approx(expected)
    assert touched.compute == "bf16"


def test_a_device_without_the_peak_runs_weight_only() -> None:
    named_format = weight_format("nvfp4,attention=fp8,o=nvfp4*2+bf16*1")
    assert named_format.within(("bf16", "fp8")).name == "nvfp4-wo,attention=fp8,o=nvfp4-wo*2+bf16*1"
    assert named_format.within(("bf16", "fp8", "fp4")) == named_format
    assert weight_format("bf16,experts=mxfp4").within(("bf16", "fp8", "fp4")).name == "bf16,experts=mxfp4-a8"
    query = Query("deepseek-v3", "a100-sxm-80gb", 1, 4000, tp=8, alpha=0.8, gamma=1)
    assert resolve(query).precision.weights.name == "fp8-block-wo"
    assert weight_format("mxfp4").within(("bf16", "fp8", "fp4"), wide_mxfp4=True).name == "mxfp4"
    # vLLM and SGLang read formats that are asked for through Marlin, TensorRT-LLM does not
    eight_bit = replace(query, weights="fp8-block")
    assert resolve(eight_bit).precision.weights.name == "fp8-block-wo"
    refused(
        "--weights: a100-sxm-80gb has no published fp8 peak", resolve, replace(eight_bit, engine="trtllm")
    )


def test_some_makers_checkpoints_in_nvfp4_bring_the_scales_of_an_fp8_cache() -> None:
    """vLLM logged an FP8 cache for unsloth's Qwen3.8-27B, and 16 bits for RedHatAI's and Inferact's."""
    query = Query("unsloth/Qwen3.8-27B-NVFP4", "b200-sxm-180gb", 1, 4000, alpha=0.8, gamma=1)
    assert resolve(query).precision.kv.name == "fp8"
    assert resolve(replace(query, kv_dtype="bf16")).precision.kv.name == "bf16"
    assert resolve(replace(query, model="RedHatAI/Qwen3.8-27B-NVFP4")).precision.kv.name == "bf16"
    assert resolve(replace(query, model="qwen3.8-27b", weights="nvfp4")).precision.kv.name == "bf16"


def test_experts_in_int4_are_refused_before_they_had_fast_kernels() -> None:
    query = Query("qwen3-235b-a22b", "h200", 1, 1000, tp=4, alpha=0.8, gamma=1, weights="int4-g128")
    assert resolve(replace(query, engine="sglang@0.4.7"))
    older = replace(query, engine="sglang@0.4.6")
    refused("--engine: sglang with int4 experts: must be 0.4.7", resolve, older)


def test_awq_is_refused_before_it_had_fast_kernels_and_gptq_is_not() -> None:
    query = Query("qwen2.5-72b", "a100", 1, 1000, tp=2, alpha=0.8, gamma=1, weights="awq")
    assert resolve(replace(query, engine="vllm@0.5.5"))
    older = replace(query, engine="vllm@0.4.2")
    refused("--engine: vllm with AWQ: must be 0.5.5 or later: no fast kernels", resolve, older)
    assert resolve(replace(older, weights="gptq"))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_experts_in_int4_are_refused_on_devices_without_fast_kernels(engine: str) -> None:
    query = Query("qwen3-235b-a22b", "mi300x", 1, 1000, tp=4, alpha=0.8, gamma=1, engine=engine)
    assert resolve(replace(query, weights="fp8-block"))
    with_int4 = replace(query, weights="int4-g128")
    refused(f"hardware: {engine} with int4 experts: must be of NVIDIA", resolve, with_int4)


def test_an_mtp_layer_that_the_checkpoint_keeps_in_bf16(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MOE))
    excluded = ["lm_head", *(f"model.layers.{i}.self_attn*" for i in range(4)), "model.layers.4*"]
    quantised = {
        "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": excluded}
    }
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(quantised))
    model = load_model(str(tmp_path))
    assert model.weights == "nvfp4,attention=bf16,mtp=bf16"
    assert model.kv_dtype == "fp8"
    s = resolve(Query(str(tmp_path), "b200-sxm-180gb", 1, 4000, draft="mtp", alpha=0.8))
    assert s.draft.precision.weights.name == "bf16"
    assert s.draft.precision.kv.name == "fp8"


# Files of quantisers.

TINY = {
    tiny["model_type"]: {
        "model_type": tiny["model_type"],
        **sizes(7, 64, 8, 4, 96, 101, 512),
        **tiny["keys"],
        **tiny.get("file", {}),
    }
    for tiny in table("tiny_configs")
}


@pytest.mark.parametrize(
    "row",
    [
        *FILES["checkpoints"],
        *(
            {"base": "dense", "weights": form, "quantization_config": quantisation}
            for form, alike in FILES["forms"].items()
            for quantisation in alike
        ),
    ],
)
def test_a_checkpoints_own_formats(row: dict[str, Any]) -> None:
    """Key subsets of published checkpoints (`of`), the layers cut to four, and one format in the words of
    every method (`forms`).

    beside: the file beside config.json, which has the last word; what it leaves alone is as the other says.
    The cache has the format that the checkpoint has scales for, as vLLM resolves `--kv-cache-dtype auto`.
    """
    config = {**FILES["bases"], **TINY}[row["base"]] | row.get("changes", {})
    spec = from_config(
        config | {"quantization_config": row["quantization_config"]}, "config.json", row.get("beside")
    )
    assert spec.weights == row["weights"]
    assert spec.kv_dtype == row.get("kv_dtype", "bf16")


@pytest.mark.parametrize(
    ("model", "module", "weights"),
    [
        ("glm-5.2", "indexer.wq_b", "fp8,indexer=bf16"),
        ("nemotron-3-super-120b-a12b", "mixer.fc1_latent_proj", "fp8,latent_in=bf16"),
        ("nemotron-3-super-120b-a12b", "mixer.fc2_latent_proj", "fp8,latent_out=bf16"),
    ],
)
def test_a_projection_that_few_models_have_keeps_16_bits_where_its_file_says_so(
    model: str, module: str, weights: str
) -> None:
    quantisation = {"quant_method": "fp8", "modules_to_not_convert": [module]}
    spec = from_config(TABLE[model]["config"] | {"quantization_config": quantisation}, "config.json")
    assert spec.weights == weights


def test_only_layers_with_attention_count_for_its_format() -> None:
    """Qwen3-Next has attention in every fourth layer. The other layers keep a recurrent state."""
    layers = (["linear_attention"] * 3 + ["full_attention"]) * 2
    config = TABLE["qwen3-next-80b-a3b"]["config"] | {"num_hidden_layers": 8, "layer_types": layers}
    kept = {"quant_method": "fp8", "modules_to_not_convert": ["layers.3.self_attn", "layers.7.self_attn"]}
    spec = from_config(config | {"quantization_config": kept}, "config.json")
    assert spec.weights == "fp8,attention=bf16"


def test_the_first_output_projection_of_deepseek_v4_may_keep_16_bits() -> None:
    """Its output projection has a low rank, so it is two matrices."""
    (file, *_) = table("small_files")["deepseek_v4"]
    kept = {"quant_method": "fp8", "modules_to_not_convert": ["attn.wo_a"]}
    config = {"model_type": "deepseek_v4", **sizes(7, 64, 4, 1, 24, 1000, 4096), **file["file"]}
    spec = from_config(config | {"quantization_config": kept}, "config.json")
    assert spec.weights == "fp8,o_down=bf16"


@pytest.mark.parametrize(("words", "quantisation"), FILES["refused"])
def test_what_is_not_understood_is_named(words: str, quantisation: Any) -> None:
    refused(words, from_config, DENSE | {"quantization_config": quantisation}, "config.json")


def test_the_word_of_the_experts_names_the_checkpoint_itself() -> None:
    """``mxfp4`` for gpt-oss is its own checkpoint with attention in 16 bits; for other models it is all."""

    def weights(model: str, named: str | None) -> str:
        question = Query(model=model, hardware="h100", batch=1, context=1024, gamma=0, weights=named)
        return resolve(question).precision.weights.name

    assert weights("gpt-oss-120b", "mxfp4") == weights("gpt-oss-120b", None) == "bf16,experts=mxfp4"
    assert weights("qwen3-30b-a3b", "mxfp4") == "mxfp4"
