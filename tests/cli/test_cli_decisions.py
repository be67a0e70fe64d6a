"""The verbs of decisions and of serving: the Python answers under them."""

import shlex

import numpy as np
import pytest

from perfmodel.answers.question.query import Query, resolve
from perfmodel.speculation.chain import speedups
from perfmodel.speculation.two_levels import predict_two_levels
from tests.commands import read, read_row, run

TREE = shlex.split(
    "tree -m llama-3.1-8b --hardware h100 -b 1,16 -c 4k --draft llama-3.2-1b --rates 0.6,0.1,0.05"
)
HIERARCHY = shlex.split(
    "hierarchy -m llama-2-7b-32k --hardware a100 -b 1 -c 122k --draft-kv retrieval:4096,every=1000 "
    "--alpha 0.91 --small llama-68m --small-rate 0.46"
)
SERVING = shlex.split(
    "serving -m llama-3.1-8b --hardware h100 -b 24 -c 2k,16k,64k -g 3 --alpha 0.85,0.5 "
    "--draft-kv streamingllm:512"
)


def test_hierarchy_finds_the_best_pair_of_lengths(capsys: pytest.CaptureFixture[str]) -> None:
    asked = {"model": "llama-2-7b-32k", "hardware": "a100", "batch": 1, "context": 1}
    small = resolve(Query(**asked, draft="llama-68m", draft_kv="streamingllm:256", alpha=0.46))
    sparse = resolve(Query(**asked, draft_kv="retrieval:4096,every=1000", alpha=0.91))
    lengths = ((one, two) for one in range(1, 7) for two in range(1, 13))
    pairs = {p: float(predict_two_levels(small, sparse, 1.0, 122 * 1024.0, *p).speedup) for p in lengths}
    best = max(pairs, key=lambda pair: pairs[pair])
    found = read_row(capsys, *HIERARCHY)
    assert (found["gamma_1"], found["gamma_2"]) == best
    assert found["speedup"] == pytest.approx(pairs[best], rel=1e-12)
    alone = float(speedups(sparse, 1.0, 122 * 1024.0, np.array([found["middle_alone"]["gamma"]]))[..., 0])
    assert found["middle_alone"]["speedup"] == pytest.approx(alone, rel=1e-12)
    assert found["speedup"] > alone > 1
    one = read_row(capsys, *HIERARCHY, "--gamma-1", "1", "--gamma-2", "1")
    assert one["speedup"] == pytest.approx(pairs[1, 1], rel=1e-12)


def test_one_kind_of_request_is_no_mixture(capsys: pytest.CaptureFixture[str]) -> None:
    """By an engine whose passes are not padded to graphs."""
    line = (
        "serving -m llama-3.1-8b --hardware h100 -b 25 -c 4k -g 3 --alpha 0.8 --engine magicdec --draft eagle"
    )
    found = read(capsys, *line.split())
    assert found["speedup"] == pytest.approx(found["steady_speedup"])
    assert found["tokens"] == pytest.approx(found["tokens_as_admitted"])
    assert found["graph_target_s"] > found["target_s"]
    exact = read(capsys, *line.split(), "--graph-sizes", "25,100")
    assert exact["graph_target_s"] == pytest.approx(exact["target_s"], rel=1e-12)


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ((*TREE, "-b", "64", "-c", "64k"), 5),
        ((*HIERARCHY, "-b", "64", "-c", "32k"), 2),
        ((*SERVING, "-b", "48"), 15),
    ],
)
def test_a_batch_that_does_not_fit_is_told(
    capsys: pytest.CaptureFixture[str], asked: tuple[str, ...], most: int
):
    read_one = read if asked[0] == "serving" else read_row
    found = read_one(capsys, *asked)
    assert (found["fits"], found["max_batch"]) == (False, most)
    assert f"does not fit in 73.6 GB; the largest that does is {most}\n" in run(capsys, *asked)
    assert "warning" not in run(capsys, *asked, "-b", str(most), "--memory-fraction", "1")
    assert read_one(capsys, *asked, "-b", "6", "--memory-fraction", "0.01")["max_batch"] == 0
