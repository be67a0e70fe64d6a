"""The formats of a whole model: which parts keep 16 bits, what a device makes of them, and what computes."""

import pytest

from perfmodel.specs import kv_format, load_model, precision_of, weight_format
from tests.refusals import refused

LLAMA = load_model("llama-3.1-8b")


@pytest.mark.parametrize(
    ("weights", "kv", "activation_bytes", "attention", "narrow"),
    [
        ("bf16", "bf16", 2.0, "bf16", False),
        ("fp8", "fp8", 2.0, "bf16", True),
        ("fp32", "bf16", 4.0, "fp32", False),
        ("bf16", "fp32", 2.0, "fp32", False),
        ("bf16", "q8_0", 2.0, "bf16", True),
    ],
)
def test_weights_and_cache_say_what_activations_and_attention_are(
    weights: str, kv: str, activation_bytes: float, attention: str, narrow: bool
) -> None:
    precision = precision_of(LLAMA, ("bf16", "fp8"), weights, kv)
    assert precision.activation_bytes == activation_bytes
    assert precision.attention_compute == attention
    assert precision.narrow_kv is narrow


@pytest.mark.parametrize(("peaks", "compute"), [(("bf16", "fp8"), "fp8"), (("bf16",), "bf16")])
def test_an_indexer_scores_in_fp8_where_a_device_can(peaks: tuple[str, ...], compute: str) -> None:
    assert precision_of(LLAMA, peaks).index_compute == compute


@pytest.mark.parametrize(
    ("weights", "router"), [("fp32", "fp32"), ("fp16", "fp16"), ("fp8", "bf16"), ("fp8,router=fp8", "fp8")]
)
def test_parts_that_are_not_quantised_keep_16_bits(weights: str, router: str) -> None:
    assert weight_format(weights).of("router").name == router


def test_a_mix_that_a_device_runs_otherwise_has_no_name_of_its_own() -> None:
    mix = weight_format("mxfp4_moe")
    assert mix.within(("bf16",)).name == "mxfp4_moe"
    assert mix.within(("fp4",)).name.endswith("experts=mxfp4-a8")


@pytest.mark.parametrize("word", ["bf16-wo", "fp16-wo", "int9-g128", "int-g128", "awq4-g128", "awq-g128-sym"])
def test_a_word_that_is_almost_a_format_is_refused(word: str) -> None:
    refused(f"--weights: no weight format named '{word}'", weight_format, word)


@pytest.mark.parametrize("layers", ["0", "03", "x", "123456", ""])
def test_a_share_of_layers_is_a_whole_number(layers: str) -> None:
    refused(r"--weights: must be FORMAT, or FORMAT\*LAYERS", weight_format, f"fp8*{layers}+bf16*1")


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("fp8_e4m3", "fp8"),
        ("fp8_e5m2", "fp8"),
        ("bfloat16", "bf16"),
        ("float16", "fp16"),
        (" FP8 ", "fp8"),
        ("Q8_0", "q8_0"),
    ],
)
def test_a_cache_is_named_in_the_words_of_the_engines_too(word: str, name: str) -> None:
    assert kv_format(word).name == name


@pytest.mark.parametrize(
    ("weights", "packed"),
    [("bf16", False), ("fp16", False), ("fp8", False), ("fp8-wo", True), ("int4", True), ("fp32", False)],
)
def test_only_narrow_weights_that_compute_in_16_bits_are_unpacked(weights: str, packed: bool) -> None:
    assert weight_format(weights).base.packed is packed


@pytest.mark.parametrize(
    ("weights", "peaks", "run"),
    [
        ("fp8", ("bf16",), "fp8-wo"),
        ("mxfp4-a8", ("bf16",), "mxfp4"),
        ("fp8", ("bf16", "fp8"), "fp8"),
        ("fp32", ("bf16",), "fp32"),  # it quantises no input that it could leave out
    ],
)
def test_a_device_without_a_peak_reads_the_same_bytes(weights: str, peaks, run: str) -> None:
    form = weight_format(weights).base
    on_device = weight_format(weights).within(peaks).base
    assert on_device.name == run
    assert on_device.bytes_per_value == form.bytes_per_value
