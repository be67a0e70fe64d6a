"""Prefix caches: the published hits, blocks of hybrid models, and the closed form beside the replay."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import perfmodel as pm
from perfmodel.answers.load.acceptance_along import KNOTS, along_turns, gains_along
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.question import resolve
from perfmodel.queueing.arrivals import Arrivals
from perfmodel.queueing.blocks import Shared
from perfmodel.queueing.closed_form import serve
from perfmodel.queueing.prefix import HitLaw, PrefixSettings, Reuse
from perfmodel.queueing.pricing import step_times
from perfmodel.queueing.replay import replay
from perfmodel.queueing.request import QueuedRequest
from perfmodel.queueing.senders import Senders
from perfmodel.queueing.sessions import draw
from perfmodel.queueing.steps import StepTimes
from perfmodel.speculation import Acceptance, Scenario

ASK = {"draft": "eagle3", "alpha": 0.6, "gamma": "3", "input_len": 8000, "output_len": 300, "request_rate": 2}


@cache
def scenario(model: str, kv_dtype: str = "bf16", engine: str = "vllm", draft: str = "eagle3") -> Scenario:
    query = TrafficQuery(model, "h200", 8, 8, request_rate=1, draft=draft, kv_dtype=kv_dtype, engine=engine)
    return resolve(query.query(batch=1, context=9, gamma=3), Acceptance.from_alpha(0.6))


@pytest.mark.parametrize(
    ("block", "dropped", "prompt", "hits"),
    [
        (2144, 1, 3784, 0),  # vllm#54360: one block of this prompt is full, and computed again
        (2144, 1, 18770, 15008),
        (2144, 0, 18770, 17152),  # with disable_eagle_block_drop
        (2144, 1, 2 * 2144, 0),  # the last token is computed always, so its block too
        (2144, 1, 2 * 2144 + 1, 2144),
        (16, 1, 1600, 1568),
        (1, 0, 1, 0),
    ],
)
def test_hits_of_a_prompt_that_was_there_before(block, dropped, prompt, hits) -> None:
    law = HitLaw(block, dropped)
    assert law.hits(float(prompt), float(prompt)) == hits
    assert law.hits_of_one(prompt, prompt) == hits


def test_published_hits_lie_on_the_law() -> None:
    """The five of vllm#54360, from 3,784 to 18,770 tokens, are steps of it."""
    law = HitLaw(2144, 1)
    steps = {int(law.hits(length, length)) for length in range(3784, 18771)}
    assert steps == set(range(0, 15009, 2144))
    assert steps >= {0, 4288, 8576, 12864, 15008}


@pytest.mark.parametrize(
    ("model", "kv_dtype", "gamma", "block"),
    [
        # 32 x 128 x 128 fp32 and 8,192 x (3 + 3) bf16 over 2 x 2 x 256 fp8: 2,195,456 / 1,024, exactly
        ("qwen3.5-35b-a3b", "fp8", 3, 2144),
        # without a draft 8,192 x 3: 2,146,304 / 1,024 = 2,096
        ("qwen3.5-35b-a3b", "fp8", 0, 2096),
        # 48 x 128 x 128 fp32 and 10,240 x (3 + 7) bf16 over 2 x 4 x 256 fp8: 1,636 in blocks of 16
        ("qwen3.5-27b", "fp8", 7, 1648),
        # 32 x 128 x 128 fp32 and 12,288 x 3 bf16 over 1,152: 1,885 in blocks of 128 for MLA
        ("kimi-linear-48b-a3b", "bf16", 0, 1920),
        # 64 x 64 x 128 fp32 and 6,144 x 3 bf16 over 2 x 2 x 128 bf16: 2,084 in blocks of 16
        ("nemotron-3-nano-30b-a3b", "bf16", 0, 2096),
        ("llama-3.1-8b", "bf16", 3, 16),
    ],
)
def test_a_block_of_a_hybrid_is_raised_until_a_page_holds_a_state(model, kv_dtype, gamma, block) -> None:
    question = scenario(model, kv_dtype, draft="ngram")
    assert PrefixSettings().law(question, gamma) == HitLaw(block, 0)
    assert PrefixSettings(block=64).law(question, gamma).block == 64


