"""The attention backends that an engine has on a device, and its own choice as a remedy."""

from dataclasses import replace

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query
from perfmodel.specs import engine_attention


def test_a_latent_cache_has_backends_of_its_own() -> None:
    vllm = engine_attention()["vllm"]
    assert vllm.choices("Blackwell", "NVIDIA", "latent") == ["trtllm"]
    assert vllm.choices("Hopper", "NVIDIA", "latent") == ["flashmla"]


def test_heads_of_more_than_256_values_have_the_backend_that_runs_them() -> None:
    """Gemma 4 on an RTX 4090: FlashAttention 2 and FlashInfer have no kernels of such heads there."""
    assert engine_attention()["vllm"].choices("Ada", "NVIDIA", "wide") == ["triton"]


@pytest.mark.parametrize(
    ("head", "version", "names"),
    [
        ("wide", "", ["trtllm", "triton"]),
        ("wide", "0.5.12", ["triton"]),
        ("usual", "0.5.6", ["flashinfer", "triton"]),
        ("usual", "0.5.9", ["flashinfer", "trtllm", "triton"]),
    ],
)
def test_a_backend_without_a_flag_is_offered_where_the_engine_chooses_it(head, version, names) -> None:
    """SGLang on a B200 has trtllm kernels for Gemma 4 since 0.5.13, and for other models since 0.5.9."""
    offered = engine_attention()["sglang"].choices("Blackwell", "NVIDIA", head, version)
    assert sorted(offered) == sorted(names)


def test_the_own_choice_of_an_engine_is_a_remedy_for_a_named_backend() -> None:
    """Gemma 4 on a B200 with Triton, whose verifications read the cache in one piece."""
    question = Query("gemma-4-31b", "b200", 4, 131072, draft="mtp", engine="sglang", alpha=0.5)
    slow = whatif(replace(question, attention_backend="triton"))
    assert [r.switch for r in slow.remedies][:1] == ["--attention-backend trtllm"]
