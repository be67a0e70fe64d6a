"""What Python refuses of a question, in one line; commands are pinned in tests/pinned/refused.txt."""

import math
import re
from typing import Any

import pytest

import perfmodel as pm
from tests.test_front_door import ASKED
from tests.validate.tiny import refused

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("whatif", {"model": None}, "model: must be text, given None"),
    ("whatif", {"model": "a\nb"}, "model: no model named"),
    ("whatif", {"draft_kv": 512}, "draft_kv: must be text, given 512"),
    (
        "whatif",
        {"batch": True},
        "batch: must be a positive whole number such as 8 or 32k (32768), given True",
    ),
    ("whatif", {"batch": [1, 2]}, "batch: must be one value here, given 2; `perfmodel sweep` takes lists"),
    ("whatif", {"context": 1e300}, "context: must be numbers from 1"),
    ("whatif", {"alpha": False}, "alpha: must be a finite number, given False"),
    ("whatif", {"alpha": [0.5, 0.6]}, "alpha: must be a finite number"),
    ("whatif", {"kv_reread": math.nan}, "kv_reread: must be a finite number"),
    ("whatif", {"batch_range": 8}, "batch_range: must be two numbers such as 32..256, given 8"),
    ("whatif", {"batch_range": (1, math.inf)}, "batch_range: must be a positive whole number"),
    ("advise", {"objective": "speed"}, "no objective named"),
    ("advise", {"batch": ()}, "one value or more"),
    ("advise", {"rate": {"self@quest": "0.8"}}, "needs budget"),
    ("advise", {"rate": {"eagle": "1.5"}}, "rate eagle: alpha: must be in [0, 1]"),
    ("advise", {"rate": {"ngram": "1.5x3"}}, "rate ngram: hit probability: must be in"),
    ("advise", {"rate": {"@quest:512": "0.5"}}, "DRAFT=RATE"),
    ("tree", {"given": "5x8x32", "size": 64}, "given: must be left out with size or levels"),
    ("tree", {"given": "5x8x32", "levels": 3}, "given: must be left out with size or levels"),
    ("traffic", {"prefix_hits": 0.5}, "prefix_hits: needs prefix_len"),
    ("traffic", {"prefix_block": 64}, "prefix_block: needs prefix_len, turns or trace"),
    ("traffic", {"disable_eagle_block_drop": True}, "disable_eagle_block_drop: needs prefix_len"),
    ("traffic", {"think_time": 3}, "think_time: needs turns"),
    *(
        ("traffic", {"request_rate": rate}, "request_rate: must be a number from 1e-06")
        for rate in (1e-9, 1e9)
    ),
    ("traffic", {"request_rate": None, "rollout": 8, "slo": "tpot:20"}, "slo: must be left out with rollout"),
]


@pytest.mark.parametrize(("verb", "changes", "message"), REFUSED)
def test_refused_in_one_line(verb: str, changes: dict[str, Any], message: str) -> None:
    refused(re.escape(message), getattr(pm, verb), **ASKED[verb] | changes)
