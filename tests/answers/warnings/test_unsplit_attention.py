"""Attention backends that read a cache in one piece when they verify: Triton in vLLM on an H100."""

from dataclasses import replace

import pytest

from perfmodel.answers.point.warnings.unsplit_attention import unsplit_attention
from perfmodel.answers.question import Query, resolve
from perfmodel.answers.text import Note
from perfmodel.speculation import Scenario

TRITON = Query(
    "llama-3.1-8b", "h100", 1, 32_768, 3, engine="vllm", draft="ngram", alpha=0.6, attention_backend="triton"
)


@pytest.fixture(scope="module")
def triton() -> Scenario:
    return resolve(TRITON)


def test_one_long_sequence_that_one_read_of_the_cache_would_verify_faster(triton: Scenario) -> None:
    (warning,) = unsplit_attention(triton, 1.0, 32_768.0, 3)
    once = resolve(replace(TRITON, kv_reread=1.0))
    longer = float(triton.target_pass_s(1.0, 32_768.0, 4.0) / once.target_pass_s(1.0, 32_768.0, 4.0))
    assert warning == (
        "triton does not split the cache when it verifies several tokens: verification takes "
        f"{longer:.1f} times as long as with a kernel that does (--attention-backend)"
    )
    assert not isinstance(warning, Note)


def test_less_than_half_as_long_again_is_only_noted(triton: Scenario) -> None:
    """Eight sequences keep more multiprocessors busy."""
    (note,) = unsplit_attention(triton, 8.0, 32_768.0, 3)
    assert isinstance(note, Note)


@pytest.mark.parametrize(
    ("batch", "context", "between", "is_note"),
    [(4.0, 16_384.0, (1.4, 1.5), True), (1.0, 14_336.0, (1.5, 1.6), False)],
)
def test_half_as_long_again_is_the_limit_of_a_note(batch, context, between, is_note, triton) -> None:
    once = resolve(replace(TRITON, kv_reread=1.0))
    low, high = between
    assert low < triton.target_pass_s(batch, context, 4.0) / once.target_pass_s(batch, context, 4.0) < high
    (said,) = unsplit_attention(triton, batch, context, 3)
    assert isinstance(said, Note) is is_note


def test_nothing_is_said_where_splitting_would_not_matter(triton: Scenario) -> None:
    assert not [*unsplit_attention(triton, 64.0, 1024.0, 3)], "64 sequences are busy enough"
    assert not [*unsplit_attention(triton, 1.0, 32_768.0, 0)], "a baseline step has one query token"


def test_nothing_is_said_about_a_stated_number_of_reads() -> None:
    stated = resolve(replace(TRITON, kv_reread=2.0))
    assert not [*unsplit_attention(stated, 1.0, 32_768.0, 3)]
