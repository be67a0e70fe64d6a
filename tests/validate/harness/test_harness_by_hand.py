"""The harness on made-up machines: every second, byte and sample by hand."""

import gc
import io
import itertools
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from perfmodel.kv import parse_kv
from perfmodel.specs import load_model
from perfmodel.speculation import MAX_GAMMA
from perfmodel.speculation.tree_shape import branching
from perfmodel.validate.decoder import Generation, KVCache, ModelPair, RankShard, Request, Sampling
from perfmodel.validate.decoder.kv import every_method
from perfmodel.validate.harness import measure, progress, side_by_side
from perfmodel.validate.harness.acceptance import (
    METHODS,
    AcceptanceSetting,
    draft_methods,
    entry,
    prompts_at,
    source_of,
)
from perfmodel.validate.harness.acceptance_errors import ratio_error, standard_error
from perfmodel.validate.harness.clock import Clock
from perfmodel.validate.harness.estimate import estimate, scenario_of
from perfmodel.validate.harness.point_runner import LoadedModels, PointRunner
from perfmodel.validate.harness.session import in_time
from perfmodel.validate.lm.data import held_out_prompts
from perfmodel.validate.records import load_plan
from tests.refusals import refused
from tests.sampled import first_fast
from tests.validate.tiny_plan import BLOCK, planned

CPU = torch.device("cpu")


@pytest.mark.parametrize(("deadline", "count"), [(125.0, 3), (120.0, 2), (100.5, 2), (99.0, 1), (1e9, 6)])
def test_the_first_row_does_not_count_as_the_longest(deadline, count) -> None:
    """It loads models and compiles: 100 s, then 10 s a row, of 125 s; a fourth would end at 130."""
    rows = [(str(number), dict[str, str]) for number in range(6)]
    seconds = [100.0, *[10.0] * 5]
    now_s = 0.0
    measured = list[str]()
    in_turn = in_time(rows, RankShard(), deadline, lambda: now_s)
    for (key, _), row_s in zip(in_turn, seconds, strict=False):
        measured.append(key)
        now_s += row_s
    assert measured == [str(number) for number in range(count)]


@torch.inference_mode()
def test_the_room_of_a_point(tmp_path) -> None:
    """Iterations that are timed, or the four of a capture and its warm-up, of gamma + 1 tokens each; and one
    token.
    """
    for iterations, room in ((1, 4 * 3 + 1), (9, 9 * 3 + 1)):
        plan = planned(tmp_path, protocol={"iterations": iterations})
        runner = PointRunner(LoadedModels(plan, CPU), plan, plan.points()[1])
        for one in runner.runs.values():
            assert (one.state.limit - one.state.length).tolist() == [room - 1] * 2
            assert one.state.length.tolist() == [65, 65]
        assert [one.state.histogram.shape[1] for one in runner.runs.values()] == [1, 3]
        assert runner.batch == 2
        assert runner.graphs is False
        assert runner.attention == "sdpa"
        runner.runs["sd"].run(iterations=3, read_every=3)
        cache = runner.runs["sd"].decoder.target.cache
        assert cache.floor == int(cache.lengths.min())
        assert cache.bound == int(cache.lengths.max())
        assert runner.runs["sd"].state.length.tolist() == [1 + length for length in cache.lengths.tolist()]
        runner.snapshot.restore()
        assert cache.lengths.tolist() == [64, 64]
    samples = (-1, 0, 1, 2)
    first = [measure.in_turn(("ar", "sd"), sample)[0] for sample in samples]
    assert first == ["sd", "ar", "sd", "ar"]


