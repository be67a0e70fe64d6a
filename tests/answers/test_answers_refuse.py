"""What Python refuses of a question, in one line; commands are pinned in tests/pinned/refused.txt."""

import json
import math
import re
from typing import Any

import pytest

import perfmodel as pm
from tests.refusals import refused
from tests.test_front_door import ASKED

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("whatif", {"model": None}, "model: must be text, given None"),
    ("whatif", {"model": "a\nb"}, "model: no model named"),
    ("whatif", {"draft": ""}, "draft: no model named ''"),
    (
        "inflection",
        {"draft": "medusa:heads=3", "draft_kv": None, "gamma": 8},
        "gamma: must be at most 3 with medusa",
    ),
    ("whatif", {"draft_kv": 512}, "draft_kv: must be text, given 512"),
    (
        "whatif",
        {"batch": True},
        "batch: must be a positive whole number such as 8 or 32k (32768), given True",
    ),
    ("whatif", {"batch": [1, 2]}, "batch: must be one value here, given 2; `perfmodel sweep` takes lists"),
    ("whatif", {"context": 1e300}, "context: must be at most 1e+15"),
    ("whatif", {"alpha": False}, "alpha: must be a finite number, given False"),
    ("whatif", {"alpha": [0.5, 0.6]}, "alpha: must be a finite number"),
    ("whatif", {"acceptance_rate": 0.5}, "acceptance_rate: must not be given with another acceptance"),
    *(
        ("whatif", {"acceptance_rate": 0.5, "alpha": None, "gamma": gamma}, "acceptance_rate: needs gamma N")
        for gamma in (0, None)
    ),
    ("whatif", {"nodes": "1x8", "pp": 3}, "pp: must divide the 8 devices of nodes 1x8, given 3"),
    ("whatif", {"kv_reread": math.nan}, "kv_reread: must be a finite number"),
    ("whatif", {"batch_range": 8}, "batch_range: must be two rising numbers such as 32..256, given 8"),
    ("whatif", {"batch_range": (1, math.inf)}, "batch_range: must be a positive whole number"),
    ("advise", {"objective": "speed"}, "no objective named"),
    (
        "advise",
        {"pp": 2},
        "pp: must be 1 in advise, which places no pipeline stages (whatif and sweep do), given 2",
    ),
    ("advise", {"batch": ()}, "one value or more"),
    ("advise", {"rate": {"self@quest": "0.8"}}, "needs budget"),
    ("advise", {"rate": {"eagle": "1.5"}}, "rate eagle: alpha: must be in [0, 1]"),
    ("advise", {"rate": {"ngram": "1.5x3"}}, "rate ngram: hit probability: must be in"),
    ("advise", {"rate": {"@quest:512": "0.5"}}, "DRAFT=RATE"),
    ("tree", {"given": "5x8"}, "given: must be STEPSxTOPKxTOKENS up to"),
    ("tree", {"given": "64x8x32"}, "given: must be STEPSxTOPKxTOKENS up to"),
    ("tree", {"given": "5x8x32", "size": 64}, "given: must be left out with size or levels"),
    ("tree", {"given": "5x8x32", "levels": 3}, "given: must be left out with size or levels"),
    (
        "traffic",
        {"batch_wait_timeout_iters": 10},
        "batch_wait_timeout_iters: needs batch_wait_max_tokens_ratio",
    ),
    ("traffic", {"attention_dp_timeout_iters": 60}, "attention_dp_timeout_iters: needs dp"),
    ("traffic", {"prefix_hits": 0.5}, "prefix_hits: needs prefix_len"),
    ("traffic", {"prefix_block": 64}, "prefix_block: needs prefix_len, turns or trace"),
    ("traffic", {"disable_eagle_block_drop": True}, "disable_eagle_block_drop: needs prefix_len"),
    ("traffic", {"think_time": 3}, "think_time: needs turns"),
    *(
        ("traffic", {"request_rate": rate}, "request_rate: must be a number from 1e-06")
        for rate in (1e-9, 1e9)
    ),
    ("traffic", {"request_rate": None, "rollout": 8, "slo": "tpot:20"}, "slo: must be left out with rollout"),
    ("traffic", {"max_concurrency": "1..1000000"}, "must be at most 1000 values, given 1000000"),
    ("traffic", {"request_rate": [1.0] * 1001}, "must be at most 1000 values, given 1001"),
    ("traffic", {"gamma": "1..11", "request_rate": [1.0] * 100}, "must be at most 1000 rows, given 1100"),
    ("traffic", {"num_prompts": 200_001}, "num_prompts: must be a whole number from 1 to 200000"),
    ("advise", {"batch": [1] * 1001}, "batch: must be at most 1000 values, given 1001"),
    ("traffic", {"output_len": 1}, "output_len: must be a whole number from 2 to 1099511627776,"),
    ("traffic", {"acceptance_std": 0.6}, "acceptance_std: must be a number from 0 to 0.5,"),
    ("traffic", {"burstiness": 0}, "burstiness: must be a number from 0.01 to 1000,"),
    ("traffic", {"max_num_seqs": 5000}, "max_num_seqs: must be a whole number from 1 to 4096,"),
    ("traffic", {"max_num_batched_tokens": 1}, "must be a whole number from 2 to 16777216,"),
    ("traffic", {"prefix_hits": 2}, "prefix_hits: must be a number from 0 to 1,"),
    ("traffic", {"turns": 2000}, "turns: must be a whole number from 1 to 1000,"),
    ("traffic", {"think_time": -1}, "think_time: must be a number from 0 to 1000000,"),
    ("traffic", {"rollout": 10**6}, "rollout: must be a whole number from 1 to 100000,"),
    (
        "traffic",
        {"request_rate": None, "rollout": 50_000, "gamma": "1,2", "alpha_by_age": "0:0.7,1:0.6,2:0.5,3:0.4"}
        | {"max_num_batched_tokens": 512},
        "rollout: must be at most 20833 for 3 draft lengths and policies and 4 ages, given 50000",
    ),
    ("traffic", {"request_rate": 1e9}, "request_rate: must be a number from 1e-06 to 1000000,"),
    ("traffic", {"input_std": 1183}, "input_std: must be from 0 to the mean / sqrt(3) = 1182, given"),
    ("traffic", {"output_std": 116}, "output_std: must be from 0 to the mean / sqrt(3) = 115, given"),
    ("traffic", {"prefix_len": 2049}, "prefix_len: must be at most input_len 2048, given 2049"),
    ("traffic", {"slo": "ttft:1,ttft:2"}, "slo: must be ttft:MS, tpot:MS or e2e:MS"),
    ("traffic", {"turns": 2}, "turns, turn_input_len: both must be given, turns from 2, or neither"),
    ("traffic", {"turn_input_len": 9}, "turns, turn_input_len: both must be given"),
    ("traffic", {"rollout": 4}, "rollout: must be left out with request_rate"),
    ("traffic", {"alpha_by_age": "0:0.5"}, "alpha_by_age: needs rollout"),
    *(
        (
            "traffic",
            {"request_rate": None, "rollout": 4, "alpha_by_age": ages},
            "alpha_by_age: must be different ages",
        )
        for ages in ("0:1.5", "0:0.5,8:1", "0:0.5,0:0.6", "-1:0.5", "inf:0.5", "8", "")
    ),
    ("traffic", {"turns": 500, "turn_input_len": 500}, "500 turns"),
    (
        "traffic",
        {"request_rate": None, "rollout": 9, "turns": 2, "turn_input_len": 9},
        "turns: must be left out",
    ),
    ("compare", {"draft_hardware": "a100"}, "given 'self'"),
    ("compare", {"draft_hardware": "a100", "draft": "ngram", "draft_kv": None}, "a separate model"),
    ("compare", {"draft_hardware": "a100", "hit": 1.5}, "hit: must be"),
    (
        "compare",
        {"draft_hardware": "a100", "draft_devices": 3, "draft": "llama-3.2-1b"},
        "draft_devices: must divide the",
    ),
    ("compare", {"hit": 0.5}, "hit: needs draft_hardware"),
    ("compare", {"draft_hardware": "a100", "outcomes": 2}, "outcomes: needs hit"),
    ("compare", {"draft_devices": 2}, "draft_devices: needs draft_hardware"),
    (
        "compare",
        {"draft_hardware": "nope", "draft": "llama-3.2-1b", "draft_kv": None},
        "draft_hardware: no device named 'nope'",
    ),
    ("compare", {"draft_devices": 65}, "draft_devices: must be a whole number from 1 to 64,"),
    ("compare", {"outcomes": 65}, "outcomes: must be a whole number from 1 to 64,"),
    ("advise", {"max_gamma": 257}, "max_gamma: must be a whole number from 1 to 256, given 257"),
    ("advise", {"max_gamma": 0}, "max_gamma: must be a whole number from 1 to 256, given 0"),
    ("advise", {"batch": 2**20 + 1}, "batch: must be whole numbers from 1 to 2^20, given"),
    ("advise", {"context": 2**40 + 1}, "context: must be a number of tokens from 1 to 2^40, given"),
    ("schedule", {"context": 2**41}, "context: must be a whole number from 1 to 1099511627776,"),
    ("schedule", {"max_batch": 5000}, "max_batch: must be a whole number from 1 to 4096,"),
    ("schedule", {"dynamic_price": 2}, "dynamic_price: must be a number from 0 to 1,"),
    ("whatif", {"context_std": 2**41}, "context_std: must be a whole number from 0 to 1099511627776,"),
    ("whatif", {"kv_reread": 0}, "kv_reread: must be a number from 1 to 1025,"),
    ("whatif", {"kv_page": 2**21}, "kv_page: must be a whole number from 1 to 1048576,"),
    ("whatif", {"layer_split": 65}, "layer_split: must be a whole number from 1 to 64,"),
    ("whatif", {"cpu_moe": 2000}, "cpu_moe: must be a whole number from 0 to 1024,"),
    ("whatif", {"gpu_layers": 2000}, "gpu_layers: must be a whole number from 1 to 1024,"),
    ("whatif", {"host_bandwidth": 1e5}, "host_bandwidth: must be a number above 0 and at most 10000,"),
    ("whatif", {"memory_fraction": 2}, "memory_fraction: must be a number above 0 and at most 1,"),
    (
        "whatif",
        {"hardware": "5090", "power_limit": 399},
        "from 400 to 600 W, as measured for rtx-5090-32gb, given '399'",
    ),
]


@pytest.mark.parametrize(("verb", "changes", "message"), REFUSED)
def test_refused_in_one_line(verb: str, changes: dict[str, Any], message: str) -> None:
    """Of a question that is no mistake without the change."""
    getattr(pm, verb).question(**ASKED[verb])
    refused(re.escape(message), getattr(pm, verb), **ASKED[verb] | changes)


def test_a_file_is_named_before_the_missing_one_that_it_names(tmp_path) -> None:
    rows = tmp_path / "rows.json"
    of_nothing = {"target": "llama-3.1-8b", "draft": "./gone.json", "draft_kv": "full"}
    row = of_nothing | {"context_tokens": 9, "alpha": 0.5}
    rows.write_text(json.dumps({"schema_version": 1, "source": "a test", "rows": [row]}))
    asked = ("llama-3.1-8b", "h100", 1000)
    refused(f"^{rows}: gone.json: must be a readable file", pm.advise, *asked, batch=1, acceptance=str(rows))
    absent = tmp_path / "absent.json"
    refused(f"^{absent}: must be a readable file", pm.advise, *asked, batch=1, acceptance=str(absent))
