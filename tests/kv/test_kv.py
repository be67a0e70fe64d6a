"""KV methods: what a step reads, worked by hand, and the words of the command line."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfmodel import drafts, kv
from perfmodel.errors import InputError
from perfmodel.specs import Precision, load_model, weight_format
from perfmodel.specs.models.formats import kv_format

# Llama-3.1-8B, bf16: 2 x 8 heads x 128 x 2 bytes = 4096 bytes per token and layer
LLAMA = kv.KVLayout(num_kv_heads=8, head_dim=128, values_per_token=2048, query_heads=32, bytes_per_value=2)
# DeepSeek-V3 MLA, bf16: latent 512 + rope 64 = 576 values, 1152 bytes
LATENT = kv.KVLayout(num_kv_heads=1, head_dim=576, values_per_token=576, query_heads=128, bytes_per_value=2)
KAPPA = 4096
CODES = 32_000 * 8 * 2 * 6 / 8
"""Of 2 x 6 bits for each of 8 heads."""


# By hand: Llama-3.1-8B at S = 32000, kappa_l = 4096 bytes.


@pytest.mark.parametrize(
    ("text", "read", "kept"),
    [
        ("full", 32_000 * KAPPA, 0),
        ("streamingllm:512", 512 * KAPPA, 512 * KAPPA),
        ("streamingllm:512,copy=false", 512 * KAPPA, 0),
        ("streamingllm:512,own-prefill=true", 512 * KAPPA, 512 * KAPPA),
        ("snapkv:2049", 2049 * KAPPA, 2049 * KAPPA),
        ("snapkv:2049,generated=100", 2149 * KAPPA, 2149 * KAPPA),
        # score per KV head: fp32 read and written
        ("h2o:1024", 1024 * KAPPA + 2 * 1024 * 8 * 4, 1024 * 8 * 4),
        ("tova:1024", 1024 * KAPPA + 2 * 1024 * 4, 1024 * 4),  # one averaged score
        ("topk:1024", 32_000 * KAPPA / 2 + 1024 * KAPPA / 2, 0),
        ("quest:1024,page=16", 2000 * KAPPA + 1024 * KAPPA, 2000 * KAPPA),
        ("retrieval:4096,every=16", 4096 * KAPPA, 4096 * KAPPA + 32_000 / 8 * KAPPA / 2),
        ("retrieval:4096,every=16,keep_means=false", 4096 * KAPPA, 4096 * KAPPA),
        ("pqcache:1024,subvectors=2,bits=6,iterations=10", CODES + 1024 * KAPPA, CODES + 64 * 8 * 128 * 2),
        ("pillar,share=0.05", 1600 * KAPPA, 1600 * 8 * 4),
        ("pillar:1024", 1024 * KAPPA, 1024 * 8 * 4),
        # 16 heads' vectors of 128, 4 bytes of scales each
        ("quantized,bits=4", 32_000 * (KAPPA * 4 / 16 + 16 * 4), 32_000 * (KAPPA / 4 + 64)),
        ("quantized,shared=true", 32_000 * (KAPPA / 4 + 64), 32_000 * 64),
        ("quantized,bits=8,group=64", 32_000 * (KAPPA * 8 / 16 + 32 * 4), 32_000 * (KAPPA / 2 + 128)),
    ],
)
def test_what_a_step_reads_and_what_is_kept(text: str, read: float, kept: float) -> None:
    """Attention and selection of one draft step; memory beside the target's cache."""
    method = kv.parse_kv(text)
    step = method.read_bytes(32_000.0, LLAMA) + method.select_step(32_000.0, LLAMA).bytes
    assert (step, method.stored_bytes(32_000.0, LLAMA)) == pytest.approx((read, kept), rel=1e-14)