@pytest.mark.parametrize(
    ("engine", "draft", "gamma", "keeps", "law"),
    [
        ("vllm", "eagle", 3, False, HitLaw(16, 1)),
        ("vllm", "eagle3", 3, False, HitLaw(16, 1)),
        ("vllm", "dflash", 3, False, HitLaw(16, 1)),
        ("vllm", "eagle3", 0, False, HitLaw(16, 0)),
        ("vllm", "eagle3", 3, True, HitLaw(16, 0)),
        ("vllm", "ngram", 3, False, HitLaw(16, 0)),
        ("vllm", "medusa", 3, False, HitLaw(16, 0)),
        ("sglang", "eagle3", 3, False, HitLaw(1, 1)),
        ("trtllm", "eagle3", 3, False, HitLaw(32, 0)),
    ],
)
def test_which_drafts_lose_a_block_on_which_engine(engine, draft, gamma, keeps, law) -> None:
    assert PrefixSettings(keeps=keeps).law(scenario("llama-3.1-8b", engine=engine, draft=draft), gamma) == law


def test_a_further_prompt_finds_all_of_its_session_but_the_last_token() -> None:
    """100 tokens, an answer of 20 and 30 new ones: 150, of which 119 were computed, as the last token of an
    answer has passed through no layer.
    """
    first = replace(LENGTHS, input_mean=100.0, input_std=0.0, output_mean=20.0)
    kinds = Reuse(first, prefix=40.0, turns=2, turn_tokens=30.0).kinds
    turns = set(zip(kinds.prompt, kinds.matched, kinds.returns, strict=True))
    assert turns == {(100.0, 40.0, False), (150.0, 119.0, True)}


def test_prompts_of_a_session_grow_and_clients_stay_in_step_only_without_pauses() -> None:
    """1,000 tokens, then 1,150 and 1,300: each turn adds an answer of 100 and 50 new ones."""
    ask = {"model": "llama-3.1-8b", "hardware": "h100", "input_len": 1000, "output_len": 100}
    one = TrafficQuery(**ask, max_concurrency=4)
    session = TrafficQuery(**ask, max_concurrency=4, turns=3, turn_input_len=50)
    assert one.lengths.input_mean == 1000
    assert session.lengths.input_mean == pytest.approx(1150)
    assert one.in_lockstep
    assert session.in_lockstep
    assert not replace(session, think_time=5).in_lockstep
    assert not replace(one, output_std=10).in_lockstep


@pytest.mark.parametrize(("prefix", "returning"), [(0.0, 0.75), (40.0, 0.75)])
def test_on_an_idle_server_all_prompts_but_the_first_find_their_session(prefix, returning) -> None:
    """Three of four turns. First prompts may find the shared prefix, which is not their session."""
    first = replace(LENGTHS, input_mean=100.0, output_mean=2.0)
    reuse = Reuse(first, prefix=prefix, turns=4, turn_tokens=50.0, think_s=1.0)
    cached = reuse.cached(HitLaw(1), 1e9, first, np.ones(4))
    assert cached.returning == pytest.approx(returning)


def test_a_second_turn_waits_for_the_first_and_reads_what_is_new() -> None:
    """Passes of 10 ms; a prompt token takes 1 ms. 100 tokens, 2 out; 50 ms later those and 49 more."""
    decode_s = np.full(4, 0.01)
    steps = StepTimes(0, 1.0, decode_s, np.full(4, 0.1), 4, 0.01)
    reuse = Reuse(replace(LENGTHS, input_mean=100.0, output_mean=2.0))
    cached = reuse.cached(HitLaw(10), 100.0, reuse.first, np.ones(4))
    shared = Shared([(), ((1, 101),)], [1, 1], [None, 0], [0.0, 0.05])
    prompts = np.array([100, 150])
    requests = Arrivals(np.zeros(2), prompts, np.array([2, 2]), shared)
    limits = TrafficQuery("llama-3.1-8b", "h100", 9, 9, request_rate=1).limits
    met = replay(replace(steps, cached=cached), reuse.first, limits, requests)
    np.testing.assert_allclose(met.ttft_s, [0.11, 0.01 + 0.05])  # 150 less ten blocks
    np.testing.assert_allclose(met.duration_s, 0.12 + 0.05 + 0.06 + 0.01)
    assert met.hit_rate == 100 / 250


