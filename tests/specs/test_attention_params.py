"""Parameters of one attention layer, by hand, for each family of projections."""

from typing import Any

import pytest

from perfmodel.specs import ModelSpec

HIDDEN = 100
HEADS = 4
KV_HEADS = 2
WIDTH = 16
VALUE_WIDTH = 24


def small(**changes: Any) -> ModelSpec:
    """A small model with such fields."""
    fields: dict[str, Any] = {
        "name": "small",
        "title": "Small",
        "model_type": "llama",
        "num_hidden_layers": 3,
        "hidden_size": HIDDEN,
        "intermediate_size": 50,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": WIDTH,
        "value_head_dim": VALUE_WIDTH,
        "source": "a test",
    }
    return ModelSpec.of_mapping(fields | changes)


def params(**changes: Any) -> int:
    """Parameters of one attention layer of a small model with such fields."""
    return small(**changes).attention_params()


QUERY = HEADS * WIDTH
KEYS_AND_VALUES = KV_HEADS * (WIDTH + VALUE_WIDTH)
OUTPUT = HEADS * VALUE_WIDTH
PLAIN = HIDDEN * (QUERY + KEYS_AND_VALUES + OUTPUT)
LATENT = {"kv_lora_rank": 32, "qk_nope_head_dim": 12, "qk_rope_head_dim": 4, "v_head_dim": 10}


def test_plain_projections() -> None:
    assert params() == PLAIN


def test_a_bias_has_a_value_per_output() -> None:
    assert params(qkv_bias=True) == PLAIN + QUERY + KEYS_AND_VALUES
    assert params(output_bias=True) == PLAIN + HIDDEN


def test_a_gate_is_a_second_query() -> None:
    assert params(attention_gate=True) == PLAIN + HIDDEN * QUERY


def test_norms_of_queries_and_keys_are_of_a_head_or_of_all_heads() -> None:
    assert params(qk_norm=True) == PLAIN + 2 * WIDTH
    assert params(qk_norm=True, wide_qk_norm=True) == PLAIN + (HEADS + KV_HEADS) * WIDTH


def test_a_sink_is_a_value_per_head() -> None:
    assert params(attention_sinks=True) == PLAIN + HEADS


def test_a_latent_has_projections_to_it_and_from_it() -> None:
    query = HIDDEN * HEADS * (12 + 4)
    to_latent = HIDDEN * (32 + 4)
    norm = 32
    from_latent = 32 * HEADS * (12 + 10)
    output = HEADS * 10 * HIDDEN
    assert params(mla=LATENT) == query + to_latent + norm + from_latent + output


def test_queries_of_a_latent_may_have_a_low_rank_with_a_norm() -> None:
    one_matrix = HIDDEN * HEADS * (12 + 4)
    two_matrices = HIDDEN * 8 + 8 * HEADS * (12 + 4)
    norm = 8
    low_rank = params(mla=LATENT | {"q_lora_rank": 8})
    assert low_rank == params(mla=LATENT) - one_matrix + two_matrices + norm


def test_plain_heads_with_queries_and_outputs_of_low_rank() -> None:
    query = HIDDEN * 8 + 8 * QUERY
    norms = 8 + WIDTH
    groups = 2
    output = OUTPUT * 6 + groups * 6 * HIDDEN
    low_rank = {"query_rank": 8, "output_rank": 6, "output_groups": groups}
    assert params(low_rank=low_rank) == query + norms + HIDDEN * KEYS_AND_VALUES + output


@pytest.mark.parametrize(
    ("norms", "missing"), [({}, 0), ({"qk_norm": True}, WIDTH), ({"wide_qk_norm": True}, KV_HEADS * WIDTH)]
)
def test_a_layer_with_the_cache_of_another_lacks_keys_values_and_their_norm(norms, missing: int) -> None:
    fields = {"qkv_bias": True} | ({"qk_norm": True} if norms else {}) | norms
    shared = small(shared_kv_layers=1, **fields).total_params
    assert small(**fields).total_params - shared == KEYS_AND_VALUES * (HIDDEN + 1) + missing


def test_only_plain_layers_run_more_than_once() -> None:
    assert small(loops=3).loops == 3
    experts = {"num_experts": 8, "experts_per_token": 2, "intermediate_size": 20}
    with pytest.raises(ValueError, match="with attention and MLP"):
        small(loops=3, moe=experts)
