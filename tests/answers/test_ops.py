"""The operations of a pass: every second of it stands in a row."""

import random
from typing import Any

import pytest

import perfmodel as pm
from perfmodel.errors import InputError
from tests.commands import run

CHOICES: dict[str, tuple[Any, ...]] = {
    "model": ("llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3", "gpt-oss-20b", "gemma-2-9b"),
    "hardware": ("h100", "b200", "mi300x", "rtx-4090"),
    "engine": ("vllm", "vllm@0.10.1", "vllm@0.11.0", "sglang", "sglang@0.5.5", "trtllm", "llamacpp", None),
    "tp": (1, 2, 8),
    "ep": (1, 1, 2),
    "dp": (1, 1, 2),
    "batch": (1, 3, 100),
    "context": (128, 1000, 100_000),
    "draft": ("self", "eagle3", "eagle", "mtp", "medusa", "dflash", "peagle", "ngram", "llama-3.2-1b"),
    "draft_kv": ("full", "streamingllm:512", "quest:1k"),
    "gamma": (1, 3),
    "stage": ("target", "draft", "verify"),
    "weights": (None, "fp8"),
    "cpu_moe": (0, 0, 0, 4),
}

EIGHT_H100 = {
    "model": "llama-3.1-8b",
    "hardware": "h100",
    "tp": 8,
    "context": 1024,
    "draft": "eagle3",
    "gamma": 3,
    "alpha": 0.7,
}


@pytest.mark.parametrize(
    ("stage", "engine", "name", "limit"),
    [
        ("draft", "vllm", "drafted tokens", "fixed"),  # 256 tokens of EAGLE-3: most of the step
        ("target", "vllm@0.10.1", "host launches", "host"),  # 32 layers: 2.2 ms + 3.2 ms
        ("target", "vllm@0.11.0", "scheduling", "fixed"),
    ],
)
def test_every_second_of_a_pass_stands_in_a_row(stage: str, engine: str, name: str, limit: str) -> None:
    batch = 256 if stage == "draft" else 1
    a = pm.ops(**EIGHT_H100, engine=engine, batch=batch, stage=stage)
    row = next(row for row in a.ops if row.name == name)
    assert row.limiter == limit
    assert row.kind == "pass"
    assert row.predicted_s > 0
    assert sum(each.predicted_s for each in a.ops) == pytest.approx(a.total.predicted_s)


def test_rows_add_up_to_the_pass_in_random_scenarios() -> None:
    """200 questions that are not refused, over engines, drafts and stages."""
    draw = random.Random(55)
    added = set[tuple[Any, ...]]()
    answered = 0
    while answered < 200:
        question = {name: draw.choice(values) for name, values in CHOICES.items()}
        try:
            answer = pm.ops(**question, alpha=0.7)
        except InputError:
            continue
        answered += 1
        rows_s = sum(row.predicted_s for row in answer.ops)
        assert rows_s == pytest.approx(answer.total.predicted_s, rel=0.01), question
        added.add((question["engine"], question["stage"]))
    assert len(added) == len(CHOICES["engine"]) * len(CHOICES["stage"])


@pytest.mark.parametrize("stage", ["target", "draft", "verify"])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_engines_gather_the_logits_of_every_pass(engine: str, stage: str) -> None:
    a = pm.ops(**EIGHT_H100, engine=engine, batch=2, stage=stage)
    gather = next(row for row in a.ops if row.name == "logits")
    words = 32_000 if stage == "draft" else 128_256  # EAGLE-3's head has words of its own
    assert gather.message_bytes == (8 if stage == "verify" else 2) * words * 2


def test_other_stacks_gather_none() -> None:
    a = pm.ops(**EIGHT_H100, calibration="h100-sxm-80gb.magicdec", batch=2, stage="target")
    assert "logits" not in {row.name for row in a.ops}


@pytest.mark.parametrize(("stage", "where"), [("target", "2 stages of 2 x h100-"), ("draft", "2 x h100-")])
def test_the_title_has_the_stages_of_the_pass(stage: str, where: str, capsys) -> None:
    question = "ops --model llama-3.1-8b --hardware h100 --tp 2 --pp 2 -b 4 -c 8k --draft eagle3 --pass"
    printed = run(capsys, *question.split(), stage)
    assert f"llama-3.1-8b on {where}" in printed.splitlines()[0]
    assert (" send\n" in printed) == (stage == "target"), "which is no all-reduce"


def test_a_step_that_waits_for_the_host_takes_as_long_on_every_device() -> None:
    """gpt-oss-20b, 24 layers: 2.2 + 24 x 0.1 = 4.6 ms (4.53 measured on H200 and 4.56 on B200)."""
    for hardware in ("h200", "b200"):
        a = pm.whatif(
            model="gpt-oss-20b", hardware=hardware, engine="vllm@0.10.1", batch=1, context=1464, gamma=0
        )
        assert a.ar_tpot_s == pytest.approx(4.6e-3, rel=0.01)


def test_where_the_host_limits_fixed_costs_matter_and_bandwidth_does_not() -> None:
    moves = pm.sensitivity(
        model="gpt-oss-20b",
        hardware="b200",
        engine="vllm@0.10.1",
        batch=1,
        context=1464,
        gamma=3,
        alpha=0.7,
        draft="eagle3",
    )
    swings = {move.input: move.swing for move in moves}
    assert swings["fixed costs"] > 0.01
    assert swings["memory bandwidth"] < swings["fixed costs"] / 2


def test_an_acceptance_is_moved_by_5_points_and_never_beyond_certainty() -> None:
    question = {"model": "llama-3.1-8b", "hardware": "h100", "batch": 1, "context": 1000, "gamma": 3}
    for alpha, low, high in ((0.7, "0.65", "0.75"), (0.98, "0.93", "1"), (0.03, "0", "0.08")):
        moves = {move.input: move for move in pm.sensitivity(**question, alpha=alpha)}
        moved = moves["acceptance alpha"]
        assert (moved.low, moved.high) == (low, high)


def test_a_baseline_without_a_published_acceptance_gets_one_token() -> None:
    accepted = pm.whatif("yi-1.5-9b", "h100", 1, 1000, 0).acceptance
    assert (accepted.alpha, accepted.tokens_per_iteration) == (0.0, 1.0)
