"""What a live server's chunks, a plan and the start of a fit come to, by hand."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from perfmodel.specs import load_calibration, load_model
from perfmodel.validate.engine import driver
from perfmodel.validate.engine.acceptance.contexts import octaves, quantile
from perfmodel.validate.engine.acceptance.counters import Counters
from perfmodel.validate.engine.bench_commands import BenchRequest, commands, loads
from perfmodel.validate.engine.calibrate import distinct, speedup_pairs
from perfmodel.validate.engine.client import Chunk, StreamedAnswer
from perfmodel.validate.engine.constants import sought
from perfmodel.validate.engine.fit import (
    EngineRows,
    _least_determined,
    check_enough,
    scatter,
    small_sample,
    usable as usable_rows,
)
from perfmodel.validate.engine.sources import BenchFile
from perfmodel.validate.engine.timing import GivenFacts, Timing
from perfmodel.validate.solving import NOTHING, Estimate, estimate
from tests.validate.tiny import refused

LOAD = driver.ServerLoad(batch=2, prompt=100, tokens=50)
POINTS: tuple[tuple[int, ...], tuple[int, ...], int] = (1, 4, 16), (512, 4096), 256
PLAN = BenchRequest("m", "vllm", 1, "draft_model", None, (2, 7), *POINTS, (), "results/a", True)
EVEN, LATE = (0.01,) * 20, (0.0, 0.02) * 10


def timing(batch: float, gamma: int, seconds: float, **more: Any) -> Timing:
    usual = {"where": "x", "batch": batch, "context": 1000.0, "gamma": gamma, "seconds": seconds}
    return Timing(**usual | more)


@pytest.mark.parametrize(
    ("gamma", "tokens", "gaps", "counted", "seconds", "gained", "how"),
    [
        # of 100 chunks in a second of two answers
        (0, 100, EVEN, None, 0.01, 1.0, "median time"),
        (0, 105, EVEN, None, 0.01, 1.0, "median time"),
        (0, 106, EVEN, None, 2 / 106, 1.0, "stretch over tokens"),
        (0, 100, LATE, None, 0.02, 1.0, "stretch over its chunks"),
        (3, 250, LATE, None, 0.02, 2.5, "stretch over its chunks"),
        (3, 404, EVEN, None, 0.01, 4.0, "median time"),
        (3, 406, EVEN, None, 0.0, 0.0, "chunks of 4.06 tokens at K = 3 and no counters"),
        (3, 90, EVEN, None, 0.01, 1.0, "median time"),
        (3, 272, EVEN, 2.5, 0.01, 2.72, "median time"),
        (3, 278, EVEN, 2.5, 2.5 * 2 / 278, 2.5, "Omega of the counters"),
        (3, 222, EVEN, 2.5, 2.5 * 2 / 222, 2.5, "Omega of the counters"),
        (3, 500, EVEN, 2.5, 2.5 * 2 / 500, 2.5, "Omega of the counters"),
        (0, 100, EVEN, 2.5, 0.01, 1.0, "median time"),
    ],
)
def test_what_chunks_and_counters_come_to(gamma, tokens, gaps, counted, seconds, gained, how) -> None:
    first = driver.Stretch(gaps, 60, 0.5, 0.6 * tokens, 10.0)
    second = driver.Stretch(gaps, 40, 0.5, 0.4 * tokens, 20.0)
    stretches = [first, second]
    counters = Counters(10.0, (10.0 * (counted - 1.0),)) if counted else None
    if not seconds:
        refused(how, driver.timing_of, "u", LOAD, gamma, stretches, counters)
        return
    t = driver.timing_of("u", LOAD, gamma, stretches, counters)
    assert (t.seconds, t.tokens_per_iteration) == pytest.approx((seconds, gained))
    assert t.how.startswith(how)
    assert t.batch == 2.0
    assert t.context == 115.0
    assert t.prompt == 100.0
    assert t.output == 50.0
    assert len(t.samples) == 40


def test_rounds_that_another_process_slowed_do_not_count() -> None:
    first = driver.Stretch(EVEN, 60, 0.5, 60.0, 10.0)
    second = driver.Stretch(EVEN, 40, 0.5, 40.0, 20.0)
    calm = [first, second]
    slower = tuple(1.2 * gap for gap in EVEN)
    slow = driver.Stretch(slower, 50, 0.6, 50.0, 15.0)
    quiet = driver.timing_of("u", LOAD, 0, calm, None)
    busy = driver.timing_of("u", LOAD, 0, [first, slow, second], None)
    assert busy == structs.replace(quiet, how=quiet.how + "; 1 disturbed rounds left out")
    read_together = (0.0001,) * 30 + (0.05,) * 18
    late = driver.Stretch(read_together, 48, 0.9, 48.0, 15.0)
    assert driver.timing_of("u", LOAD, 0, [*calm, late], None) == busy


def answer(total: int | None, *chunks: tuple[float, int | None]) -> StreamedAnswer:
    return StreamedAnswer([Chunk(*chunk) for chunk in chunks], total)


@pytest.mark.parametrize(
    ("events", "tokens", "grown"),
    [
        ((2, 3, 1), 2 + 3 + 1 + 4, (1 + 2.5 + 2 + 2.5) / 2),  # 1 and 2 before, half of the others
        ((None, None, None), 2 * 2 + 2 * 2, (2 + 2 + 2 + 2) / 2),  # totals of 6 and 8, pieces of 2
    ],
)
def test_a_stretch_lies_between_the_last_beginning_and_the_first_end(events, tokens, grown) -> None:
    """From 2 to 4 s: of the first answer two pieces behind the one at 2 s, of the second two behind its
    first.
    """
    counted = bool(events[0])
    one = answer(6, (1.0, 1 if counted else None), (2.5, events[0]), (4.0, events[1]))
    begins = (2.0, 2 if counted else None)
    goes_on = (4.0, 4 if counted else None)
    two = answer(8, begins, (3.0, events[2]), goes_on, (6.0, 1))
    stretch = driver.stretch_of([one, two], LOAD)
    assert stretch.chunks == 4
    assert stretch.seconds == 2.0
    assert stretch.gaps == (1.5, 1.0, 1.0)
    assert stretch.tokens == tokens
    assert stretch.grown == grown
    uncounted = answer(None, (1.0, None), (2.0, None), (3.0, None))
    assert driver.stretch_of([uncounted], LOAD) == driver.Stretch((1.0, 1.0), 2, 2.0, 2.0, 2.0)
    late = answer(3, (10.0, 1), (11.0, 1), (12.0, 1))
    refused(
        "--new-tokens: B2-P100-N50: the first answer ended before the last began",
        driver.stretch_of,
        [one, late],
        LOAD,
    )


class Staggered:
    """A server whose second answer begins 3 s after the first, in chunks every half second; three chunks more
    in each round.
    """

    shown = "u"

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def get(self, path: str) -> None:
        """No counters."""

    def answers(self, model: str, prompts: list[list[int]], tokens: int) -> list[StreamedAnswer]:
        self.lengths.append(tokens)
        count = 3 * len(self.lengths)
        return [self.chunks(begin_s, count) for begin_s in (0.0, 3.0)]

    def chunks(self, begin_s: float, count: int) -> StreamedAnswer:
        times_s = [begin_s + i / 2 for i in range(count)]
        return answer(None, *((time_s, None) for time_s in times_s))


class Apart(Staggered):
    """A server whose second answer begins when the first has ended, however long they are."""

    def answers(self, model: str, prompts: list[list[int]], tokens: int) -> list[StreamedAnswer]:
        self.lengths.append(tokens)
        return [answer(3, (at_s, 1), (at_s + 1, 1)) for at_s in (0.0, 10.0)]


def test_answers_that_do_not_meet_are_asked_to_be_longer() -> None:
    """After a round for warm-up they meet in the third."""
    server = Staggered()
    assert driver.measure(server, "m", 320, LOAD, 0, 1, rounds=1).batch == 2.0
    assert server.lengths == [16, 50, 100]


def test_answers_that_never_meet_are_refused() -> None:
    server = Apart()
    late = replace(LOAD, tokens=1000)
    refused("the first answer ended before the last began", driver.measure, server, "m", 320, late, 0, 1)
    assert server.lengths == [16, 1000, 2000, 4000]


@pytest.mark.parametrize(
    ("before", "event", "chunks", "total"),
    [
        (2, {"choices": [{"text": "x"}], "usage": {"completion_tokens": 3}}, [1], 3),
        (2, {"choices": [{"text": ""}], "usage": {"completion_tokens": 3}}, [1], 3),
        (2, {"choices": [{"text": ""}], "usage": {"completion_tokens": 2}}, [], 2),
        (2, {"choices": [], "usage": {"completion_tokens": 4}}, [], 4),
        (2, {"usage": {"completion_tokens": 4}}, [], 4),
        (2, {"choices": {"text": "x"}}, [None], 2),
        (2, {"choices": [{"text": ""}]}, [], 2),
        (None, {"choices": [{"text": "x"}], "usage": {"completion_tokens": 1}}, [1], 1),
        (None, {"choices": [{"text": ""}], "usage": {"completion_tokens": 0}}, [], 0),
    ],
)
def test_an_event_of_a_stream(before, event, chunks, total) -> None:
    """Of four tokens that were asked for, some of which may have come before."""
    answer = StreamedAnswer([], before)
    answer.add(event, 1.0, 4)
    assert [chunk.tokens for chunk in answer.chunks] == chunks
    assert answer.total == total


STARTS = {
    (
        "vllm",
        "draft_model",
        None,
    ): '\'{"method": "draft_model", "model": "DRAFT", "num_speculative_tokens": 2, '
    '"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.8, 0.64]}\'',
    ("vllm", "mtp", "d"): '\'{"method": "mtp", "num_speculative_tokens": 2, '
    '"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.8, 0.64]}\'',
    ("sglang", "eagle3", "d"): "--speculative-algorithm EAGLE3 --speculative-draft-model-path d "
    "--speculative-num-draft-tokens 3 --speculative-num-steps 2 --speculative-eagle-topk 1",
    ("sglang", "mtp", "d"): "--speculative-algorithm NEXTN --speculative-num-draft-tokens 3 "
    "--speculative-num-steps 2 --speculative-eagle-topk 1",
    ("sglang", "dspark", None): "--speculative-algorithm DSPARK --speculative-draft-model-path DRAFT "
    "--speculative-num-draft-tokens 3 --speculative-dspark-block-size 2",
    ("sglang", "dflash", "d"): "--speculative-algorithm DFLASH --speculative-draft-model-path d "
    "--speculative-num-draft-tokens 3",
    ("llama.cpp", "draft_model", "d"): "-m m --spec-type draft-simple -md d "
    "--spec-draft-n-max 2 --spec-draft-n-min 2 --spec-draft-p-min 0 -np 16",
}


def starts(plan: BenchRequest) -> list[str]:
    """The lines that start a server."""
    return [line for line in commands(plan) if line.endswith("server=$!")]


@pytest.mark.parametrize("case", STARTS)
def test_a_server_is_started_with_its_draft(case) -> None:
    engine, method, draft = case
    plan = replace(PLAN, engine=engine, method=method, draft=draft)
    plain = starts(plan)
    two = starts(replace(plan, tp=2))
    assert plain[-2].endswith(f" {STARTS[case]} --port 8101 & server=$!")
    assert plain[-1].endswith("--port 8102 & server=$!")
    assert engine != "vllm" or "0.64, 0.512, 0.4096, 0.3277, 0.2621, 0.2097]" in plain[-1]
    parallel = {"vllm": " --tensor-parallel-size ", "sglang": " --tp ", "llama.cpp": "llama-server "}[engine]
    assert all(parallel in line for line in two)
    assert engine == "llama.cpp" or not any(parallel in line for line in plain)


def test_a_plan_has_every_batch_at_the_shorter_prompt_and_the_ends_at_the_longer() -> None:
    short = [(batch, 512, 256) for batch in (1, 4, 16)]
    long = [(batch, 4096, 256) for batch in (1, 16)]
    plan = [(load.batch, load.prompt, load.tokens) for load in loads(*POINTS)]
    assert plan == [*short, *long]
    assert len(loads((4,), *POINTS[1:])) == 2
    refused("no engine named 'x'", commands, replace(PLAN, engine="x"))


@pytest.mark.parametrize(
    ("contexts", "drafts", "means", "groups"),
    [
        # 70 and 100 are of one octave; 2 of 110 drafts are below a tenth, as are the 3 at 300
        ((70, 100, 150, 300, 5000), (2, 50, 45, 3, 10), (5140 / 52, 150, 50900 / 13), [[0, 1], [2], [3, 4]]),
        ((100, 5000), (91, 9), (541,), [[0, 1]]),
        ((300, 100), (10, 90), (100, 300), [[1], [0]]),
        ((100, 120), (0, 0), (110,), [[0, 1]]),
        ((100, None), (1, 2), (), [[0, 1]]),
        ((100, None), (1, 1), (100,), [[0, 1]]),
    ],
)
def test_counts_are_grouped_by_octaves_of_a_tenth_of_the_drafts(contexts, drafts, means, groups) -> None:
    by_octave = octaves(contexts, drafts)
    assert [group for _, group in by_octave] == groups
    assert [group.mean for group, _ in by_octave if group] == pytest.approx(means)
    three = [(100, 5), (200, 5), (300, 10)]
    assert quantile(three, 0.5) == 100
    assert quantile([(100, 0)], 0.5) == 100


BASE = load_calibration("h100-sxm-80gb.literature")
LLAMA = load_model("llama-3.1-8b")
ROWS = (timing(1, 0, 0.010), timing(2, 1, 0.024), timing(4, 3, 0.064))
SOUGHT = [
    "attention_fixed_s",
    "pass_fixed_s",
    "token_s",
    "iteration_fixed_s",
    "iteration_sequence_s",
    "kv_reread_per_query",
    "gemm_bandwidth_fraction",
    "gemm_flops_fraction",
    "attention_bandwidth_fraction",
]


def test_where_constants_are_sought() -> None:
    """Layers 32; medians of seconds .024, by token (.010, .006, .004) .006, by sequence (.010, .012, .016)
    .012.

    Beside a baseline the priors of an iteration are a fifth of the shortest drafting one, .024 and .012 a
    sequence.
    """
    searched = sought(BASE, ROWS, LLAMA)

    def prior(name: str) -> tuple[float, float]:
        return searched[name].expected, searched[name].spread

    def bounds(name: str) -> tuple[float, float]:
        return searched[name].low, searched[name].high

    assert prior("attention_fixed_s") == pytest.approx((BASE.attention_fixed_s.value, 0.024 / 32 / 2))
    assert prior("pass_fixed_s") == pytest.approx((BASE.pass_fixed_s.value, 0.012))
    assert prior("token_s") == pytest.approx((BASE.token_s.value, 0.003))
    assert prior("iteration_fixed_s") == pytest.approx((BASE.iteration_fixed_s.value, 0.0048))
    assert prior("iteration_sequence_s") == pytest.approx((BASE.iteration_sequence_s.value, 0.0024))
    assert bounds("attention_fixed_s") == pytest.approx((0, 0.064 / 32))
    assert bounds("pass_fixed_s") == pytest.approx((0, 0.064))
    assert bounds("token_s") == pytest.approx((0, 0.010))
    assert bounds("iteration_fixed_s") == pytest.approx((0, 0.064))
    assert bounds("iteration_sequence_s") == pytest.approx((0, 0.016))
    assert prior("kv_reread_per_query") == (BASE.kv_reread_per_query.value, 0.5)
    assert bounds("kv_reread_per_query") == (0.0, 1.0)
    share = BASE.gemm_bandwidth_fraction.value
    assert prior("gemm_bandwidth_fraction") == (share, share / 2)
    assert bounds("gemm_bandwidth_fraction") == (0.02, 1.0)
    assert [*searched] == SOUGHT
    # no baseline: a twentieth of medians .044 and .014
    alone = sought(BASE, ROWS[1:], LLAMA)
    assert alone["iteration_fixed_s"].spread == pytest.approx(0.0022)
    assert alone["iteration_sequence_s"].spread == pytest.approx(0.0007)
    rows_of_passes = [structs.replace(row, kind="pass") for row in ROWS]
    passes = sought(BASE, rows_of_passes, LLAMA)
    assert [name for name in searched if name not in passes] == ["iteration_fixed_s", "iteration_sequence_s"]
    assert sought(BASE, ROWS[:1], LLAMA).keys() == passes.keys()


def test_what_the_rows_weigh_and_which_constant_they_say_least_of() -> None:
    assert scatter((1.0, 2.0, 3.0)) == 0.0
    assert scatter((0.0,) * 4) == 0.0
    some = 1.5 / 1.349 / 2.5
    assert scatter((1.0, 2.0, 3.0, 4.0)) == pytest.approx(some)
    unsteady = timing(1, 0, 0.01, samples=(1.0, 2.0, 3.0, 4.0))
    steady = EngineRows((timing(1, 0, 0.01), unsteady), None)
    assert steady.noise == pytest.approx([0.03, 0.03 * some / 0.2])
    assert small_sample(1.0, 2) == pytest.approx(6.313752 / 1.644854)
    assert small_sample(1.0, 1) == pytest.approx(6.313752 / 1.644854)
    assert small_sample(2.0, 6) == pytest.approx(2 * 2.015048 / 1.644854)
    first_two = itertools.islice(sought(BASE, ROWS, LLAMA).items(), 2)
    free = dict(first_two)

    def worst(shares: tuple[float, float], rows: int, at_bound: tuple[str, ...] = ()) -> str | None:
        values = dict.fromkeys(free, 1.0)
        covariance = np.diag(np.array(shares) ** 2)
        end = Estimate(tuple(free.values()), values, NOTHING, covariance, at_bound)
        return _least_determined(free, end, rows)

    assert worst((0.4, 0.45), 3) is None
    assert worst((0.4, 0.55), 3) == "pass_fixed_s"
    assert worst((0.4, 0.45), 2) == "pass_fixed_s"
    assert worst((0.6, 0.55), 3, ("pass_fixed_s",)) == "pass_fixed_s"
    nothing = estimate([], lambda values: np.zeros(0))
    assert _least_determined({}, nothing, 0) is None
    less = timing(1, 0, 1.0, prefill_share=0.06)
    more = timing(1, 0, 1.0, prefill_share=0.061)
    kept, aside = usable_rows([less, more])
    assert len(kept) == 1
    assert len(aside) == 1
    for files, words in ((4, "a0, a1, a2, a3: must"), (5, "a0, a1, a2, a3 and 1 more: must")):
        rows = [timing(1, 0, 1.0, where=f"a{i}: run") for i in range(files)]
        refused(words, check_enough, rows)


def test_a_row_in_several_files_counts_once() -> None:
    one = timing(4, 3, 2.0)
    other = timing(4, 3, 3.0)
    again = structs.replace(one, where="again")
    assert distinct([one, again, other]) == [one, other]


def test_a_speedup_has_a_plain_step_of_its_batch_within_a_tenth_of_its_context() -> None:
    drafting = timing(2, 3, 0.1)
    plain = timing(2, 0, 0.1)
    short = timing(2, 0, 0.1, context=899.0)
    long = timing(2, 0, 0.1, context=1111.0)
    nearest = timing(2, 0, 0.1, context=900.0)
    assert speedup_pairs([drafting, short, nearest, plain]) == [(0, 2)]
    of_one_pass = structs.replace(plain, kind="pass")
    assert speedup_pairs([drafting, timing(4, 0, 0.1), of_one_pass]) == []
    assert speedup_pairs([long, drafting]) == [(1, 0)]


def test_what_stands_behind_the_name_of_a_file() -> None:
    (one,) = BenchFile.parse("x.json,batch=0,input=2.5,gamma=3")
    assert one.facts == GivenFacts(batch=0.0, input=2.5, gamma=3)
    assert BenchFile.parse("x.json")[0].facts == GivenFacts()
    for bad in ("batch", "batch=", "speed=1", "batch=1e9", "batch=-1", "gamma=2.5"):
        refused("--from", BenchFile.parse, f"x.json,{bad}")
