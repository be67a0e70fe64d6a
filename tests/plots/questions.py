"""The questions of the tests of pictures."""

from dataclasses import replace
from pathlib import Path

from perfmodel.answers.question import Query, resolve

ROOT = Path(__file__).parents[2]
ASK = Query("llama-3.1-8b", "a100-sxm-80gb", 64, 32000, 2, tp=8, draft_kv="streamingllm:512", alpha=0.81)
LONG = replace(
    ASK,
    model="qwen3-235b-a22b",
    hardware="h200-sxm-141gb",
    draft_kv="pqcache:1024,subvectors=2,bits=6,iterations=10",
    calibration="ideal",
)
SCENARIO = resolve(ASK)
POINTS = [(64, 2048), (64, 8192), (64, 32768)]
