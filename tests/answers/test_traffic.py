"""``traffic``: the contract of its JSON, what is said of loads that cannot be served, and what is refused."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.answers.load import slo as within_slo, tpot_errors
from perfmodel.answers.load.closed_form_range import Doubt, doubts
from perfmodel.answers.load.intervals import with_intervals
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import Percentiles, TrafficRow
from perfmodel.answers.question import Query, resolve
from perfmodel.queueing.steps import StepTimes
from perfmodel.specs import Z
from perfmodel.specs.engines.served_requests import PassOrder
from perfmodel.speculation import Acceptance
from tests.refusals import refused

ASK = {
    "model": "gpt-oss-120b",
    "hardware": "h200",
    "input_len": "8k",
    "output_len": "1k",
    "draft": "eagle:features=3",
}


def rows(**more):
    return pm.traffic(**ASK | {"alpha": 0.6, "closed_form": True} | more).rows


@pytest.mark.parametrize(
    "other",
    [{"alpha": 0.7}, {"gamma": "0,1,3"}, {"prefix_len": 4096}],
)
def test_the_rows_of_a_question_do_not_depend_on_the_one_before(other):
    first = rows(max_concurrency=8, gamma="0,3")
    assert rows(max_concurrency=8, **{"gamma": "0,3"} | other) != first
    assert rows(max_concurrency=8, gamma="0,3") == first


def test_a_row_for_each_load_and_length_that_agrees_with_itself():
    closed = pm.traffic(**ASK, alpha=0.6, max_concurrency="4,16", gamma="1", num_prompts=100)
    at = [(row.request_rate, row.concurrency, row.gamma) for row in closed.rows]
    assert at == [(None, 4, 0), (None, 4, 1), (None, 16, 0), (None, 16, 1)]
    for row, cells in zip(closed.rows, closed.to_frame().itertuples(), strict=True):
        assert cells.gamma == row.gamma
        assert cells.tpot_s_p99 == row.tpot_s.p99
        assert cells.e2e_s_mean == row.e2e_s.mean
        assert (cells.ttft_low_s, cells.ttft_high_s) == row.ttft_interval
        assert cells.warnings == "; ".join(row.warnings)
        assert cells.doubts == "; ".join(row.doubts)
    for row in rows(request_rate="0.5,1", gamma="0,3"):
        by_littles_law = row.request_rate * row.tpot_s.mean * 1023
        assert row.running_mean == pytest.approx(by_littles_law, rel=1e-6)
        assert row.tpot_interval[0] < row.tpot_s.mean < row.tpot_interval[1]


@pytest.mark.parametrize(
    ("rate", "clients", "factor", "ttft", "tokens"),
    [  # requests of 1 s and 2 s, with passes up to twice as slow and as fast; at most 2 requests/s
        (None, 8, 2.0, (0.5, 2.0), (300 / 6, 300 / 1.5)),
        (0.5, None, 2.0, (0.5, 2.0), (100, 100)),
        (1.5, None, 2.0, None, (100 / 1.5, 100)),
        (3.0, None, 2.0, None, (50, 150)),
        (1.5, 8, 1.0, (math.exp(-Z * 0.22), math.exp(Z * 0.22)), (300 / 3.4360, 300 / 2.6964)),  # vLLM's own
    ],
)
def test_intervals_of_ttft_and_throughput_follow_from_that_of_tpot(rate, clients, factor, ttft, tokens):
    tpot, *more = (Percentiles(seconds, *[seconds] * 3) for seconds in (0.01, 1.0, 3.0))
    first, whole = more if rate != 3.0 else (None, None)
    row = TrafficRow(
        request_rate=rate,
        concurrency=clients,
        gamma=0,
        running_mean=1.0,
        tpot_s=tpot,
        ttft_s=first,
        e2e_s=whole,
        output_tokens_per_s=100.0,
        requests_per_s=1.0,
        saturation_rate=2.0,
        kv_share=0.1,
        tpot_interval=(0.01 / factor, 0.01 * factor),
        tokens_per_iteration=1.0,
    )
    scenario = resolve(Query(model="llama-3.1-8b", hardware="h100", batch=1, context=1000, gamma=0))
    widened = with_intervals(row, math.log(factor) / Z, scenario)
    assert widened.ttft_interval == (ttft and pytest.approx(ttft))
    assert widened.throughput_interval == pytest.approx(tokens, rel=1e-3)


def test_no_more_than_the_whole_room_is_taken():
    """Answers of 30 k and 100 tokens, 14 at once; those that wait between their tokens hold a seat too.

    vLLM 0.22 on an A100 has 0.9 x 79.2 - 0.07 - 0.15 GiB, less 2048 x 2 x (2 x 14336 + 3 x 4096) bytes for a
    pass, 256 x 128 256 x 12 for the sampler and 16 060 522 496 of weights: 59 678 MB. A sequence in the
    middle of its answer, 30 720 + 50 + 1 tokens, takes 131 072 bytes for each.
    """
    few, many = pm.traffic(
        "llama-3.1-8b",
        "a100",
        "30k",
        100,
        alpha=0.5,
        draft="ngram",
        request_rate="0.22,0.29",
        gamma=0,
        closed_form=True,
    ).rows
    for row in (few, many):
        assert row.kv_share * 14.797 == pytest.approx(row.running_mean, rel=1e-3)
    assert 5 < many.running_mean < 14.797


def test_seats_are_those_that_the_engine_takes_there_unless_asked() -> None:
    def seats(gpu: str, **changes: object) -> int:
        return TrafficQuery("llama-3.1-8b", gpu, 1000, 100, request_rate=1, **changes).limits.max_num_seqs

    assert seats("h100") == 1024
    assert seats("mi300x") == 1024
    assert seats("a100-sxm-80gb") == 256
    assert seats("l40s") == 256
    assert seats("h100", engine="vllm@0.7.3") == 256
    assert seats("h100", engine="vllm@0.8.0") == 1024
    assert seats("h100", engine="sglang") == 2048
    assert seats("h100", engine="llamacpp") == 4
    assert seats("h100", max_num_seqs=64) == 64
    assert seats("h100", calibration="ideal") == 256


def test_sglang_runs_48_requests_with_a_draft_unless_more_are_stated() -> None:
    """Its servers reset --max-running-requests for any draft."""
    question = {"engine": "sglang", "alpha": 0.7, "gamma": 3, "max_concurrency": 128, "output_std": 100}
    default = pm.traffic("qwen3-8b", "h100", 1000, 500, **question, draft="eagle3")
    stated = pm.traffic("qwen3-8b", "h100", 1000, 500, **question, draft="eagle3", max_num_seqs=256)
    assert default.rows[0].running_mean == pytest.approx(stated.rows[0].running_mean)
    assert 40 < default.rows[1].running_mean <= 48 < stated.rows[1].running_mean
    assert any("48 requests at once by default" in text for text in default.warnings)
    assert not any("at once by default" in text for text in stated.warnings)


def test_a_server_whose_command_states_its_seats_has_as_many_with_a_draft() -> None:
    """Such as those of `advise` and of pools, whose command has --max-running-requests."""
    asked = TrafficQuery("qwen3-8b", "h100", 1000, 500, request_rate=1, engine="sglang")
    seats = [each.limits.seats(drafts) for each in (asked, asked.planned) for drafts in (False, True)]
    assert seats == [2048, 48, 2048, 2048]


def test_replicas_meet_the_slo_and_one_fewer_does_not_and_each_group_has_seats_of_its_own(monkeypatch):
    question = TrafficQuery("deepseek-r1", "b200", 1000, 100, request_rate=1, tp=8)
    one = replace(question, dp=1).limits
    eight = replace(question, dp=8).limits
    assert eight.max_num_seqs == 8 * one.max_num_seqs
    assert eight.max_num_batched_tokens == 8 * one.max_num_batched_tokens
    slo = "ttft:2000,tpot:30"
    needed = rows(request_rate=6, gamma=0, slo=slo)[0].replicas
    (fewer,) = rows(request_rate=6 / (needed - 1), gamma=0, slo=slo)
    (enough,) = rows(request_rate=6 / needed, gamma=0, slo=slo)
    assert fewer.slo_share < 0.9 <= enough.slo_share
    none = rows(request_rate=1, gamma=0, slo="tpot:1")[0]
    assert none.slo_share == pytest.approx(0, abs=1e-3)
    assert none.replicas is None
    assert any("no number of replicas" in note for note in none.warnings)
    alone, beside = (rows(request_rate=rate, gamma="1", slo=slo) for rate in ("1", "1,4"))
    assert alone[1].slo_share == pytest.approx(beside[1].slo_share, abs=1e-3)
    monkeypatch.setattr(within_slo, "slo_share", lambda _, at: np.where(at.requests_per_s < 0.2, 0.5, 0.9))
    for load in ({"request_rate": "0.6,0.3"}, {"max_concurrency": "64,16"}):
        assert [row.slo_share for row in rows(**load, gamma=0, slo=slo)] == [0.5, 0.5], "as at a lower load"


def test_auto_is_the_fastest_of_all_lengths_and_a_table_no_slower_than_its_own():
    for load in ({"request_rate": 1}, {"max_concurrency": 32}):
        auto = rows(**load)[-1]
        table = rows(**load, gamma="2,3,table")[-1]
        listed = {row.gamma: row.tpot_s.mean for row in rows(**load, gamma=[0, 1, 2, 3, 4, 5])}
        assert auto.tpot_s.mean <= min(listed.values()) * 1.01
        assert table.gamma == "table"
        assert table.tpot_s.mean <= 1.01 * min(listed[2], listed[3])
    long = {
        "model": "llama-3.1-8b",
        "hardware": "h100",
        "draft": "llama-3.2-1b",
        "alpha": 0.4,
        "output_len": 100,
    }
    (best,) = rows(**long, request_rate=2)
    assert best.gamma == 0, "what a draft saves, reading the prompts takes"


def test_an_iteration_errs_as_one_row_of_a_ratio_and_no_less_than_a_step(monkeypatch) -> None:
    """With the 2.1 % of vLLM's requests: a step of 4 %, and ratios whose rows err by 3 and 7.2 %."""
    ratios = np.array([0.0, 0.03, 0.072]) * 2**0.5
    monkeypatch.setattr(tpot_errors, "step_log_error", lambda *_: 0.04)
    monkeypatch.setattr(tpot_errors, "log_error", lambda *_: ratios)
    question = TrafficQuery("llama-3.1-8b", "h100", 1000, 100, request_rate=1)
    scenario = resolve(question.query(batch=1, context=9, gamma=3), Acceptance.from_alpha(0.6))
    stated = tpot_errors.served_log_errors(scenario, 1, 1000, [0, 1, 2])
    assert stated == pytest.approx({0: 0.0452, 1: 0.0452, 2: 0.0750}, abs=1e-4)


