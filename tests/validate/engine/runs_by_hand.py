"""One short run in each JSON format, and the figures of its step."""

from typing import Any

RUNS: dict[str, dict[str, Any]] = {
    "vllm_serve": {
        "max_concurrency": 8,
        "endpoint_type": "openai",
        "duration": 2.0,
        "completed": 4,
        "median_tpot_ms": 20,
        "total_input_tokens": 400,
        "total_output_tokens": 204,
    },
    "sglang": {
        "accept_length": None,
        "median_tpot_ms": 20.0,
        "median_ttft_ms": 100.0,
        "completed": 4,
        "total_input_tokens": 400,
        "total_output_tokens": 200,
        "concurrency": 2.5,
    },
    "sglang_costs": {"sample_batch_tokens": [8, 64], "sample_steps_per_sec": [100, 50]},
    "sglang_speculative": {
        "batch_size": 2,
        "steps": 3,
        "topk": 1,
        "num_draft_tokens": 4,
        "acc_length": 2.5,
        "step_time": 0.01,
    },
    "vllm_forward": {"median_us": 5000, "requests": [{"query_len": 1, "kv_len": 2, "num_draft_tokens": 0}]},
    "llama_bench": {"n_gen": 100, "avg_ns": 2e9, "n_prompt": 0},
    "llama_server": {"predicted_n": 101, "predicted_ms": 930.0, "prompt_n": 512},
    "aiperf": {
        "inter_token_latency": {"unit": "s", "p50": 0.02},
        "input_config": {"concurrency": 1},
        "time_to_first_token": {"unit": "sec", "p50": 0.5},
        "input_sequence_length": {"avg": 100},
        "output_sequence_length": {"avg": 50},
        "request_count": {"avg": 9},
    },
    "trtllm_bench": {
        "request_info": {
            "num_requests": 80,
            "avg_num_concurrent_requests": 3.9,
            "avg_input_length": 512.0,
            "avg_output_length": 256.0,
        },
        "performance": {},
        "streaming_metrics": {"avg_tpot_ms": 7.3, "avg_ttft_ms": 35.0},
    },
    "guidellm": {"metadata": {}, "benchmarks": []},
    "llmd": {"scenario": {}, "run": {}, "results": {}},
}


def one(*at: int, drafted: int = 0) -> dict[str, Any]:
    query, kv = at
    return {"query_len": query, "kv_len": kv, "num_draft_tokens": drafted}


def step(**figures: object) -> dict[str, object]:
    """What a run says of its step; figures that are not named have their usual values."""
    usual = {
        "gamma": 0,
        "tokens_per_iteration": 1,
        "seconds": 0.02,
        "prompt": 100,
        "output": 50,
        "prefill_share": 0,
    }
    return usual | figures