@pytest.mark.parametrize(("sent_s", "reaches_s"), [(1.0, 5.5), (9.0, 9.0)])
def test_a_turn_of_a_trace_comes_after_its_pause_and_not_before_its_time(sent_s, reaches_s) -> None:
    """The answer before ends after 5 s, and the client then thinks for half a second."""
    first, second = (
        QueuedRequest(number, 100, 60, 60.0, 1.0, at_s, late=False)
        for number, at_s in enumerate((0.0, sent_s))
    )
    senders = Senders([first, second], Shared([(), ()], [0, 0], [None, 0], [0.0, 0.5]), 0.0, None, None)
    assert [coming.number for coming in senders.arrived(20.0)] == [0]
    senders.answered(first, 5.0, from_pass=1)
    assert senders.next_s == reaches_s


LENGTHS = TrafficQuery("llama-3.1-8b", "h100", 9, 9, request_rate=1).lengths
FEW = {"turns": 6, "turn_input_len": 400, "input_len": 1000, "memory_fraction": 0.4}
SHARED = {
    "a prefix": ({"prefix_len": 6000, "prefix_hits": 0.5}, 2.5),
    "a rare prefix": ({"prefix_len": 6000, "prefix_hits": 0.03, "memory_fraction": 0.4}, 1.0),
    "sessions": (FEW | {"think_time": 5}, 4.0),
    "evicted": (FEW | {"think_time": 40}, 3.0),
    "both": (FEW | {"think_time": 40, "prefix_len": 600}, 3.0),
}
"""What else is asked, and requests/s, below saturation."""


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("gamma", [0, 3])
def test_the_closed_form_and_the_replay_find_as_much(name, gamma) -> None:
    more, rate = SHARED[name]
    query = TrafficQuery("llama-3.1-8b", "h100", **ASK | more | {"request_rate": rate})
    assert query.reuse is not None
    question = scenario("llama-3.1-8b")
    (steps,) = step_times(question, query.lengths, query.limits, [gamma], reuse=query.reuse)
    load = query.loop.load(query.loop.values)
    predicted = serve(steps, load, query.limits, 0.05)
    sessions = draw(query.reuse, 12_000, rate, 1.0, 1)
    met = replay(steps, query.lengths, query.limits, sessions, spread=0.05)
    assert steps.cached is not None
    hit_rate = float(steps.cached.found(predicted.share)[0])
    assert met.hit_rate == pytest.approx(hit_rate, abs=0.03)
    tpot_s = predicted.tpot.mean[0]
    assert tpot_s == pytest.approx(met.tpot_s.mean(), rel=0.03)
    ttft_s = predicted.ttft.mean[0]
    assert ttft_s == pytest.approx(met.ttft_s.mean(), rel=0.12)


def acceptance_falls(folder: Path) -> str:
    """An acceptance file with 0.8 at 1,000 and 0.2 at 16,000 tokens."""
    row = {"target": "llama-3.1-8b", "draft": "eagle3", "draft_kv": "full"}
    short = row | {"context_tokens": 1000, "alpha": 0.8}
    long = row | {"context_tokens": 16000, "alpha": 0.2}
    path = folder / "rows.json"
    path.write_text(json.dumps({"schema_version": 1, "source": "a file", "rows": [short, long]}))
    return str(path)