def found_doubts(met, asked, cached=None):
    """The doubts of a server that is saturated at 1/s; it has one seat, which is taken for a share of the
    time.
    """
    met = {"rate": 0.1, "full": 0.0, "running": 0.9, "over": False, "output_len": 1000} | met
    served = SimpleNamespace(
        saturated=np.array([met["over"]]),
        requests_per_s=np.array([met["rate"]]),
        saturation_rate=1.0,
        share=np.array([[1.0 - met["full"], met["full"]]]),
        running=np.array([met["running"]]),
    )
    ask = {"input_len": 1000, "output_len": met["output_len"], "output_std": 1.0, "request_rate": 1}
    ask |= asked
    if "max_concurrency" in asked:
        ask["request_rate"] = None
    question = TrafficQuery(**{"model": "llama-3.1-8b", "hardware": "h100", "max_num_seqs": 1} | ask)
    steps = StepTimes(0, 1.0, np.array([0.01]), np.array([0.1]), 1, 0.1, cached=cached)
    steps = replace(steps, prefill=SimpleNamespace(alone=True, order=PassOrder.ALTERNATING))
    (doubt,) = doubts(question, question.loop, steps, served, question.loop.values)
    return doubt


CLIENTS = {"max_concurrency": 4}


@pytest.mark.parametrize(
    ("met", "asked", "said"),
    [
        ({}, {}, None),
        ({"over": True, "rate": 1.0, "full": 1.0}, {}, None),
        ({"rate": 0.9}, {}, None),
        ({"rate": 0.901}, {}, Doubt.NEAR_SATURATION),
        ({"rate": 0.97}, CLIENTS, None),
        ({"rate": 0.971}, CLIENTS, Doubt.NEAR_SATURATION),
        ({"full": 0.05}, {}, None),
        ({"full": 0.0501}, {}, Doubt.CROWDED),
        ({"full": 0.9}, CLIENTS, None),
        ({"rate": 0.5}, {"max_num_batched_tokens": 2500}, None),
        ({"rate": 0.501}, {"max_num_batched_tokens": 2500}, Doubt.SPLIT_PROMPTS),
        ({"rate": 0.501}, {"max_num_batched_tokens": 2500} | CLIENTS, None),
        ({"rate": 0.501}, {}, None),
        ({}, {"burstiness": 0.99}, Doubt.NOT_POISSON),
        ({"rate": 0.5}, {"burstiness": 1.01}, None),
        ({"rate": 0.501}, {"burstiness": 1.01}, Doubt.NOT_POISSON),
        ({"output_len": 82}, {}, None),
        ({"output_len": 80}, {}, Doubt.SHORT_ANSWERS),
        ({}, {"output_std": 0.0} | CLIENTS, Doubt.LOCKSTEP),
        ({}, {"output_std": 0.0, "max_concurrency": 1}, None),
        ({}, {"output_std": 0.0}, None),
    ],
)
def test_a_doubt_begins_at_its_limit(met, asked, said) -> None:
    assert found_doubts(met, asked) == ((said,) if said else ())


