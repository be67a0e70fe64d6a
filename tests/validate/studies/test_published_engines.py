"""The names of sources, and figures that follow from the columns of published measurements."""

from dataclasses import replace

import pytest

from perfmodel.validate.studies.published_engines import (
    alike,
    engine_decode,
    engine_speculation,
    source_of,
)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("QwenLM/Qwen3@1a2b3c docs/speed.md", "QwenLM/Qwen3"),
        ("NVIDIA/TensorRT-LLM#5929 table 2", "NVIDIA/TensorRT-LLM#5929"),
        ("EAGLE-3, table 4", "EAGLE-3"),
    ],
)
def test_a_source_is_named_by_its_first_word_without_a_commit(source: str, name: str) -> None:
    assert source_of(source) == name


def test_the_pages_of_inferencex_are_one_source() -> None:
    assert alike("SemiAnalysisAI/InferenceX#870", "InferenceX")
    assert alike("a/b", "a/b")
    assert not alike("InferenceX", "a/b")


def test_a_ratio_needs_both_times() -> None:
    both = next(row for row in engine_speculation() if row.ratio)
    timed = replace(both, iteration_ms=30.0, step_ms=20.0)
    assert timed.ratio == 1.5
    assert replace(timed, step_ms=None).ratio is None
    assert replace(timed, iteration_ms=None).ratio is None


def test_a_step_is_stated_in_milliseconds() -> None:
    row = next(iter(engine_decode()))
    assert replace(row, step_ms=12.5).step_s == pytest.approx(0.0125)
