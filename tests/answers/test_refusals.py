"""What Python refuses of a question, in one line: of numbers and limits that answers read themselves.

What can be typed wrong in names, formats and files is in tests/cli/test_cli_bad_input.py.
"""

import math
from typing import Any

import pytest

import perfmodel as pm
from perfmodel.errors import InputError
from tests.test_front_door import ASKED

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("whatif", {"model": None}, "model: must be text, given None"),
    ("whatif", {"model": "a\nb"}, "model: no model named"),
    ("whatif", {"draft_kv": 512}, "draft_kv: must be text, given 512"),
    ("whatif", {"batch": True}, "batch: must be a positive whole number such as 8 or 32k (32768), given True"),
    ("whatif", {"batch": [1, 2]}, "batch: must be one value here, given 2; `perfmodel sweep` takes lists"),
    ("whatif", {"context": 1e300}, "context: must be numbers from 1"),
    ("whatif", {"alpha": False}, "alpha: must be a finite number, given False"),
    ("whatif", {"alpha": [0.5, 0.6]}, "alpha: must be a finite number"),
    ("whatif", {"kv_reread": math.nan}, "kv_reread: must be a finite number"),
    ("whatif", {"batch_range": 8}, "batch_range: must be two numbers such as 32..256, given 8"),
    ("whatif", {"batch_range": (1, math.inf)}, "batch_range: must be a positive whole number"),
    *(("inverse", {"speedup": x}, "speedup: must be a finite number") for x in (0.0, -1.0, math.nan, math.inf)),
    ("moe", {"model": "qwen3-8b"}, "no routed experts"),
    ("moe", {"gamma": "auto"}, "gamma: must be a positive whole number"),
    ("moe", {"routing_independence": 1.5}, "routing_independence: must be a number from 0 to 1"),
    ("moe", {"fewer_experts": 0.9}, "a share from 0 to"),
    ("moe", {"fewer_experts": 0.1, "fewer_experts_at": 2**21}, "fewer_experts_at: must be a whole number from 1"),
    ("moe", {"fewer_experts": 0.1, "routing_independence": 1}, "give one of them"),
    ("moe", {"draft": "medusa:heads=2"}, "gamma: must be at most 2 with medusa, given 3"),
    ("moe", {"batch": 2**21}, "batch: must be a whole number from 1 to 1048576"),
    ("advise", {"objective": "speed"}, "no objective named"),
    ("advise", {"batch": ()}, "one value or more"),
    ("advise", {"max_tpot_ms": -1}, "max_tpot_ms"),
    ("advise", {"rate": {"self@quest": "0.8"}}, "needs budget"),
    ("advise", {"rate": {"eagle": "1.5"}}, "rate eagle: alpha: must be in [0, 1]"),
    ("advise", {"rate": {"ngram": "1.5x3"}}, "rate ngram: hit probability: must be in"),
    ("advise", {"rate": {"@quest:512": "0.5"}}, "DRAFT=RATE"),
    ("advise", {"rate": ["eagle"]}, "DRAFT=RATE"),
    ("advise", {"rate": ["eagle=0.7", "eagle=0.5"]}, "given twice"),
    ("advise", {"rate": ["quest=0.5"]}, "no model named"),
    ("traffic", {"request_rate": None}, "request_rate, max_concurrency: must be one of them"),
    ("traffic", {"max_concurrency": 2}, "given both"),
    ("traffic", {"request_rate": 0}, "request_rate: must be a finite number above 0"),
    ("traffic", {"request_rate": "1,-2"}, "request_rate"),
    ("traffic", {"request_rate": None, "max_concurrency": 0}, "max_concurrency: must be"),
    ("traffic", {"output_len": 1}, "output_len: must be a whole number from 2"),
    ("traffic", {"input_len": 131_000, "output_len": 100}, "131072 positions"),
    ("traffic", {"slo": "latency:3"}, "slo: must be ttft:MS"),
    ("traffic", {"slo": "tpot:0"}, "slo"),
    ("traffic", {"gamma": "two"}, "gamma"),
    ("traffic", {"alpha": None, "gamma": "1,3", "tokens_per_iteration": 1.5}, "tokens_per_iteration: needs one"),
    ("traffic", {"rate": "0.5"}, "only one of them"),
    ("traffic", {"context_std": 5}, "context_std"),
    ("schedule", {"hysteresis": 2}, "hysteresis"),
    ("schedule", {"shares": "fair"}, "shares: must be octaves or equal"),
    ("schedule", {"max_batch": "8,16"}, "max_batch: must be a positive whole number"),
    ("schedule", {"alpha": 0.5}, "give one of them"),
    ("schedule", {"rate": None, "tokens_per_iteration": 2.5}, "needs gamma N"),
    ("schedule", {"rate": "tree:0.5/0.1"}, "belongs to"),
    ("schedule", {"model": "llama-3.1-405b", "max_batch": None}, "not one sequence"),
    ("tree", {"size": 9999}, "tree size"),
    ("tree", {"levels": 0}, "tree levels"),
    ("tree", {"rates": "0.9,0.9"}, "at most 1 in sum"),
    ("tree", {"rates": "absent.yaml"}, "absent.yaml"),
    ("compare", {"gamma": "auto"}, "gamma"),
    ("hierarchy", {"gamma_1": 0}, "gamma_1"),
    ("hierarchy", {"gamma_2": 999}, "gamma_2"),
    ("hierarchy", {"small_rate": "tree:0.5/0.1"}, "chains only"),
    ("hierarchy", {"draft_kv": "full"}, "draft_kv: must be METHOD:BUDGET, a sparse cache"),
    ("hierarchy", {"small": "medusa:heads=2", "small_kv": "full", "gamma_1": 3}, "gamma_1: must be at"),
    ("hierarchy", {"small_rate": "0.7/0.5", "gamma_1": 3}, "gamma_1: must be at most 2"),
    ("serving", {"alpha": 1.5}, "from 0 to 1"),
    ("serving", {"graph_sizes": "8,4"}, "graph_sizes: must be rising"),
    ("serving", {"model": "deepseek-r1", "hardware": "h200", "tp": 8, "dp": 8}, "dp: must be 1 here"),
    ("serving", {"gamma": 9, "draft": "medusa:heads=3"}, "gamma: must be at most 3 with medusa, given 9"),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "changes", "said"), REFUSED)
def test_refused_in_one_line(verb: str, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        getattr(pm, verb)(**ASKED[verb] | changes)
    assert said in str(caught.value)
    assert str(caught.value).isprintable()