@pytest.mark.parametrize(
    ("met", "question", "said"),
    [
        ({}, {"think_time": 9}, None),
        ({"hits": 0.66}, {"think_time": 9}, Doubt.EVICTED),
        ({"hits": 0.66}, {}, None),
        ({"hits": 0.97}, CLIENTS, None),
        ({"hits": 0.96}, CLIENTS, Doubt.EVICTED),
        ({"returns": 0.7275}, {"think_time": 9}, None),
        ({"returns": 0.7274}, {"think_time": 9}, Doubt.IDLE_SESSIONS),
        ({"returns": 0.7274}, {}, None),
        ({"returns": 0.7274, "running": 1.0}, {"think_time": 9}, None),
        ({"cv": 0.6}, {"model": "deepseek-r1", "dp": 2}, Doubt.UNLIKE_PROMPTS),
        ({"cv": 0.5}, {"model": "deepseek-r1", "dp": 2}, None),
        ({"cv": 0.6}, {}, None),
    ],
)
def test_a_doubt_of_hits_begins_at_its_limit(met, question, said) -> None:
    """Of sessions of four turns, three of which return. An idle server finds all of what is kept."""
    met = {"hits": 1.0, "returns": 0.75, "cv": 0.0} | met
    cached = SimpleNamespace(
        hit_rate=np.ones(2),
        chance=np.array([0.5, met["returns"] - 0.5, 0.1, 0.0, 0.1, 0.05]),
        cv=met["cv"],
        found=lambda _: np.array([met["hits"]]),
        at=lambda values, _: values,
        read=np.array([1000.0]),
    )
    question = {"turns": 4, "turn_input_len": 100, "tp": 8, "hardware": "h200"} | question
    assert found_doubts(met, question, cached) == ((said,) if said else ())