def test_an_estimate_adds_up(tmp_path) -> None:
    """Eight samples of two iterations in each of two modes, and caches that are filled once."""
    plan = planned(tmp_path, protocol={"iterations": 2}, grid=[{**BLOCK, "batch": [2]}])
    (point,) = estimate(plan)
    scenario = scenario_of(plan, point.point)
    assert point.times.target_s == pytest.approx(float(scenario.target_pass_s(2.0, 64.0)), rel=1e-12)
    caches = (64 + 3 + 16) * 256
    assert point.needed_bytes == 2 * 90432 + 2 * caches, "weights; two caches, the draft's of 16 tokens"
    filled_s = point.needed_bytes / scenario.machine.gpu.memory_bandwidth_bytes_per_s
    rounds_s = 32 * (point.times.target_s + point.times.iteration_s)
    assert point.seconds == pytest.approx(rounds_s + filled_s)


def test_the_largest_difference_is_told(target) -> None:
    """Where one sequence ends before the other, no tie of scores explains it; nor where scores are far
    apart.
    """

    def found(*others: list[int]) -> tuple[int, int, float] | None:
        plain = Generation([[1, 2, 3]] * len(others), [])
        other = Generation([*others], [])
        largest = side_by_side.difference(
            target, Request(3, 4, 3), [[5, 6, 7, 8]] * len(others), plain, other
        )
        return largest and (largest.sequence, largest.position, largest.margin)

    assert found([1, 2, 3]) is None
    assert found([1, 2, 3], [1, 2], [9, 2, 3]) == (1, 2, float("inf"))
    late = found([1, 2, 4])
    early = found([9, 2, 3])
    assert early[2] > 1e6
    assert found([1, 2, 4], [1, 2, 3], [9, 2, 3]) in ((0, 2, late[2]), (2, 0, early[2]))
    nearest = found([1, 2, 4], [9, 2, 3])
    assert nearest[2] == pytest.approx(max(late[2], early[2]))


def setting(**more: Any) -> AcceptanceSetting:
    """An observation of two texts with five new tokens at a context of eight."""
    known = {
        "pair": ModelPair("llama-68m"),
        "draft_kv": (),
        "contexts": (8,),
        "gamma": 2,
        "new_tokens": 5,
        "count": 2,
    }
    return AcceptanceSetting(**{**known, "sampling": Sampling(1.0), "batch": 3, **more})


TEXTS = [[number] * number for number in (6, 5, 7, 9)]
"""Four documents, each of one token as often as the token says."""
SPEC = load_model("llama-68m")
MOST = SPEC.max_position_embeddings


def test_prompts_leave_half_of_the_new_tokens_before_the_context() -> None:
    """At 8 a prompt has 6 tokens, so a text of 5 is left out. A chat keeps its end."""
    assert prompts_at(setting(texts=TEXTS), SPEC, 8) == [[6] * 6, [7] * 6]
    assert prompts_at(setting(texts=TEXTS, count=9), SPEC, 3) == [[text[0]] for text in TEXTS], "each once"
    assert prompts_at(setting(texts=TEXTS, chat=True, count=1), SPEC, 7) == [[6] * 5]


def test_without_texts_prompts_are_held_out() -> None:
    assert prompts_at(setting(count=3, seed=1), SPEC, 12) == held_out_prompts(3, 10, 1)


def test_prompts_reach_up_to_the_last_position_of_the_model() -> None:
    (longest,) = prompts_at(setting(texts=[[1] * MOST]), SPEC, MOST - 5)
    assert len(longest) == MOST - 5 - 2


@pytest.mark.parametrize(
    ("context", "says"),
    [(MOST - 4, f"at most {MOST - 5} with 5 new"), (2, "above half of the 5"), (12, "of 10 tokens")],
)
def test_contexts_without_prompts(context: int, says: str) -> None:
    refused(says, prompts_at, setting(texts=TEXTS), SPEC, context)


def test_a_self_draft_is_observed_with_every_method() -> None:
    assert tuple(draft_methods(setting())) == METHODS


@pytest.mark.parametrize("draft", ["tinyllama-1.1b", "ngram"])
def test_other_drafts_are_observed_with_a_full_cache(draft: str) -> None:
    assert tuple(draft_methods(setting(pair=ModelPair("llama-68m", draft=draft)))) == ("full",)


