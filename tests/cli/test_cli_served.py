"""The verbs hierarchy, moe, serving and tree: the Python answers under them, what they print, what they refuse."""

from typing import Any

import numpy as np
import pytest

from perfmodel.answers.query import Query, resolve
from perfmodel.speculation.chain import speedups
from perfmodel.speculation.two_levels import predict_two_levels
from tests.commands import read, read_row, refused, run

HIERARCHY = (
    *("hierarchy", "-m", "llama-2-7b-32k", "--hardware", "a100", "-b", "1", "-c", "122k"),
    *("--draft-kv", "retrieval:4096,every=1000", "--alpha", "0.91", "--small", "llama-68m", "--small-rate", "0.46"),
)
MOE = ("moe", "-m", "qwen3-30b-a3b", "--hardware", "h100", "-c", "4k", "-g", "3", "--draft", "eagle", "--alpha", "0.8")
TREE = ("tree", "-m", "llama-3.1-8b", "--gpu", "h100", "-b", "64", "-c", "64k", "--draft", "llama-3.2-1b")
SERVING = (
    *("serving", "-m", "llama-3.1-8b", "--hardware", "h100", "-b", "24", "-c", "2k,16k,64k", "-g", "3"),
    *("--alpha", "0.85,0.5", "--draft-kv", "streamingllm:512"),
)


def triforce(inner: float) -> Any:
    flags: dict[str, Any] = {"model": "llama-2-7b-32k", "hardware": "a100", "batch": 1, "context": 1}
    small = resolve(Query(**flags, draft="llama-68m", draft_kv="streamingllm:256", alpha=inner))
    return small, resolve(Query(**flags, draft_kv="retrieval:4096,every=1000", alpha=0.91))


def test_hierarchy_finds_the_best_pair_of_lengths(capsys: pytest.CaptureFixture[str]) -> None:
    small, sparse = triforce(0.46)
    context = 122 * 1024.0
    pairs = {
        (one, two): float(predict_two_levels(small, sparse, 1.0, context, one, two).speedup)
        for one in range(1, 7)
        for two in range(1, 13)
    }
    best = max(pairs, key=lambda pair: pairs[pair])
    found, text = read_row(capsys, *HIERARCHY), run(capsys, *HIERARCHY)
    assert (found["gamma_1"], found["gamma_2"]) == best
    assert found["speedup"] == pytest.approx(pairs[best], rel=1e-12)
    assert f"{found['speedup']:.2f}x" in text
    iteration = found["draft_s"] + found["verify_s"] + found["overhead_s"]
    assert found["tpot_s"] == pytest.approx(iteration / found["tokens_per_iteration"], rel=1e-12)
    alone = float(speedups(sparse, 1.0, context, np.array([found["middle_alone"]["gamma"]]))[..., 0])
    assert found["middle_alone"]["speedup"] == pytest.approx(alone, rel=1e-12)
    assert found["speedup"] > alone > 1
    several = read(capsys, *HIERARCHY[:6], "1,4", *HIERARCHY[7:8], "32k,122k", *HIERARCHY[9:])["rows"]
    assert [(row["batch"], row["context"]) for row in several] == [(1, 32768), (1, 124928), (4, 32768), (4, 124928)]


def test_moe(capsys: pytest.CaptureFixture[str]) -> None:
    found, text = read(capsys, *MOE), run(capsys, *MOE)
    assert [row["batch"] for row in found["rows"]] == [2**k for k in range(10)]
    assert all(row["speedup"] <= found["peak"]["speedup"] for row in found["rows"])
    assert f"most at {found['peak']['batch']}" in text


def test_serving(capsys: pytest.CaptureFixture[str]) -> None:
    found, text = read(capsys, *SERVING), run(capsys, *SERVING)
    assert found["steady_speedup"] < found["speedup"]
    assert (f"{found['speedup']:.2f}x" in text, "passes mixed" in text, "static batch" in text) == (True, True, False)


def test_one_kind_of_request_is_no_mixture_and_may_wait_for_its_slowest(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("serving", "-m", "llama-3.1-8b", "--hardware", "h100", "-b", "25", "-c", "4k", "-g", "3", "--alpha", "0.8",
             "--engine", "magicdec")  # fmt: skip  # whose passes are not padded to graphs
    found = read(capsys, *asked, "--draft", "eagle", "--new-tokens", "64")
    assert found["speedup"] == pytest.approx(found["steady_speedup"])
    assert found["tokens_static"] < found["tokens"] == pytest.approx(found["tokens_as_admitted"])
    assert found["interleaved_s"] is None
    assert (found["padded_tokens"], found["padded_verify"]) == (32, 104)
    assert found["graph_target_s"] > found["target_s"]
    exact = read(capsys, *asked, "--draft", "eagle", "--graph-sizes", "25,100")
    assert exact["graph_target_s"] == pytest.approx(exact["target_s"], rel=1e-12)
    text = run(capsys, *asked, "--draft", "eagle")
    assert "static batch" in text
    assert "cannot mix" in text


@pytest.mark.parametrize(
    ("asked", "most"),
    [((*TREE, "--rates", "0.63,0.11"), 5), ((*HIERARCHY, "-b", "64", "-c", "32k"), 2), ((*SERVING, "-b", "48"), 15)],
    ids=["tree", "hierarchy", "serving"],
)
def test_a_batch_that_does_not_fit_is_told(capsys, asked, most) -> None:
    read_one = read if asked[0] == "serving" else read_row
    found = read_one(capsys, *asked)
    assert not found["fits"]
    assert found["max_batch"] == most
    warning = f"warning: batch {found['batch']} does not fit in 73.6 GB; the largest that does is {most}\n"
    assert warning in run(capsys, *asked)
    text = run(capsys, *asked, "-b", str(most), "--memory-fraction", "1")
    assert "warning" not in text
    assert read_one(capsys, *asked, "-b", "6", "--memory-fraction", "0.01")["max_batch"] == 0


@pytest.mark.parametrize(("arguments", "words"), [
    ((*HIERARCHY, "--gamma-1", "0"), "--gamma-1"),
    ((*HIERARCHY, "--gamma-2", "999"), "--gamma-2"),
    ((*HIERARCHY[:-1], "tree:0.5/0.1"), "chains only"),
    ((*HIERARCHY[:9], "--alpha", "0.9", "--small", "llama-68m", "--small-rate", "0.5"), "--draft-kv"),
    ((*HIERARCHY, "--small", "medusa:heads=2", "--small-kv", "full", "--gamma-1", "3"), "--gamma-1: must be at"),
    ((*HIERARCHY[:-1], "0.7/0.5", "--gamma-1", "3"), "--gamma-1: must be at most 2"),
    ((*SERVING, "-b", "5"), "from 6"),
    ((*SERVING, "-g", "0"), "--gamma"),
    ((*SERVING, "--new-tokens", "0"), "--new-tokens: must be a positive whole number such as 8"),
    ((*SERVING, "--alpha", "1.5"), "from 0 to 1"),
    ((*SERVING, "--graph-sizes", "8,4"), "--graph-sizes: must be rising"),
])  # fmt: skip
def test_refusals_are_one_line(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(capsys, *arguments)


def test_where_not_one_request_fits_no_break_even_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """405 billion bf16 parameters on eight H100 are 101 GB a device of 73.6."""
    asked = "traffic -m llama-3.1-405b --hardware h100 --tp 8 --input-len 1k --output-len 200 --request-rate 1"
    out = run(capsys, *asked.split())
    assert "not one request fits in memory" in out
    assert "as fast as the baseline" not in out
