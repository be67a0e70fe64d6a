"""Names of repositories, files, tags and formats, in all the forms that people type."""

import pytest

from perfmodel.specs.acceptance.library_row import untuned
from perfmodel.specs.models.format_in_name import format_in_name
from perfmodel.specs.models.format_words import one_format
from perfmodel.specs.models.gguf_names import gguf_repository, ollama_tag
from perfmodel.specs.models.mlx import in_mlx
from perfmodel.specs.models.names import base_name


@pytest.mark.parametrize(
    ("typed", "model", "mix"),
    [
        ("Qwen3-8B-GGUF", "Qwen3-8B", None),
        ("unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL", "Qwen3-8B", "ud-q4_k_xl"),
        ("bartowski/meta-llama_Llama-3.1-8B-GGUF", "Llama-3.1-8B", None),
        ("ggml-org/Qwen3-8B-Q8_0-GGUF", "Qwen3-8B", "q8_0"),
        ("ggml-org/Qwen3-8B-IQ4_XS-GGUF", "Qwen3-8B", "iq4_xs"),
        ("a/Qwen3-8B-UD-Q4_K_M-GGUF", "Qwen3-8B", "ud-q4_k_m"),
        ("a/gpt-oss-20b-MXFP4-GGUF", "gpt-oss-20b", "mxfp4_moe"),
        ("a/Qwen3-8B-MTP-GGUF", "Qwen3-8B", None),
        ("a/gemma-3-27b-qat-gguf", "gemma-3-27b", None),
        ("a/Qwen3-8B-i1-GGUF", "Qwen3-8B", None),
        ("a/Qwen3-8B-MTP-i1-GGUF:F16", "Qwen3-8B", "fp16"),
    ],
)
def test_a_repository_of_gguf_files(typed: str, model: str, mix: str | None) -> None:
    repository = gguf_repository(typed)
    assert repository is not None
    assert (repository.model, repository.mix) == (model, mix)


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "Qwen3-8B-GGUF-old", "a/b/Qwen3-8B-GGUF", "qwen3-8b.gguf"])
def test_any_other_name_is_no_repository_of_gguf_files(name: str) -> None:
    assert gguf_repository(name) is None


@pytest.mark.parametrize(
    ("typed", "family", "size", "mix"),
    [
        ("qwen3:8b", "qwen3", "8b", None),
        ("qwen2.5:1.5b", "qwen2.5", "1.5b", None),
        ("gemma3:270m", "gemma3", "270m", None),
        ("qwen3:30b-a3b", "qwen3", "30b-a3b", None),
        ("gemma3:27b-it-qat", "gemma3", "27b", None),
        ("llama3.1:8b-instruct-q8_0", "llama3.1", "8b", "q8_0"),
        ("llama2:7b-chat-fp16", "llama2", "7b", "fp16"),
        ("llama2:7b-text-q4_K_M", "llama2", "7b", "q4_k_m"),
        ("qwen3:4b-thinking-bf16", "qwen3", "4b", "bf16"),
        ("gpt-oss:20b-mxfp4", "gpt-oss", "20b", "mxfp4_moe"),
    ],
)
def test_a_tag_of_ollama(typed: str, family: str, size: str, mix: str | None) -> None:
    tag = ollama_tag(typed)
    assert tag is not None
    assert (tag.family, tag.size, tag.mix) == (family, size, mix)


@pytest.mark.parametrize("name", ["qwen3", "qwen3:latest", "3qwen:8b", "qwen3:8b-other"])
def test_any_other_name_is_no_tag_of_ollama(name: str) -> None:
    assert ollama_tag(name) is None