def test_one_row_per_load_which_says_who_made_it() -> None:
    """Clients with answers of one length stay in step, so a replay makes their rows; one client has none to
    wait for.
    """
    ask = {"model": "llama-3.1-8b", "hardware": "h100", "input_len": 1000, "output_len": 200, "gamma": 0}
    alone, crowd = pm.traffic(**ask, max_concurrency="1,64").rows
    assert alone.made_by == "closed form"
    assert alone.doubts == ()
    assert crowd.made_by == "replay"
    assert crowd.doubts == (Doubt.LOCKSTEP,)
    answer = pm.traffic(**ask, max_concurrency=64, replay=True)
    assert answer.replay == answer.rows
    assert answer.rows == (crowd,)
    (closed,) = pm.traffic(**ask, max_concurrency=64, closed_form=True).rows
    assert closed.made_by == "closed form"
    assert "may be off: clients with equal" in closed.warnings[-1]
    assert closed.ttft_s.mean < 0.5 * crowd.ttft_s.mean


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"max_concurrency": "1..10001"}, "max_concurrency: must be at most 1000 values, given 10001"),
        (
            {"max_concurrency": "1..600", "num_prompts": 100_000},
            "num_prompts: must be at most 50000 for 599 loads and draft lengths",
        ),
        (
            {"request_rate": list(range(1, 51)), "gamma": "table", "alpha": 0.7, "replay": True}
            | {"num_prompts": 100_000},
            "num_prompts: must be at most 15151 for 100 loads and draft lengths",
        ),
        ({"max_concurrency": 8, "replay": True, "closed_form": True}, "closed_form: must be left out"),
    ],
)
def test_more_than_seconds_of_work_is_refused(more, message) -> None:
    ask = {"input_len": 1000, "output_len": 200, "gamma": 0} | more
    refused(message, pm.traffic, "llama-3.1-8b", "h100", **ask)