def test_stated_methods_replace_the_default() -> None:
    twice = ("topk:8", "topk:9")
    assert tuple(draft_methods(setting(gamma=MAX_GAMMA, count=1, batch=1, draft_kv=twice))) == twice


@pytest.mark.parametrize("wrong", [{"gamma": MAX_GAMMA + 1}, {"draft_kv": ("topk:8", "topk:08")}])
def test_too_long_drafts_and_methods_twice(wrong: dict[str, Any]) -> None:
    refused("must be", draft_methods, setting(**wrong))


def test_the_source_of_rows_states_the_whole_setting() -> None:
    source = source_of(
        setting(pair=ModelPair("llama-68m", tp=2, dtype="fp32"), draft_kv=("topk:8", "snapkv:8,window=2"))
    )
    assert source.endswith(
        "snapkv:8,window=2; temperature 1, held-out standard-library text, 5 new tokens, gamma 2, seed 0, "
        "fp32, 2 devices"
    )
    assert source.count(";") == 1


NAMED = SimpleNamespace(spec=SimpleNamespace(name="m"))


def test_a_row_adds_up_its_documents() -> None:
    row = entry(NAMED, None, "ngram:2", parse_kv("topk:8"), 7.5, [[1, 2], [3, 4]])
    assert row | {"standard_error": None} == {
        "target": "m",
        "draft": "ngram",
        "draft_kv": "topk",
        "kv_budget_tokens": 8,
        "context_tokens": 7.5,
        "histogram": [4, 6],
        "standard_error": None,
    }


def test_a_row_needs_a_draft() -> None:
    refused("nothing was drafted", entry, NAMED, None, "self", parse_kv("topk:8"), 7.5, [[0, 0]])


def test_by_hand() -> None:
    """Documents of 4, 6 and 10 iterations that gained 8, 9 and 10 tokens: ratio 1.35, residuals 2.6, 0.9,
    -3.5.
    """
    squares = 2.6**2 + 0.9**2 + 3.5**2
    expected = math.sqrt(3 / 2 * squares) / 20
    assert ratio_error([8, 9, 10], [4, 6, 10]) == pytest.approx(expected, rel=1e-12)
    error = standard_error([[1, 2, 1], [4, 1, 1], [0, 0, 0]])
    assert error["documents"] == 2, "one that ended with its first token says nothing"
    assert error["tokens_per_iteration"] == ratio_error([8, 9], [4, 6])
    first, second = error["positions"]
    assert first == ratio_error([3, 2], [4, 6])
    assert second == ratio_error([1, 1], [3, 2])


@pytest.mark.slow
def test_bf16_differences_are_near_ties(make_model, prompts) -> None:
    """In bf16 outputs may differ from plain decoding, but only where two scores are nearly the same."""
    methods = ("full", *every_method(70, 4)[:4])
    requests = [Request(4, 70, 80, 4, draft_kv=method) for method in methods]
    _, runs = side_by_side.compare(make_model(dtype=torch.bfloat16), requests, prompts)
    margins = [one.difference.margin for one in runs if one.difference is not None]
    assert all(margin <= 4 for margin in margins), margins


def test_greedy_runs_alone_are_compared(target, small, prompts) -> None:
    """With the plain run of the first request; and only a request for a separate model drafts with it."""
    same = [Request(4, 70, 9, 2), Request(4, 70, 9, 2, draft="model")]
    rounded = Request(4, 70, 9, 2, kv_dtype="fp8")
    drawn = Request(4, 70, 9, 2, sampling=Sampling(temperature=1.0))
    plain, runs = side_by_side.compare(target, [*same, rounded, drawn], prompts, small)
    differs = [one.generation.tokens != plain.generation.tokens for one in runs]
    assert differs == [False, False, True, True]
    assert [one.difference is not None for one in runs] == [False, False, True, False]


