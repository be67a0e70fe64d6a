"""Logs of stand-ins for servers, and the health check that reads them."""

from pathlib import Path

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.cli import run

ASK = ["--model", "qwen3-32b", "--hardware", "h100", "--tp", "2", "--draft", "eagle3", "--context", "4k"]
RATES = (0.75, 0.5, 0.3)
BAD = (0.2, 0.04, 0.01)
GAINED = 1 + sum(RATES)


def vllm_log(tokens_per_s: float, waiting: int = 0, rates: tuple[float, ...] = RATES, first: str = "") -> str:
    """Eight running requests that draft three tokens."""
    pace = f"Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: {tokens_per_s:.1f} tokens/s"
    load = f"Running: 8 reqs, Waiting: {waiting} reqs, GPU KV cache usage: 4.0%, Prefix cache hit rate: 0.0%"
    accepted = round(1000 * sum(rates))
    shares = ", ".join(f"{rate:.3f}" for rate in rates)
    drafts = (
        "SpecDecoding metrics: Mean acceptance length: 2.55, Accepted throughput: 1.00 tokens/s, Drafted "
        f"throughput: 1.00 tokens/s, Accepted: {accepted} tokens, Drafted: 3000 tokens, Per-position "
        f"acceptance rate: {shares}, Avg Draft acceptance rate: 50.0%"
    )
    return f"{first}\n" + f"INFO loggers.py: Engine 000: {pace}, {load}\nINFO metrics.py: {drafts}\n" * 3


def predicted_tokens_per_s(rates: tuple[float, ...] = RATES) -> float:
    conditional = "/".join(f"{b / a:.9g}" for a, b in zip((1.0, *rates), rates, strict=False))
    question = {"batch": 8, "context": 4096, "tp": 2, "draft": "eagle3", "gamma": 3, "rate": conditional}
    return whatif("qwen3-32b", "h100", **question).throughput_tokens_per_s


def watched(tmp_path: Path, capsys: pytest.CaptureFixture[str], log: str, *more: str) -> tuple[int, str]:
    path = tmp_path / "server.log"
    path.write_text(log)
    status = run(["validate", "engine", "--watch", str(path), *ASK, *more])
    captured = capsys.readouterr()
    return status, " ".join((captured.out + captured.err).split())


def sglang_log(length: float, rate: float) -> str:
    """Four lines of four running requests."""
    load = "Decode batch, #running-req: 4, #token: 16000, token usage: 0.10"
    drafts = f"accept len: {length:.2f}, accept rate: {rate:.2f}, cuda graph: True"
    return f"{load}, {drafts}, gen throughput (token/s): 400.00, #queue-req: 0,\n" * 4


def plain_log(tokens_per_s: float, lines: int = 3) -> str:
    """Eight running requests of vLLM without a draft, 10 % of a cache of 327,680 tokens."""
    pace = f"Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: {tokens_per_s:.1f} tokens/s"
    load = "Running: 8 reqs, Waiting: 0 reqs, GPU KV cache usage: 10.0%, Prefix cache hit rate: 0.0%"
    return "GPU KV cache size: 327,680 tokens\n" + f"INFO: Engine 000: {pace}, {load}\n" * lines
