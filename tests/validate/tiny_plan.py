"""A plan with next to no work, as a file that a test may change."""

import json
from pathlib import Path
from typing import Any

import yaml

BLOCK: dict[str, Any] = {
    "target": "tiny",
    "draft_kv": ["streamingllm:16"],
    "batch": [1, 2],
    "context": [64],
    "gamma": [2],
    "alpha": 0.8,
}
TINY: dict[str, Any] = {
    "schema_version": 1,
    "name": "test-tiny",
    "title": "A tiny plan for tests",
    "device": "cpu",
    "hardware": "h100-sxm-80gb",
    "threads": 1,
    "grid": [BLOCK],
    "protocol": {"iterations": 1},
}


def write(folder: Path, **changes: object) -> Path:
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps({**TINY, **changes}))), encoding="utf-8")
    return path