def test_mla_has_no_separate_keys() -> None:
    assert LATENT.token_bytes == LATENT.key_bytes == 1152
    assert kv.parse_kv("topk:1024").select_step(32_000.0, LATENT).bytes == (32_000 - 1024) * 1152
    assert kv.parse_kv("quest:1024").select_step(32_000.0, LATENT).bytes == 2 * 2000 * 1152


# The words of a command line.


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("streaming-llm:512", "streamingllm:512,sinks=4,copy=true,own_prefill=false"),
        ("Streaming:2K", "streamingllm:2048,sinks=4,copy=true,own_prefill=false"),
        (" snap:2049 ", "snapkv:2049,window=32,kernel=7,generated=0"),
        ("dense", "full"),
        ("quest:1.5k, page = 32", "quest:1536,page=32"),
        ("quest,budget=1024", "quest:1024,page=16"),
        ("quantized,bits=4.5", "quantized,bits=4.5,shared=false"),
        ("topk:1m", "topk:1048576"),
        ("h2o:1234567", "h2o:1234567"),
    ],
)
def test_parse(text, label):
    assert kv.parse_kv(text).label() == label


@given(st.text(max_size=40))
def test_any_text_parses_or_is_refused(text: str) -> None:
    message = ""
    try:
        kv.parse_kv(text)
    except InputError as refusal:
        message = str(refusal)
    assert "\n" not in message


# Choosing, by hand, at S = 1000: 32 query heads of 128 (a score takes 8192 FLOPs), 8 KV heads, keys of 2048
# bytes.


@dataclass(frozen=True)
class Choosing:
    """What a method costs in one of its steps (`when`)."""

    text: str
    when: str
    flops: float
    moved_bytes: float
    kernels: float


