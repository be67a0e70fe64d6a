"""What the engines' configuration schemas refuse, beside what they take."""

import json

import pytest
from pydantic import ValidationError

from perfmodel.specs.engine_config import ContextTable, SGLangFlags, VLLMConfig

GOOD = {
    "method": "ngram",
    "prompt_lookup_min": 2,
    "prompt_lookup_max": 4,
    "num_speculative_tokens": 4,
    "num_speculative_tokens_per_batch_size": [[1, 8, 4], [9, 64, 0]],
}


@pytest.mark.parametrize(
    "change",
    [
        {"num_speculative_tokens_per_batch_size": [[2, 8, 4]]},
        {"num_speculative_tokens_per_batch_size": [[1, 8, 4], [10, 64, 0]]},
        {"num_speculative_tokens_per_batch_size": [[1, 8, 4], [8, 64, 0]]},
        {"num_speculative_tokens_per_batch_size": [[1, 8, 5]]},
        {"num_speculative_tokens_per_batch_size": [[1, 8, -1]]},
        {"num_speculative_tokens_per_batch_size": []},
        {"method": "sparse_self"},
        {"method": "eagle"},
        {"method": "medusa", "model": "x"},
        {"prompt_lookup_min": 5},
        {"prompt_lookup_max": None},
        {"num_speculative_tokens": 0},
        {"sparse": True},
    ],
)
def test_the_vllm_schema_refuses(change: dict) -> None:
    VLLMConfig.model_validate_json(json.dumps(GOOD))
    with pytest.raises(ValidationError):
        VLLMConfig.model_validate_json(json.dumps(GOOD | change))


@pytest.mark.parametrize(
    "rows",
    [
        [[1, 8, 1, 100, 2]],
        [[2, 8, 0, 100, 2]],
        [[1, 8, 0, 100, 2], [10, 16, 0, 100, 1]],
        [[1, 8, 0, 100, 2], [1, 8, 102, 200, 2]],
        [[1, 8, 0, 100, 2], [1, 9, 101, 200, 2]],
        [[1, 8, 0, 100, 2], [1, 8, 50, 200, 2]],
    ],
)
def test_the_five_item_schema_refuses(rows: list) -> None:
    ContextTable.model_validate_json(json.dumps({"rows": [[1, 8, 0, 100, 2], [1, 8, 101, 200, 2]]}))
    with pytest.raises(ValidationError):
        ContextTable.model_validate_json(json.dumps({"rows": rows}))


@pytest.mark.parametrize(
    "change",
    [
        {"speculative_num_draft_tokens": 9},
        {"speculative_num_steps": None},
        {"speculative_draft_model_path": None},
        {"speculative_algorithm": "SPARSE"},
        {"speculative_draft_sink_size": 4},
        {"speculative_algorithm": "STANDALONE", "speculative_adaptive_config": "x.json"},
        {"speculative_algorithm": "NGRAM"},
    ],
)
def test_the_sglang_schema_refuses(change: dict) -> None:
    good = {
        "speculative_algorithm": "EAGLE",
        "speculative_num_draft_tokens": 4,
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_draft_model_path": "x",
    }
    SGLangFlags(**good)
    with pytest.raises(ValidationError):
        SGLangFlags(**(good | change))
