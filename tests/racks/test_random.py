"""Random models and layouts: what holds for every one."""

import random
from typing import Any

import pytest

import perfmodel as pm
from perfmodel.errors import InputError

MODELS = ("deepseek-v3", "qwen3-235b-a22b", "minimax-m2", "deepseek-v4-pro", "gpt-oss-120b")
DEVICES = ("h200", "b200", "gb200")
ENGINES = ("vllm", "sglang")
DRAFTS: tuple[dict[str, Any], ...] = ({"gamma": 0}, {"draft": "ngram", "gamma": 3, "rate": "0.5x3"})


def named(choose: random.Random) -> dict[str, Any]:
    """A model, a device and an engine."""
    return {
        "model": choose.choice(MODELS),
        "hardware": choose.choice(DEVICES),
        "engine": choose.choice(ENGINES),
    }


def experts(question: dict[str, Any], ranks: int, each: int) -> Any:
    """The read of the experts of one rank, with `each` sequences on every one; None if refused."""
    layout = {"tp": ranks, "ep": ranks, "dp": ranks, "batch": each * ranks}
    try:
        operations = pm.ops(**question, **layout, context=4096, gamma=0).ops
    except InputError:
        return None
    return next(op for op in operations if op.name == "experts")


@pytest.mark.parametrize("seed", range(8))
def test_more_ranks_never_slow_the_read_of_experts(seed: int) -> None:
    choose = random.Random(seed)
    question = named(choose)
    each = choose.choice((1, 4, 32, 200))
    reads = [experts(question, ranks, each) for ranks in (8, 16, 32, 64)]
    known = [read.weight_bytes for read in reads if read is not None]
    assert len(known) > 1
    assert known == sorted(known, reverse=True)
    assert known[-1] < known[0]


@pytest.mark.parametrize("seed", range(8))
def test_one_node_is_the_box_and_one_more_instance_serves_no_less(seed: int) -> None:
    choose = random.Random(seed)
    question = named(choose)
    groups = choose.choice(("", ":ep8", ":dp8,ep8"))
    layout = {"": {}, ":ep8": {"ep": 8}, ":dp8,ep8": {"ep": 8, "dp": 8}}[groups]
    point = question | layout | {"tp": 8, "batch": choose.choice((8, 64)), "context": 4096, "gamma": 0}
    box = pm.whatif(**point).target_step.predicted_s
    assert pm.whatif(**point, nodes="1x8").target_step.predicted_s == box
    load = choose.choice(
        ({"request_rate": choose.choice((0.5, 20))}, {"max_concurrency": choose.choice((4, 3000))})
    )
    lengths = {"input_len": 2048, "output_len": 256, "closed_form": True}
    load_question = question | load | choose.choice(DRAFTS) | lengths

    def served(prefill: int, decode: int) -> list[float]:
        answer = pm.traffic(
            **load_question, prefill=f"{prefill}x8{groups}", decode=f"{decode}x8{groups}"
        ).pools
        assert answer is not None
        return [row.output_tokens_per_s for row in answer.rows]

    fewer = served(1, 1)
    for more in (served(2, 1), served(1, 2)):
        for before, after in zip(fewer, more, strict=True):
            assert after >= before * (1 - 1e-9)
