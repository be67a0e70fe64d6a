"""The same tokens come out of one process and of two (gloo, on a CPU)."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from perfmodel.specs import MoE
from perfmodel.speculation.tree_shape import branching
from perfmodel.validate.decoder import (
    RandomWeights,
    RankShard,
    Request,
    Sampling,
    build,
    joined,
    make_decoder,
)
from perfmodel.validate.decoder.shard import for_draft
from tests.refusals import refused
from tests.validate import ranks
from tests.validate.tiny_model import tiny_spec

EXPERTS = MoE(num_experts=5, experts_per_token=2, intermediate_size=24)
CASES: list[dict[str, Any]] = [
    {"gamma": 0},
    {"gamma": 4, "draft_kv": "snapkv:16,window=8"},
    {"gamma": 4, "draft_kv": "quest:16,page=4", "shape": {"num_key_value_heads": 1}},
    {"gamma": 4, "draft": "model", "draft_kv": "streamingllm:16", "draft_tp": 1},
    {"gamma": 4, "draft": "model", "draft_kv": "full", "draft_tp": 2},
    {"gamma": 3, "draft_kv": "streamingllm:16,own_prefill=true"},
    {"gamma": 3, "draft": "ngram"},
    {"gamma": 2, "draft_kv": "snapkv:16,window=8", "tree": branching("3x2"), "temperature": 0.8},
    {"gamma": 3, "draft_kv": "topk:8", "temperature": 0.8, "shape": {"qkv_bias": True, "qk_norm": True}},
    {"gamma": 3, "draft_kv": "snapkv:16,window=8", "shape": {"moe": EXPERTS, "num_hidden_layers": 3}},
    {"gamma": 2, "fp8": True, "shape": {"moe": EXPERTS}},
    {"gamma": 2, "shape": {"tie_word_embeddings": True, "output_bias": True, "mlp_bias": True}},
    {
        "gamma": 3,
        "draft_kv": "snapkv:16,window=8",
        "fp8": True,
        "kv_dtype": "fp8",
        "shape": {"mlp_bias": True},
    },
]
EVEN = {"vocab_size": 60}
"""Two processes have half of the vocabulary each."""
NEW = 10
PROMPTS = [[3, 1, 4, 1, 5, 9, 2, 6] * 5, [7], [8, 2, 8, 1, 8] * 4]

WORKER = """
import json, sys
sys.path[:0] = [{tests!r}]
import torch
torch.set_num_threads(1)
from test_parallel import CASES, run
from perfmodel.validate.decoder.shard import joined
with joined(2, torch.device("cpu")) as shard:
    print(json.dumps([run(case, shard) for case in CASES]))
"""


def run(case: dict[str, Any], shard: RankShard) -> list[list[int]]:
    case = dict(case)
    shape = case.pop("shape", {})
    draft_tp = case.pop("draft_tp", None)
    sampling = Sampling(case.pop("temperature", 0.0))
    fp8 = case.pop("fp8", False)
    weights = RandomWeights(0, torch.device("cpu"), torch.float64, 0.3)
    model = build(tiny_spec(**EVEN, **shape), weights, shard, fp8)
    draft = None
    if draft_tp:
        draft_shard = for_draft(shard, draft_tp) if shard.size > 1 else shard
        draft = build(tiny_spec(**EVEN, num_hidden_layers=1), weights, draft_shard)
    request = Request(len(PROMPTS), 40, NEW, sampling=sampling, **case)
    return make_decoder(model, request, draft).generate(PROMPTS, NEW, seed=1).tokens


@pytest.mark.slow
def test_two_processes_give_the_tokens_of_one() -> None:
    worker = WORKER.format(tests=str(Path(__file__).parent))
    first, second = map(json.loads, ranks.run("-c", worker))
    assert first == second, "both ranks must take the same decisions"
    for case, tokens in zip(CASES, first, strict=True):
        assert tokens == run(case, RankShard()), case


def test_kv_heads_are_split_or_replicated_and_sizes_must_fit() -> None:
    assert [RankShard(rank, 2).kv_heads(8) for rank in range(2)] == [(0, 4), (4, 8)]
    for rank in range(8):
        assert RankShard(rank, 8).kv_heads(2) == ((0, 1) if rank < 4 else (1, 2))
    for size in (3, 8):
        refused("--tp: must divide num_attention_heads of tiny", RankShard(0, size).check, tiny_spec())
    experts = tiny_spec(**EVEN, moe=MoE(num_experts=4, experts_per_token=2, intermediate_size=25))
    refused("--tp: must divide moe_intermediate_size of tiny", RankShard(0, 2).check, experts)
    refused(r"--tp: must be the number of processes \(1\), given 2", joined(2, torch.device("cpu")).__enter__)
