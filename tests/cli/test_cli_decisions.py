"""The verbs of decisions: the Python answers under them."""

import shlex

import numpy as np
import pytest

from perfmodel.answers.question.query import Query, resolve
from perfmodel.speculation.chain import speedups
from perfmodel.speculation.two_levels import predict_two_levels
from tests.commands import read_row, run

TREE = shlex.split(
    "tree -m llama-3.1-8b --hardware h100 -b 1,16 -c 4k --draft llama-3.2-1b --rates 0.6,0.1,0.05"
)
HIERARCHY = shlex.split(
    "hierarchy -m llama-2-7b-32k --hardware a100 -b 1 -c 122k --draft-kv retrieval:4096,every=1000 "
    "--alpha 0.91 --small llama-68m --small-rate 0.46"
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


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ((*TREE, "-b", "64", "-c", "64k"), 5),
        ((*HIERARCHY, "-b", "64", "-c", "32k"), 2),
    ],
)
def test_a_batch_that_does_not_fit_is_told(
    capsys: pytest.CaptureFixture[str], asked: tuple[str, ...], most: int
):
    found = read_row(capsys, *asked)
    assert (found["fits"], found["max_batch"]) == (False, most)
    assert f"does not fit in 73.6 GB; the largest that does is {most}\n" in run(capsys, *asked)
    assert "does not fit" not in run(capsys, *asked, "-b", str(most), "--memory-fraction", "1")
    assert read_row(capsys, *asked, "-b", "6", "--memory-fraction", "0.01")["max_batch"] == 0
