"""Which smaller formats are tried, in which order: on a device, in an engine, beside stated formats."""

import pytest

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.smaller_formats import (
    four_bit_checkpoints,
    in_smaller_formats,
    in_smaller_weights,
    may_be_smaller,
)

AWQ = "--model casperhansen/llama-3.3-70b-instruct-awq"
NVFP4 = "--model nvidia/Llama-3.3-70B-Instruct-NVFP4"
CACHE = "--kv-dtype fp8"


def formats(model: str, hardware: str, **stated: str) -> list[str]:
    """The flags of the smaller formats of weights and cache, in their order."""
    return [flags for flags, _ in in_smaller_formats(AdviseQuery(model, hardware, **stated))]


def weights(model: str, hardware: str, **stated: str) -> list[str]:
    """The flags of the smaller formats of weights, in their order."""
    return [flags for flags, _ in in_smaller_weights(AdviseQuery(model, hardware, **stated))]


def test_formats_that_lose_less_precision_come_first() -> None:
    eight, four = f"--weights fp8 {CACHE}", f"{AWQ} {CACHE}"
    assert formats("llama-3.3-70b", "h100") == [CACHE, "--weights fp8", eight, AWQ, four]


@pytest.mark.parametrize(
    ("hardware", "named"),
    [
        ("h100", ["--weights fp8", AWQ]),
        ("mi300x", ["--weights fp8", AWQ]),
        ("b200", ["--weights fp8", NVFP4]),
        ("a100", ["--weights int8", AWQ]),
    ],
    ids=["FP8", "FP8 of AMD", "FP4", "INT8"],
)
def test_smaller_weights_are_those_in_which_the_device_computes(hardware: str, named: list[str]) -> None:
    assert weights("llama-3.3-70b", hardware) == named


def test_floats_of_four_bits_are_those_of_the_vendor() -> None:
    assert weights("qwen3.5-397b-a17b", "8xmi355x")[-1] == "--model amd/Qwen3.5-397B-A17B-MXFP4"
    assert weights("qwen3.5-397b-a17b", "8xb200")[-1] == "--model nvidia/Qwen3.5-397B-A17B-NVFP4"


def test_the_question_of_a_format_has_the_weights_of_its_flags() -> None:
    for flags, changed in in_smaller_weights(AdviseQuery("llama-3.3-70b", "a100")):
        assert flags in (f"--weights {changed.weights}", f"--model {changed.model}")


def test_without_a_known_checkpoint_stated_weights_are_kept() -> None:
    assert weights("olmo-3-32b", "h100", weights="bf16") == []


def test_eight_bits_are_fp8_where_no_checkpoint_in_int8_is_known() -> None:
    assert weights("qwen3-32b", "a100")[0] == "--weights fp8"


@pytest.mark.parametrize(
    ("hardware", "stated", "named"),
    [
        ("h100", "bf16", ["--weights fp8", AWQ]),
        ("h100", "fp8", [AWQ]),
        ("h100", "int8", [AWQ]),
        ("h100", "awq-g128", []),
        ("b200", "awq-g128", [NVFP4]),
        ("b200", "nvfp4", []),
    ],
)
def test_a_stated_format_is_replaced_by_smaller_ones_or_by_floats_of_four_bits(
    hardware: str, stated: str, named: list[str]
) -> None:
    assert weights("llama-3.3-70b", hardware, weights=stated) == named


def test_a_named_checkpoint_replaces_the_stated_weights() -> None:
    """Its own format is served, not that of the question."""
    query = AdviseQuery("llama-3.3-70b", "h100", weights="fp8")
    ((_, changed),) = in_smaller_weights(query)
    assert f"--model {changed.model}" == AWQ
    assert changed.weights is None


@pytest.mark.parametrize(
    ("stated", "cached"),
    [
        ({}, True),
        ({"engine": "sglang"}, True),
        ({"engine": "trtllm"}, False),
        ({"kv_dtype": "bf16"}, False),
        ({"kv_dtype": "fp8"}, False),
    ],
)
def test_a_smaller_cache_is_tried_unless_stated_in_engines_that_keep_one_of_any_checkpoint(
    stated: dict[str, str], cached: bool
) -> None:
    assert any(CACHE in flags for flags in formats("llama-3.3-70b", "h100", **stated)) is cached


def test_a_checkpoint_with_a_small_cache_of_its_own_gets_no_smaller_one() -> None:
    assert formats("nvidia/Qwen3-32B-NVFP4", "b200") == []
    assert formats("Qwen/Qwen3-32B-AWQ", "b200") == [CACHE]


def test_engines_that_convert_checkpoints_choose_their_own_formats() -> None:
    assert formats("llama-3.3-70b", "apple-m3-max-128gb", engine="llamacpp") == []
    assert weights("llama-3.3-70b", "apple-m3-max-128gb", engine="mlx", weights="bf16") == []


def test_an_engine_is_not_given_a_checkpoint_that_it_does_not_read() -> None:
    """TensorRT-LLM reads no AWQ."""
    assert weights("llama-3.3-70b", "h100", engine="trtllm") == ["--weights fp8"]
    assert weights("llama-3.3-70b", "b200", engine="trtllm") == ["--weights fp8", NVFP4]


@pytest.mark.parametrize(
    ("model", "stated", "eight", "four"),
    [
        ("llama-3.3-70b", {}, True, True),
        ("llama-3.3-70b", {"weights": "bf16"}, False, False),
        ("llama-3.3-70b", {"model_path": "/a/checkpoint"}, False, False),
        ("deepseek-v3.1", {}, False, True),
        ("gpt-oss-120b", {}, False, False),
    ],
)
def test_without_a_load_a_stated_checkpoint_or_format_is_kept(
    model: str, stated: dict[str, str], eight: bool, four: bool
) -> None:
    """DeepSeek's checkpoint has 8 bits already, and that of gpt-oss has 4."""
    query = AdviseQuery(model, "8xh200", **stated)
    assert may_be_smaller(query) is eight
    assert bool([*four_bit_checkpoints(query)]) is four
