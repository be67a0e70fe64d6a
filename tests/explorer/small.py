"""A small page, and what it holds."""

import base64
import itertools
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel import cli
from perfmodel.answers.question import Query

ROOT = Path(__file__).parents[2]
ROUNDING = 3e-7
"""Relative: the page keeps 32-bit floats, and adds up a handful of them."""
SMALL = (
    *("explore", "--model", "llama-3.1-8b,qwen3-30b-a3b", "--hardware", "a100,mi300x", "--tp", "4"),
    *("--draft-kv", "streamingllm:512,quest:1k,page=16", "--batch", "48,1,8", "--context", "2k,32000,100k"),
    *("--max-gamma", "6"),
)


def written(path: Path, *more: str) -> str:
    assert cli.run([*SMALL, "-o", str(path), *more]) == 0
    return path.read_text(encoding="utf-8")


def payload_of(text: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="payload">(.*?)</script>', text, re.DOTALL)
    return json.loads(match[1])


def array(content: dict[str, Any], number: int) -> np.ndarray[Any, Any]:
    entry = content["pool"][number]
    return np.frombuffer(base64.b64decode(entry["f32"]), "<f4").reshape(entry["shape"]).astype(float)


def value(content: dict[str, Any], number: int, *place: int) -> float:
    values = array(content, number)
    return float(values[tuple(0 if size == 1 else at for size, at in zip(values.shape, place, strict=True))])


def queries(content: dict[str, Any], case: dict[str, Any]) -> Iterator[tuple[tuple[int, int, int], Query]]:
    """Every point of a case, with the question that its flags ask."""
    words = shlex.split(case["flags"])
    flags: dict[str, Any] = dict(zip((w[2:].replace("-", "_") for w in words[::2]), words[1::2], strict=True))
    flags |= {name: int(flags[name]) for name in ("tp", "max_gamma") if name in flags}
    axes = (content["batch"], content["context"], range(case["last_gamma"] + 1))
    for place in itertools.product(*(range(len(axis)) for axis in axes)):
        b, c, g = place
        yield place, Query(**flags, batch=axes[0][b], context=axes[1][c], gamma=g, alpha=0.7)


def of_pass(step: dict[str, Any]) -> dict[str, float]:
    """What the page holds of one pass."""
    return {"predicted_s": step["predicted_s"], "lower_s": step["lower_s"], **step["terms_s"]}