@pytest.mark.parametrize(
    ("alpha", "std", "count"), [(0.99, 0.2, 1), (0.99, None, 0), (0.6, 0.2, 0), (0, 0.2, 0)]
)
def test_a_spread_that_no_acceptance_has_is_said(alpha, std, count) -> None:
    ask = ASK | {"model": "llama-3.1-8b", "request_rate": 1, "gamma": 3, "acceptance_std": std}
    notes = [note for note in pm.traffic(**ask, alpha=alpha).warnings if "cannot differ" in note]
    assert notes == ["requests cannot differ by 0.2 around an acceptance of 0.99: 0.018 is used"] * count


@pytest.mark.parametrize(("rate", "clients"), [(5, 16), (20, 16), (20, 64), (10, 200)])
def test_a_rate_with_a_cap_is_an_open_loop_until_the_cap_binds(rate, clients) -> None:
    ask = {"model": "llama-3.1-8b", "hardware": "h100", "input_len": 1000, "output_len": 300, "gamma": 0}
    load = {"request_rate": str(rate), "max_concurrency": clients}
    (row,) = pm.traffic(**ask, **load, closed_form=True).rows
    (replayed,) = pm.traffic(**ask, **load, replay=True, num_prompts=1000).rows
    assert row.request_rate == rate
    assert row.concurrency == clients
    assert row.tpot_s.mean == pytest.approx(replayed.tpot_s.mean, rel=0.05)
    assert row.requests_per_s == pytest.approx(replayed.requests_per_s, rel=0.08)
    assert replayed.running_mean <= clients


def test_where_the_cap_binds_the_times_are_of_its_clients_and_the_replicas_of_the_rate() -> None:
    ask = {"model": "llama-3.1-8b", "hardware": "h100", "input_len": 1000, "output_len": 300, "gamma": 0}
    ask |= {"closed_form": True, "slo": "tpot:100"}
    low, high = pm.traffic(**ask, request_rate="1,60", max_concurrency=16).rows
    low_alone, high_alone = pm.traffic(**ask, request_rate="1,60").rows
    (clients,) = pm.traffic(**ask, max_concurrency=16).rows
    assert (low.replicas, high.replicas) == (low_alone.replicas, high_alone.replicas)
    assert high.replicas > 1
    assert high.tpot_s == clients.tpot_s
    assert high.requests_per_s == clients.requests_per_s
    assert low.requests_per_s == pytest.approx(1)
    assert low.tpot_s.mean < high.tpot_s.mean


