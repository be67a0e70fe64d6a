"""The share of prompt tokens in the prefix cache, by logs and pages."""

import pytest

from perfmodel.validate.engine.prefix_hits import prefix_hits

VLLM = "Running: 8 reqs, Waiting: 0 reqs, GPU KV cache usage: 4.0%, Prefix cache hit rate: {}%\n"
SGLANG = "Prefill batch, #new-seq: 2, #new-token: {}, #cached-token: {}, token usage: 0.10\n"


@pytest.mark.parametrize(
    ("text", "share"),
    [
        (VLLM.format("12.5") + VLLM.format("50.0"), 0.5),
        (SGLANG.format(300, 100) + SGLANG.format(100, 300), 0.5),
        (SGLANG.format(0, 0), None),
        (
            'vllm:prefix_cache_queries_total{engine="0"} 400\nvllm:prefix_cache_hits_total{engine="0"} 100',
            0.25,
        ),
        ("vllm:prefix_cache_queries_total 0\nvllm:prefix_cache_hits_total 0", None),
        ("Prefix cache hit rate: 5", None),
    ],
)
def test_the_share_of_each_kind_of_text(text: str, share: float | None) -> None:
    assert prefix_hits("page", text) == share
