"""What a device counts of a pass, by hand: layers, sequences of its group, parts of a pass, and bytes."""

import pytest

from perfmodel.costs.layout import RackLayout
from perfmodel.kv import parse_kv
from tests.costs.machines import count, device_shard, tiny

SPARSE = parse_kv("streamingllm:512")


def test_the_host_launches_attention_and_recurrent_layers_once_each() -> None:
    """Qwen3.5-35B-A3B: 10 layers attend and 30 keep a state. DeepSeek-V4-Flash: 43 layers, of which 41 read a
    compressed cache in the same kernel as their window.
    """
    assert count(device_shard("qwen3.5-35b-a3b"))["host launches"].kernels == 10 + 30
    assert count(device_shard("deepseek-v4-flash"))["host launches"].kernels == 43


@pytest.mark.parametrize(("groups", "sequences"), [(1, 9), (4, 3)])
def test_a_group_keeps_the_small_caches_of_its_own_sequences(groups: int, sequences: int) -> None:
    """9 sequences among 4 groups: the fullest has 3. Each has a cache in every one of 3 layers."""
    p = device_shard(tiny(), groups, groups=groups)
    assert count(p, batch=9.0, kv=SPARSE)["cache upkeep"].caches == 3 * sequences


def test_two_micro_batches_read_the_weights_twice_and_each_sequence_once() -> None:
    whole = count(device_shard(tiny()), batch=4.0)
    halves = count(device_shard(tiny(), layout=RackLayout(micro_batches=2)), batch=4.0)
    assert list(halves) == list(whole)
    for name in ("qkv", "o", "down"):
        assert halves[name].cost.weight_bytes == 2 * whole[name].cost.weight_bytes
        assert halves[name].cost.flops == whole[name].cost.flops
        assert halves[name].kernels == 2 * whole[name].kernels
    assert halves["attention (full)"].cost.kv_bytes == whole["attention (full)"].cost.kv_bytes


def test_only_mamba2_scans_its_tokens() -> None:
    for model, scans in (("nemotron-h-56b", True), ("qwen3.5-35b-a3b", False)):
        (state,) = (op for name, op in count(device_shard(model)).items() if name.startswith("state ("))
        assert state.scans is scans


@pytest.mark.parametrize(
    ("model", "kv", "token_bytes"),
    [
        ("deepseek-v3.2", "fp8", 512 + 4 * 4 + 64 * 2),  # values, a scale per 128 of them, rotary part
        ("deepseek-v3.2", "bf16", 576 * 2),
        ("deepseek-v3", "fp8", 576),  # without an indexer all values are fp8
    ],
)
def test_a_sparse_latent_keeps_scales_in_fp8_only(model: str, kv: str, token_bytes: int) -> None:
    (attention,) = device_shard(model, kv=kv).attentions
    assert attention.layout.token_bytes == pytest.approx(token_bytes)


def test_the_context_of_a_compressed_cache_whose_choice_is_full() -> None:
    """DeepSeek-V4-Flash: 512 chosen entries of 4 tokens are reached at 2,048 tokens, windows at 128. Entries
    have 1,024 bytes; 21 layers keep index keys of 132 bytes per 4 tokens, 20 layers one entry per 128.
    """
    p = device_shard("deepseek-v4-flash")
    for context in (100.0, 2000.0, 2048.0, 64_000.0):
        windows = 43 * min(context, 128) * 1024
        chosen = 21 * min(context, 2048) / 4 * 1024
        others = 21 * context / 4 * 132 + 20 * context / 128 * 1024
        assert p.context_of(windows + chosen + others) == pytest.approx(context)


@pytest.mark.parametrize(("tied", "stored"), [(True, 0), (False, 100 * 48)])
def test_an_embedding_of_its_own_is_stored_once_more(tied: bool, stored: int) -> None:
    """100 words of 48 values of 2 bytes, shared by two devices."""
    tied_bytes = device_shard(tiny(tie_word_embeddings=True), 2).stored_weight_bytes
    weights = device_shard(tiny(tie_word_embeddings=tied), 2).stored_weight_bytes
    assert weights - tied_bytes == stored * 2 / 2


def test_no_logits_are_gathered_without_a_cut_of_the_head_or_across_groups() -> None:
    def gathers(tp: int, **cut: object) -> bool:
        return device_shard(tiny(), tp, gathers_logits=True, **cut).gathers_logits

    assert gathers(2)
    assert not gathers(1)
    assert not gathers(2, shards_lm_head=False)
    assert not gathers(2, groups=2)
