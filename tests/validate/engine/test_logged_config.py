"""Each form in which a log states the configuration of its server, and the differences from a question."""

from dataclasses import replace

import pytest

from perfmodel.answers.question import Query
from perfmodel.validate.engine.logged_config import FORMATS, LoggedConfig, started_draft

QUERY = Query("llama-3.1-8b", "h100", 1, 1024, tp=2)


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("Initializing a V1 LLM engine (v0.32.0) with config: model='m'", "version", "0.32.0"),
        ("vLLM API server version 0.11.2", "version", "0.11.2"),
        ("tensor_parallel_size=4, pipeline_parallel_size=1", "tp", 4),
        ("non-default args: {'tensor_parallel_size': 8}", "tp", 8),
        ("server_args=ServerArgs(tp_size=2)", "tp", 2),
        ("quantization=None", "weights", None),
        ("quantization='AWQ'", "weights", "awq"),
        ("kv_cache_dtype=fp8_e4m3", "cache", "fp8"),
        ("'kv_cache_dtype': 'fp8'", "cache", "fp8"),
        ("kv_cache_dtype=auto", "cache", None),
        ("speculative_config={'method': 'eagle3'}", "method", "eagle3"),
        ("SpeculativeConfig(method='mtp')", "method", "mtp"),
        ("speculative_algorithm='EAGLE'", "method", "EAGLE"),
    ],
)
def test_each_form_of_a_setting_is_read(line: str, field: str, value: object) -> None:
    assert LoggedConfig.of(line) == replace(LoggedConfig(), **{field: value})


@pytest.mark.parametrize("name", FORMATS)
def test_each_name_of_a_format_is_known(name: str) -> None:
    assert LoggedConfig.of(f"quantization={name}").weights == FORMATS[name]


def test_the_first_line_that_states_a_setting_counts() -> None:
    assert LoggedConfig.of("tp_size=2\ntp_size=8").tp == 2


def test_each_difference_names_its_flag() -> None:
    logged = LoggedConfig(tp=4, weights="awq", cache="fp8")
    tp, weights, cache = logged.differences(QUERY, "bf16")
    assert tp == "the log has 4 tensor-parallel devices, and 2 was asked: --tp 4"
    assert weights == "the log has awq weights, and bf16 are assumed: --weights awq"
    assert cache == "the log has a KV cache in fp8, and none was asked: --kv-dtype fp8"


def test_a_question_that_names_its_formats_has_no_difference() -> None:
    logged = LoggedConfig(tp=2, weights="awq", cache="fp8")
    assert list(logged.differences(replace(QUERY, weights="bf16", kv_dtype="bf16"), "bf16")) == []
    assert list(logged.differences(replace(QUERY, kv_dtype="fp8"), "awq-g128")) == []
    assert list(LoggedConfig().differences(QUERY, "bf16")) == []


@pytest.mark.parametrize(
    ("line", "method"),
    [
        ('vllm serve m --speculative-config {"method":"ngram","num_speculative_tokens":4}', "ngram"),
        ("speculative_config=SpeculativeConfig(method='mtp', num_spec_tokens=2)", "mtp"),
        ("--speculative-algorithm EAGLE3 --port 1", "EAGLE3"),
        ("server_args=ServerArgs(speculative_algorithm=None)", None),
        ("speculative_config=None, method='POST'", None),
    ],
)
def test_the_draft_with_which_a_server_was_started(line: str, method: str | None) -> None:
    assert started_draft(line) == method