@pytest.mark.parametrize(
    ("suffix", "weights"),
    [
        ("-fp8", "fp8"),
        (".fp8", "fp8"),
        ("-fp8-dynamic", "fp8"),
        ("-fp8-block", "fp8-block"),
        ("-mxfp8", "mxfp8"),
        ("-nvfp4", "nvfp4"),
        ("-fp4", "nvfp4"),
        ("-mxfp4", "mxfp4"),
        ("-mxfp4-q8", "mxfp4-q8"),
        ("-awq", "awq"),
        ("-awq-int4", "awq"),
        ("-awq-4bit", "awq"),
        ("-int4-sym", "int4-g128-sym"),
        ("-gptq", "gptq"),
        ("-gptq-int8", "int8-g128-sym"),
        ("-gptq-8bit", "int8-g128-sym"),
        ("-int4", "int4-g128"),
        ("-quantized.w4a16", "int4-g128-sym"),
        ("-w8a8", "int8"),
        ("-int8", "int8"),
        ("-2bit", "2bit"),
        ("-8bit", "8bit"),
    ],
)
def test_a_name_that_ends_with_a_format(suffix: str, weights: str) -> None:
    named = format_in_name(f"maker/model-7b{suffix}")
    assert named is not None
    assert (named.model, named.weights, named.kv_dtype) == ("maker/model-7b", weights, None)


@pytest.mark.parametrize("name", ["maker/model-7b", "maker/model-fp8-7b", "maker/model-7bfp8", "m-9bit"])
def test_a_name_without_a_format_at_its_end(name: str) -> None:
    assert format_in_name(name) is None


@pytest.mark.parametrize(
    ("name", "kv_dtype"),
    [("nvidia/m-fp4", "fp8"), ("unsloth/m-nvfp4", "fp8"), ("redhatai/m-nvfp4", None), ("nvidia/m-fp8", None)],
)
def test_owners_whose_checkpoints_scale_the_cache(name: str, kv_dtype: str | None) -> None:
    named = format_in_name(name)
    assert named is not None
    assert named.kv_dtype == kv_dtype


SUFFIXES = ("instruct", "it", "chat", "hf", "base", "bf16")


@pytest.mark.parametrize("suffix", [*SUFFIXES, "thinking"])
def test_a_base_name_has_no_tuning_suffix_and_no_maker(suffix: str) -> None:
    assert base_name(f"meta-llama/Meta-Llama-3-8B-{suffix}") == "llama-3-8b"
    assert base_name(f"nvidia/NVIDIA-Nemotron-9B-{suffix}-2512") == "nemotron-9b-2512"


@pytest.mark.parametrize(
    "suffix",
    [*SUFFIXES, "rl", "fp8", "nvfp4", "mxfp4", "awq", "exp", "static", "pertensor"],
)
def test_the_library_names_a_model_without_its_versions(suffix: str) -> None:
    assert untuned(f"meta-llama-3-8b-{suffix}") == "llama-3-8b"
    assert untuned(f"nvidia-nemotron-9b-{suffix}-2512") == "nemotron-9b-2512"
    assert untuned(f"model-{suffix}x") == f"model-{suffix}x"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("fp8", "8bit"),
        ("w8a8", "8bit"),
        ("awq-g128", "4bit"),
        ("gptq", "4bit"),
        ("nf4-dq", "4bit"),
        ("w4a16", "4bit"),
        ("autoround", "4bit"),
        ("int8", "8bit"),
        ("int4-g128", "4bit"),
        ("q4_k_m", "4bit"),
        ("iq3_s", "3bit"),
        ("ud-q6_k_xl", "6bit"),
        ("bf16", "bf16"),
        ("fp8,experts=mxfp4", "fp8,experts=mxfp4"),
    ],
)
def test_the_format_of_mlx_with_the_same_bits(typed: str, meant: str) -> None:
    assert in_mlx(typed) == meant


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("awq-g128", ("awq", "awq-int4", "int4-awq", "awq-4bit", "4bit-awq", "awq_marlin")),
        (
            "int4-g128-sym",
            (
                *("gptq", "gptq-int4", "int4-gptq", "gptq-4bit", "gptq_marlin"),
                *("w4a16", "autoround", "int4-autoround"),
            ),
        ),
        ("int8", ("w8a8",)),
        ("int8-wo", ("w8a16",)),
        ("bf16", ("bfloat16",)),
        ("fp16", ("float16", "half", "f16")),
        ("fp32", ("float32", "float", "f32")),
    ],
)
def test_words_of_checkpoints_and_engines_for_a_format(name: str, words: tuple[str, ...]) -> None:
    assert {one_format(word, "--weights").name for word in words} == {name}