CHOOSING = [
    # one score a token and KV head written and read, and an index for each of 100 tokens
    Choosing(
        "pillar:100", "select_iteration", flops=1000 * 32, moved_bytes=4 * 8 * (2 * 1000 + 100), kernels=1
    ),
    Choosing(
        "pillar,share=0.2",
        "select_iteration",
        flops=1000 * 32,
        moved_bytes=4 * 8 * (2 * 1000 + 200),
        kernels=1,
    ),
    # 4 FLOPs a value; values read at 2 bytes, codes of half a byte and 16 ranges of 4 bytes written
    Choosing(
        "quantized,bits=4",
        "setup",
        flops=4 * 1000 * 2048,
        moved_bytes=1000 * (4096 + 1024 + 16 * 4),
        kernels=1,
    ),
    # kept tokens: a head's scores summed over 32 query heads, one comparison a KV head
    Choosing("h2o:100", "select_step", flops=100 * (32 + 8), moved_bytes=2 * 4 * 100 * 8, kernels=1),
    Choosing("h2o:100", "setup", flops=1000 * 1000 / 2 * 8192, moved_bytes=1000 * (2048 + 4 * 8), kernels=2),
    Choosing("tova:100", "select_step", flops=100 * 33, moved_bytes=2 * 4 * 100, kernels=1),
    Choosing("tova:100", "setup", flops=1000 * (8192 + 32), moved_bytes=1000 * (2048 + 2 * 4), kernels=2),
    # 50 means of 20 keys scored (averaged first where none is kept), the budget read and written; 1
    # in 4 iterations
    Choosing(
        "retrieval:100,every=4,chunk=20",
        "select_iteration",
        flops=50 * 8192 / 4,
        moved_bytes=(50 * 2048 + 2 * 100 * 4096) / 4,
        kernels=0.75,
    ),
    Choosing(
        "retrieval:100,every=4,chunk=20",
        "setup",
        flops=50 * 8192 + 1000 * 1024,
        moved_bytes=1050 * 2048 + 2 * 100 * 4096,
        kernels=3,
    ),
    Choosing(
        "retrieval:100,every=4,chunk=20,keep_means=false",
        "select_iteration",
        flops=(50 * 8192 + 1000 * 1024) / 4,
        moved_bytes=(1000 * 2048 + 2 * 100 * 4096) / 4,
        kernels=0.75,
    ),
    Choosing(
        "retrieval:100,every=4,chunk=20,keep_means=false",
        "setup",
        flops=50 * 8192 + 1000 * 1024,
        moved_bytes=1000 * 2048 + 2 * 100 * 4096,
        kernels=3,
    ),
    # 32 queries scored and summed, 7 neighbours pooled; scores written and read twice, the budget
    # once
    Choosing(
        "snapkv:100",
        "setup",
        flops=1000 * 8192 * 32 + 1000 * 32 * (32 + 7),
        moved_bytes=1000 * 2048 + 4 * 4 * 1000 * 32 + 2 * 100 * 4096,
        kernels=4,
    ),
    Choosing("streamingllm:100", "setup", flops=0, moved_bytes=2 * 100 * 4096, kernels=1),
    Choosing("streamingllm:100,copy=false", "setup", flops=0, moved_bytes=0, kernels=0),
    Choosing("streamingllm:100,own_prefill=true", "setup", flops=0, moved_bytes=0, kernels=0),
    Choosing("full", "setup", flops=0, moved_bytes=0, kernels=0),
    Choosing("topk:100", "select_step", flops=900 * 8192, moved_bytes=900 * 2048, kernels=2),
    # 50 pages of 20: both bounds scored; bounds of 2 keys a page
    Choosing("quest:100,page=20", "select_step", flops=2 * 50 * 8192, moved_bytes=50 * 2 * 2048, kernels=2),
    Choosing(
        "quest:100,page=20",
        "setup",
        flops=2 * 1000 * 8 * 128,
        moved_bytes=1000 * 2048 + 50 * 2 * 2048,
        kernels=1,
    ),
    # 2^3 centroids scored, 4 table entries a key and query head; 4 x 3 bits a key and KV head
    Choosing(
        "pqcache:100,subvectors=4,bits=3,iterations=5",
        "select_step",
        flops=8 * 8192 + 1000 * 32 * 4,
        moved_bytes=1000 * 8 * 4 * 3 / 8,
        kernels=3,
    ),
    Choosing(
        "pqcache:100,subvectors=4,bits=3,iterations=5",
        "setup",
        flops=5 * 2 * 1000 * 8 * 128 * 8,
        moved_bytes=5 * 1000 * 2048 + 1000 * 8 * 4 * 3 / 8,
        kernels=10,
    ),
]


@pytest.mark.parametrize("case", CHOOSING, ids=lambda case: f"{case.text} {case.when}")
def test_choosing_by_hand(case: Choosing) -> None:
    step = getattr(kv.parse_kv(case.text), case.when)(1000.0, LLAMA)
    choosing = float(step.flops), float(step.bytes), float(step.kernels)
    assert choosing == pytest.approx((case.flops, case.moved_bytes, case.kernels), rel=1e-14)


@pytest.mark.parametrize(
    ("text", "tokens", "beside"),
    [
        ("full", 1000, 0),
        ("streamingllm:100", 100, 0),
        ("snapkv:100,generated=20", 120, 0),
        ("h2o:100", 100, 100 * 8 * 4),
        ("tova:100", 100, 100 * 4),
        ("quest:100,page=20", 1000, 50 * KAPPA),  # evicts nothing, and keeps bounds
        ("quantized,bits=8", 500, 1000 * 64),
    ],
)
def test_a_cache_that_only_the_draft_uses_by_hand(text, tokens, beside) -> None:
    """At S = 1000: all tokens, or what the method does not evict."""
    assert kv.parse_kv(text).own_bytes(1000.0, LLAMA) == tokens * KAPPA + beside, text


@pytest.mark.parametrize(("head_dim", "rows"), [(64, 4), (128, 4), (192, 6), (256, 8)])
def test_a_query_token_of_wide_heads_fills_more_rows_of_a_tile(head_dim: int, rows: int) -> None:
    """Four query heads share a KV head. Heads of up to 128 values take one row each."""
    layout = kv.KVLayout(8, head_dim, 2 * 8 * head_dim, 32, 2)
    assert layout.group == rows