def test_acceptance_follows_the_context_along_a_session(tmp_path) -> None:
    """0.8 at 1,000 and 0.2 at 16,000 tokens: 0.5 in between by the logarithm, the nearest beyond."""
    arguments = ASK | {"alpha": None, "acceptance": acceptance_falls(tmp_path), "gamma": "2", "turns": 2}
    arguments["turn_input_len"] = 9
    question = TrafficQuery("llama-3.1-8b", "h100", **arguments)
    prompts = np.geomspace(250, 64_000, KNOTS + 1)[::4]
    gains = gains_along(question, scenario("llama-3.1-8b"), 2, prompts)
    alphas = np.array([0.8, 0.8, 0.5, 0.2, 0.2])
    np.testing.assert_allclose(gains, 1 + alphas + alphas**2, rtol=0.03)
    assert gains_along(replace(question, acceptance=None), scenario("llama-3.1-8b"), 2, prompts) is None
    arguments |= {"input_len": 1000, "turns": 10, "turn_input_len": 1000, "num_prompts": 4000}
    predicted = pm.traffic("llama-3.1-8b", "h100", **arguments, closed_form=True).rows[1]
    met = pm.traffic("llama-3.1-8b", "h100", **arguments, replay=True).rows[1]
    assert predicted.tpot_s.mean == pytest.approx(met.tpot_s.mean, rel=0.03)
    assert met.tpot_s.p90 > 1.15 * met.tpot_s.p50


def test_the_acceptance_of_a_turn_is_that_in_the_middle_of_its_answer(tmp_path) -> None:
    """Answers of 6,000 tokens: 0.5 after 1,000 + 3,000 tokens, and 0.2 after 13,000 + 3,000."""
    lengths = {"input_len": 1000, "output_len": 6000, "turns": 2, "turn_input_len": 6000, "gamma": "1"}
    ask = ASK | lengths | {"alpha": None, "acceptance": acceptance_falls(tmp_path)}
    steps = StepTimes(1, 9.0, np.full(4, 0.01), np.full(4, 0.1), 4, 0.01)
    session = along_turns(TrafficQuery("llama-3.1-8b", "h100", **ask), scenario("llama-3.1-8b"), steps)
    assert session.tokens_per_iteration == pytest.approx(2 / (1 / 1.5 + 1 / 1.2), rel=1e-3)


def test_far_beyond_the_measured_contexts_a_session_keeps_the_last_acceptance(tmp_path) -> None:
    """A single question so far beyond is refused."""
    ask = ASK | {"alpha": None, "acceptance": acceptance_falls(tmp_path), "turns": 2, "turn_input_len": 9}
    prompts = np.array([16_000.0, 128_000.0])
    gains = gains_along(TrafficQuery("llama-3.1-8b", "h100", **ask), scenario("llama-3.1-8b"), 1, prompts)
    np.testing.assert_allclose(gains, 1.2)


def test_a_verdict_says_what_a_draft_costs_and_what_turns_it() -> None:
    question = {
        "draft": "mtp",
        "kv_dtype": "fp8",
        "alpha": 0.7,
        "gamma": "1,3",
        "input_len": "8k",
        "output_len": 500,
        "request_rate": "1,10",
        "prefix_len": "7k",
    }
    question |= {"closed_form": True}
    answer = pm.traffic("qwen3.5-35b-a3b", "h200", **question)
    light, heavy = answer.prefix
    rows = answer.rows
    assert light.gamma == 3
    assert light.block == 2144
    assert light.dropped_tokens == 2144
    assert light.hit_rate_without == pytest.approx(3 * 2096 / 8192)
    assert light.hit_rate == pytest.approx(2 * 2144 / 8192)
    expected = rows[0].e2e_s.mean - rows[2].e2e_s.mean
    assert light.net_s == pytest.approx(expected)
    waits = rows[2].ttft_s.mean - rows[0].ttft_s.mean
    assert light.net_s == pytest.approx(light.decode_gain_s - waits)
    assert 0.5 * waits < light.recomputed_s < waits
    assert light.pays is True
    assert heavy.pays is False
    assert heavy.net_s is None
    best = heavy.changes[0]
    assert best.change == "disable_eagle_block_drop"
    assert best.pays is True
    kept = pm.traffic("qwen3.5-35b-a3b", "h200", **question, disable_eagle_block_drop=True)
    assert kept.verdicts[1].gamma
    slower, faster = (kept.rows[at].e2e_s.mean for at in (3, 4))
    assert best.net_s == pytest.approx(slower - faster)