def test_a_capped_rate_has_the_doubts_of_its_clients_too() -> None:
    ask = {"model": "llama-3.1-8b", "hardware": "h100", "input_len": 1000, "output_len": 300, "gamma": 0}
    (open_loop,) = pm.traffic(**ask, request_rate=0.5, closed_form=True).rows
    (capped,) = pm.traffic(**ask, request_rate=0.5, max_concurrency=4, closed_form=True).rows
    assert open_loop.doubts == ()
    assert capped.doubts == (Doubt.LOCKSTEP,)


def test_a_saturated_row_and_one_without_room_keep_no_request_within_the_slo() -> None:
    ask = {"model": "llama-3.1-70b", "input_len": 1000, "output_len": 300, "gamma": 0, "request_rate": 500}
    ask |= {"closed_form": True, "slo": "tpot:1000"}
    (saturated,) = pm.traffic(**ask, hardware="h100", tp=8).rows
    assert saturated.saturated
    assert saturated.slo_share == 0.0
    assert saturated.ttft_s is None
    (no_room,) = pm.traffic(**ask, hardware="rtx-3060").rows
    assert no_room.slo_share == 0.0
    assert no_room.requests_per_s == 0.0
    assert "no request fits in memory" in no_room.warnings[0]


def test_llama_cpp_states_no_interval_of_a_ttft_that_was_never_fitted(capsys) -> None:
    ask = {"input_len": 8024, "output_len": 256, "max_concurrency": 1, "gamma": 0}
    answer = pm.traffic("qwen3.6-27b", "rtx-3090", weights="q4_k_m", **ask)
    (row,) = answer.rows
    assert row.tpot_interval is not None
    assert row.ttft_interval is None
    assert row.throughput_interval is None
    assert any("TTFT is a rough guide without an interval" in warning for warning in answer.warnings)
    (served,) = pm.traffic("qwen3-8b", "h100", **ask).rows
    assert served.ttft_interval is not None


def test_prompts_through_host_memory_come_with_the_switch_that_helps() -> None:
    load = {"input_len": 8192, "output_len": 100, "max_concurrency": 1, "gamma": 0, "weights": "fp8"}
    notes = {
        hardware: [w for w in pm.traffic("qwen3-32b", hardware, tp=2, **load).warnings if "NCCL_SHM" in w]
        for hardware in ("rtx-5090", "rtx-pro-6000", "h100")
    }
    assert [len(each) for each in notes.values()] == [1, 0, 0]
    assert notes["rtx-5090"][0].startswith("2 x rtx-5090-32gb: long prompts wait")
    warnings = pm.traffic("qwen3-32b", "rtx-5090", tp=2, **load).warnings
    assert any("host memory are taken as 1.9 GB/s, one reading (RTX 5070 Ti" in each for each in warnings)


def test_a_draft_that_is_not_advised_still_has_its_memory_in_the_answer() -> None:
    ask = {"model": "llama-3.1-8b", "hardware": "h100", "input_len": 1000, "output_len": 300}
    ask |= {"request_rate": 1, "closed_form": True}
    plain = pm.traffic(**ask, gamma=0)
    useless = pm.traffic(**ask, gamma=4, draft="llama-3.2-1b", alpha=0.01)
    assert useless.verdict == plain.verdict == "do_not_speculate"
    assert useless.kv_cache.kv_tokens < plain.kv_cache.kv_tokens


def test_a_draft_of_unknown_acceptance_has_no_verdict() -> None:
    ask = {"model": "qwen3-14b", "hardware": "h100", "input_len": 1000, "output_len": 300, "request_rate": 1}
    answer = pm.traffic(**ask, draft="medusa")
    assert (answer.verdict, answer.acceptance_source) == ("unknown_acceptance", "unknown")
    assert {row.gamma for row in answer.rows} == {0}