def ticks() -> Clock:
    """A second passes from mark to mark."""
    return Clock(itertools.count(step=10**9).__next__)


@pytest.mark.parametrize("draft_kv", first_fast([("snapkv:40",), ("full",), ("quest:24,page=4",), ("tree",)]))
def test_a_run_holds_no_cache_when_it_is_done(target, prompts, draft_kv) -> None:
    """Without the garbage collector: the next run's caches need the memory."""
    request = Request(4, 70, 9, 3, draft_kv=draft_kv)
    if draft_kv == "tree":
        request = Request(4, 70, 9, 2, tree=branching("2x1"))
    gc.collect()
    gc.disable()
    try:
        before = [id(one) for one in gc.get_objects() if isinstance(one, KVCache)]
        done = side_by_side.run(target, request, prompts)
        after = [id(one) for one in gc.get_objects() if isinstance(one, KVCache)]
    finally:
        gc.enable()
    assert done.generation.iterations
    assert after == before


def test_what_is_timed(target, prompts) -> None:
    """The loop is looked at after each iteration, gamma draft steps together, and the idle end does not
    count.
    """
    timed = side_by_side.run(target, Request(4, 70, 20, 4), prompts, clock=ticks())
    assert timed.prefill_s == 1.0
    assert timed.draft_s == 0.25
    assert timed.verify_s == 1.0
    assert timed.timed_tokens == 4 * 19
    assert timed.seconds == timed.timed_iterations == max(map(sum, timed.generation.histograms))
    timed = side_by_side.run(target, Request(4, 70, 8, 1), prompts, clock=ticks())
    assert timed.draft_s == 1.0
    plain = side_by_side.run(target, Request(4, 70, 8), prompts, clock=ticks())
    assert plain.draft_s == 0.0
    assert plain.seconds == plain.timed_iterations == 7, "eight iterations are run: the loop looks every four"


@torch.inference_mode()
def test_the_lengths_of_a_ragged_batch(tmp_path) -> None:
    """About the context, which is their mean; caches and views hold as many of each, and no more."""
    spread = {**BLOCK, "batch": [3], "context": [64], "spread": 0.5}
    plan = planned(tmp_path, grid=[spread])
    point = plan.points()[0]
    assert point.lengths == (32, 64, 96)
    assert point.name.endswith("/ragged0.5")
    runner = PointRunner(LoadedModels(plan, CPU), plan, point)
    decoder = runner.runs["sd"].decoder
    state = runner.runs["sd"].state
    assert decoder.target.cache.lengths.tolist() == [32, 64, 96]
    assert state.length.tolist() == [33, 65, 97]
    assert len({*(state.limit - state.length).tolist()}) == 1
    last = load_plan("gpu-8b").points()[-1]
    assert last.lengths[::15] == (8192, 24576)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_and_what_is_left(terminal) -> None:
    """Of five rows one is from an earlier sitting. A log gets a line every 20 s, a terminal every row."""

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    out = Screen()
    now_s = 5.0
    row_progress = progress.RowProgress(5, 1, out, lambda: now_s)
    for seconds, row in zip((24.9, 25.0, 34.9, 45.0, 75.0, 94.0, 95.0), "abcdefg", strict=True):
        now_s = seconds
        row_progress.show(row)
        if row in "ce":
            row_progress.step()
    row_progress.end()
    lines = ["[2/5] a", "[2/5] b", "[2/5] c", "[3/5] d · 2 min left", "[3/5] e · 4 min left"]
    lines += ["[4/5] f · 89 s left", "[4/5] g · 2 min left"]
    shown = "".join(f"\r\x1b[K{line}" for line in [*lines, ""])
    logged = "".join(f"     {line}\n" for line in (lines[1], *lines[3:5], lines[6]))
    assert out.getvalue() == (shown if terminal else logged)