def test_drafts_of_one_to_four_tokens_are_tried_instead_of_a_longer_one() -> None:
    question = {"draft": "mtp", "alpha": 0.9, "input_len": "8k", "output_len": 500, "prefix_len": "7k"}
    answer = pm.traffic("qwen3.5-35b-a3b", "h200", request_rate=1, closed_form=True, **question)
    (verdict,) = answer.prefix
    assert verdict.gamma > 5
    tried = [each.change for each in verdict.changes if "draft token" in each.change]
    assert tried == ["4 draft tokens", "3 draft tokens", "2 draft tokens", "1 draft token"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("more", [{"prefix_len": 400, "prefix_hits": 0.0}, {"model": "devstral-2-123b"}])
def test_sessions_that_share_nothing_or_fit_nowhere_are_answered(more) -> None:
    sessions = {"turns": 5, "turn_input_len": 9, "think_time": 60}
    clients = {"request_rate": None, "max_concurrency": 4}
    question = ASK | {"model": "llama-3.1-8b", "hardware": "l40s", "gamma": "auto"} | more
    predicted = pm.traffic(**question | sessions | clients)
    assert predicted.rows[0].running_mean >= 0


def test_clients_that_think_see_all_others_that_do_not() -> None:
    """Eight, of which two are there on average: one that is there sees 1.7 others, not one."""
    question = {
        "input_len": 235,
        "output_len": 194,
        "output_std": 97,
        "max_concurrency": 8,
        "turns": 9,
        "turn_input_len": 300,
        "think_time": 2,
        "draft": "suffix",
        "alpha": 0.85,
        "gamma": 5,
    }
    question |= {"model": "qwen3.5-35b-a3b", "hardware": "h200", "acceptance_std": 0}
    predicted = pm.traffic(**question, closed_form=True).rows[1]
    met = pm.traffic(**question, replay=True).rows[1]
    assert predicted.tpot_s.mean == pytest.approx(met.tpot_s.mean, rel=0.08)


def test_sessions_that_think_on_an_idle_server_are_simulated() -> None:
    """A context is not evicted by others that hardly come."""
    question = ASK | {
        "input_len": 1784,
        "output_len": 1666,
        "gamma": 0,
        "request_rate": 0.02,
        "think_time": 60,
    }
    question |= {"turns": 20, "turn_input_len": 10, "memory_fraction": 0.72}
    (met,) = pm.traffic("qwen3-1.7b", "rtx-5080", **question).rows
    (predicted,) = pm.traffic("qwen3-1.7b", "rtx-5080", **question, closed_form=True).rows
    assert met.made_by == "replay"
    assert met.prefix_hit_rate > predicted.prefix_hit_rate + 0.2


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    st.sampled_from(["llama-3.1-8b", "qwen3.5-27b"]),
    st.sampled_from([{"request_rate": 1}, {"request_rate": 6}, {"max_concurrency": 12}]),
    st.integers(300, 30_000),
    st.floats(0.05, 1.0),
    st.sampled_from([20, 400]),
    st.floats(0.0, 0.4),
)
def test_more_hits_never_harm_and_a_draft_never_finds_more(model, load, prompt, part, output, std) -> None:
    question = {"model": model, "hardware": "h200", "draft": "eagle3", "alpha": 0.6, "gamma": "2"} | load
    question |= {"input_len": prompt, "output_len": output, "input_std": std * prompt, "closed_form": True}
    before = pm.traffic(**question).rows
    assert pm.traffic(**question, prefix_len=prompt, prefix_hits=0).rows == before, "today's answer"
    for share in (0.3, 0.9, 1.0):
        rows = pm.traffic(**question, prefix_len=max(int(part * prompt), 1), prefix_hits=share).rows
        assert 0.0 <= rows[1].prefix_hit_rate <= rows[0].prefix_hit_rate <= 1.0
        for row, fewer in zip(rows, before, strict=True):
            assert row.requests_per_s >= fewer.requests_per_s * (1 - 1e-6)
            assert row.saturation_rate >= fewer.saturation_rate * (1 - 1e-9)
            if fewer.ttft_s is not None:
                assert row.ttft_s.mean <= fewer.ttft_s.mean * 1.005  # a closed form
        before = rows