def test_a_share_leaves_tokens_out_of_every_context_unless_it_is_all() -> None:
    some = kv.parse_kv("pillar,share=0.5")
    whole = kv.parse_kv("pillar,share=1")
    assert some.beyond_budget(np.array([0.0, 1.0, 9.0])).tolist() == [0, 1, 1]
    assert whole.beyond_budget(9.0) == 0
    assert some.stored_bytes(1000.0, LLAMA) == 500 * 8 * 4
    assert whole.stored_bytes(1000.0, LLAMA) == 0
    assert some.select_iteration(1000.0, LLAMA).kernels == 1
    assert kv.parse_kv("full").beyond_budget(1e12) == 0
    assert kv.parse_kv("topk:100").beyond_budget(np.array([100.0, 101.0])).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "allowed", "refused"),
    [
        ("snapkv:{},window=1", (2,), (1,)),
        ("snapkv:{}", (33,), (32, 0, -5, "nan")),
        ("snapkv:100,window={}", (1,), (0,)),
        ("snapkv:100,kernel={}", (1,), (2, 4)),
        ("quest:8,page={}", (1, 8), (0, 9)),
        ("retrieval:100,every={}", (1,), (0,)),
        ("retrieval:100,every=1,chunk={}", (1, 100), (0, 101)),
        ("pqcache:1,subvectors={},bits=6,iterations=9", (1, 1024), (0, 1025)),
        ("pqcache:1,subvectors=2,bits={},iterations=9", (1, 16), (0, 17)),
        ("pqcache:1,subvectors=2,bits=6,iterations={}", (1, 10000), (0, 10001)),
        ("quantized,bits={}", (1, 16), (0, 17)),
        ("quantized,group={}", (1,), (0,)),
        ("pillar,share={}", (0.01, 1), (0, 1.01)),
        ("streamingllm:1,sinks={}", (0,), (1,)),
        *((f"{method}:{{}}", (1, 2**40), (0, 2**40 + 1)) for method in ("h2o", "tova", "topk", "pillar")),
    ],
)
def test_options_at_the_ends_of_what_is_allowed(text: str, allowed: tuple, refused: tuple) -> None:
    for value in allowed:
        kv.parse_kv(text.format(value))
    for value in refused:
        with pytest.raises(InputError, match="must be"):
            kv.parse_kv(text.format(value))


LATER = """
from __future__ import annotations
from perfmodel.{folder}.base import {base}
class Later({base}):
    example, views_target_cache = "later", True
    budget: int = 64
    step: int = 8
"""


def test_annotations_may_be_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package, base in ((kv, "KVMethod"), (drafts, "Draft")):
        folder = tmp_path / base
        folder.mkdir()
        (folder / "later.py").write_text(LATER.format(folder=package.__name__.partition(".")[2], base=base))
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
        monkeypatch.setattr(package, "names", lambda: ("later",))
    method = kv.parse_kv("later:32,step=4")
    assert method.label() == "later:32,step=4"
    precision = Precision(weight_format("bf16"), kv_format("bf16"))
    draft = drafts.make_draft("later:step=2", load_model("llama-3.1-8b"), precision, 1, method)
    assert vars(draft)["step"] == 2


@pytest.mark.parametrize(("layout", "head_dim", "rows"), [(LLAMA, 64, 4), (LLAMA, 128, 4), (LLAMA, 256, 8)])
def test_a_query_token_fills_a_row_for_each_head_and_more_for_wide_heads(
    layout: kv.KVLayout, head_dim: float, rows: float
) -> None:
    """32 query heads share 8 KV heads. A tile has half as many rows for heads of 256 values."""
    assert layout.replace(head_dim=head_dim).group == rows
    assert LATENT.group == 128 * 576 / 128
