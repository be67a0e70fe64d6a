"""The verbs advise, schedule, tree and compare: what they print, their JSON, and their one-line refusals."""

import json
import re
import shlex
from typing import Any

import pytest

from tests.commands import read, read_row, refused, run

ADVISE = (
    *("advise", "--model", "llama-3.1-8b", "--hardware", "h100", "--context", "32k", "--batch", "1..32"),
    *("--rate", "self@streamingllm:512=0.8", "--rate", "eagle=0.75/0.65/0.5"),
)
SCHEDULE = (
    *("schedule", "-m", "llama-3.1-8b", "--hardware", "a100", "--context", "1k", "--draft", "eagle"),
    *("--alpha", "0.5", "--draft-path", "your/head", "--dynamic-price", "0"),
)
TREE = (
    *("tree", "--model", "llama-3.1-8b", "--hardware", "h100", "--batch", "1,16", "--context", "4k"),
    *("--draft", "llama-3.2-1b", "--rates", "0.6,0.1,0.05"),
)
COMPARE = (
    *("compare", "--model", "llama-3.1-8b", "--hardware", "h100", "--context", "1k", "--gamma", "9", "--alpha", "0.7"),
)


def test_advise_says_what_it_skipped_and_when_nothing_fits(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "advise", "--model", "qwen2.5-7b", "--hardware", "h100", "--context", "8k")
    assert "Undecided: no acceptance is known for qwen2.5-7b" in text
    assert "with draft" not in text
    assert "skipped: no acceptance known (--verbose lists them)" in text
    text = run(capsys, "advise", "--model", "qwen2.5-7b", "--hardware", "h100", "--context", "8k", "--verbose")
    assert "no acceptance is known for qwen2.5-7b with draft mtp, full" in " ".join(text.split())
    text = run(capsys, "advise", "--model", "llama-3.1-405b", "--hardware", "h100", "--context", "8k")
    assert "nothing fits" in text.lower()


def test_the_vllm_line_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    """The printed line, read as a shell reads it, holds the JSON that covers every batch size once."""
    found = read(capsys, *SCHEDULE)
    (table,) = found["tables"]
    line = next(line for line in run(capsys, *SCHEDULE).splitlines() if line.startswith("vllm serve"))
    words = shlex.split(line)
    assert words[:3] == ["vllm", "serve", "meta-llama/Meta-Llama-3.1-8B"]
    config = json.loads(words[words.index("--speculative-config") + 1])
    rows = [[r["low"], r["high"], r["tokens"]] for r in table["ranges"]]
    assert config["num_speculative_tokens_per_batch_size"] == rows
    assert table["speedup"] >= max(table["by_constant"]) * (1 - 1e-12)
    assert found["num_speculative_tokens_per_batch_and_context"] is None


def test_a_table_per_context_range(capsys: pytest.CaptureFixture[str]) -> None:
    sparse = ("--draft", "self", "--draft-kv", "streamingllm:512", "--alpha", "0.8", "--tp", "8")
    asked = ("schedule", "-m", "llama-3.1-8b", "--hardware", "a100", "--context", "4k,32k,128k", *sparse)
    found, text = read(capsys, *asked), run(capsys, *asked)
    rows = found["num_speculative_tokens_per_batch_and_context"]
    assert json.dumps(rows) in text
    assert "open RFC" in text
    assert "vllm serve" not in text


def test_tree(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    one, sixteen = read(capsys, *TREE)["rows"]
    assert one["size"] > sixteen["size"] > 1
    assert one["speedup"] >= one["first_order_rule"]["speedup"]
    assert sum(one["widths"]) == one["size"] == len(one["parents"])
    assert "-".join(map(str, one["widths"])) in run(capsys, *TREE)
    path = tmp_path / "rates.yaml"
    path.write_text("source: a test\nrates: [0.6, 0.1, 0.05]\n", encoding="utf-8")
    from_file = read(capsys, *TREE[:-1], str(path))["rows"]
    assert [t["parents"] for t in from_file] == [one["parents"], sixteen["parents"]]
    assert from_file[0]["source"].startswith("a test")
    path.write_text("source: a test\nrates: [[0.6, 0.1], [0.5, 0.1]]\n", encoding="utf-8")
    assert read(capsys, *TREE[:-1], str(path))["rows"][0]["levels"] <= 3


def test_compare(capsys: pytest.CaptureFixture[str]) -> None:
    found, text = read_row(capsys, *COMPARE), run(capsys, *COMPARE)
    assert found["kv_ratio"] == pytest.approx(10.0)
    assert "10.0 times the KV bytes" in text
    assert found["composition"]["both"] >= found["composition"]["batched"]
    rows = [re.split(r"  +", line.strip()) for line in text.splitlines()]
    chunk = found["chunked_prefill"]
    tokens = [f"{chunk[side]['tokens']:.0f}" for side in ("baseline", "speculating")]
    assert ["prompt tokens that fill idle FLOPs of a pass", *tokens] in rows
    large = read_row(
        capsys, *("compare", "-m", "llama-3.1-405b", "--hardware", "h100", "-c", "1k", "-g", "3", "--alpha", "0.7")
    )
    assert large["composition"] is None


@pytest.mark.parametrize(("arguments", "words"), [
    ((*ADVISE, "--rate", "eagle"), "DRAFT=RATE"),
    ((*ADVISE, "--rate", "eagle=0.5"), "given twice"),
    ((*ADVISE, "--rate", "quest=0.5"), "no model named"),
    ((*ADVISE, "--max-tpot-ms", "-1"), "--max-tpot-ms"),
    ((*SCHEDULE, "--max-batch", "9999"), "--max-batch"),
    ((*SCHEDULE, "--hysteresis", "2"), "--hysteresis"),
    ((*SCHEDULE, "--shares", "fair"), "--shares"),
    ((*SCHEDULE, "--missed", "-1"), "--missed"),
    ((*SCHEDULE, "--max-batch", "8,16"), "--max-batch: must be a positive whole number"),
    ((*SCHEDULE, "--rate", "0.5"), "give one of them"),
    ((*SCHEDULE[:-6], "--tokens-per-iteration", "2.5"), "needs --gamma N"),
    ((*SCHEDULE[:-6], "--rate", "tree:0.5/0.1"), "belongs to"),
    (("schedule", "-m", "llama-3.1-405b", "--hardware", "a100", "-c", "4k", "--alpha", "0.5"), "not one sequence"),
    ((*TREE, "--size", "9999"), "tree size"),
    ((*TREE, "--levels", "0"), "tree levels"),
    ((*TREE[:-1], "0.9,0.9"), "at most 1 in sum"),
    ((*TREE[:-1], "many"), "--rates"),
    ((*TREE[:-1], "absent.yaml"), "absent.yaml"),
    ((*COMPARE, "--gamma", "auto"), "--gamma"),
    ((*COMPARE, "--gamma", "0"), "--gamma"),
])  # fmt: skip
def test_refusals_are_one_line(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(capsys, *arguments)
