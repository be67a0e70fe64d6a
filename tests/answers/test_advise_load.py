"""`advise` under a load: its figures are those of `traffic`, and no fewer GPUs serve the load."""

import random
import re
from functools import cache

import pytest

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.picks import Pick
from perfmodel.answers.advice.servers.base import ANSWER_TOKENS
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.load.traffic_rows import TrafficRow
from perfmodel.answers.point.whatif import whatif
from perfmodel.errors import InputError
from tests.sampled import first_fast

LOAD = {"input_len": 4000, "output_len": 500, "slo": "ttft:2000,tpot:30"}


@cache
def advised(model: str, hardware: str, rate: float) -> Advice:
    return advise(model, hardware, request_rate=rate, **LOAD)


def alternative(answer: Advice, words: str) -> Alternative:
    """The alternative with these words."""
    return next(each for each in answer.alternatives if words in each.text)


def row_of(model: str, p: Pick, servers: int, **load: object) -> TrafficRow:
    """What `traffic` says about one of several servers of a configuration."""
    if p.gamma:
        load |= {"draft": p.draft, "gamma": p.gamma}
    rate = load.pop("request_rate") / servers
    a = traffic(model, p.hardware, request_rate=rate, tp=p.tp, dp=p.dp, ep=p.ep, **LOAD, **load)
    return next(row for row in a.rows if row.gamma == p.gamma)


@pytest.mark.parametrize(
    ("model", "hardware", "rate"),
    first_fast([("llama-3.1-8b", "h100", 20.0), ("deepseek-v3", "h200", 4.0)]),
)
def test_the_figures_are_those_of_traffic(model: str, hardware: str, rate: float) -> None:
    answer = advised(model, hardware, rate)
    p = answer.chosen
    free = traffic(model, hardware, request_rate=rate / p.replicas, tp=p.tp, dp=p.dp, ep=p.ep, **LOAD)
    assert free.verdicts[0].gamma == p.gamma
    for p in (answer.chosen, answer.baseline):
        row = row_of(model, p, p.replicas, request_rate=rate)
        assert p.tpot_s == pytest.approx(row.tpot_s.mean)
        assert p.ttft_s == pytest.approx(row.ttft_s.mean)
        assert p.throughput_tokens_per_s == pytest.approx(row.output_tokens_per_s)
        per_gpu = p.replicas * row.output_tokens_per_s / p.gpus
        assert p.throughput_tokens_per_s_per_device == pytest.approx(per_gpu)
        assert p.slo_share >= 0.9
    assert answer.verdict in ("speculate", "likely_speculate", "too_close_to_call")


@pytest.mark.parametrize("seed", first_fast([(seed,) for seed in range(8)]))
def test_no_layout_asked_alone_ends_requests_sooner(seed: int) -> None:
    """A random load: no layout of the same GPUs beats the choice by more than 3 %, one that was not replayed
    included.
    """
    draws = random.Random(seed)
    model, draft = draws.choice((("llama-3.1-8b", "eagle3"), ("gpt-oss-120b", "eagle3"), ("glm-4.6", "mtp")))
    load = draws.choice(({"request_rate": draws.choice((1, 4))}, {"clients": draws.choice((8, 50))}))
    asked = {
        "hardware": draws.choice(("h100", "h200", "b200")),
        "gpus": draws.choice((4, 8)),
        "draft": [draft],
    }
    asked |= load | {"input_len": draws.choice((500, 4000)), "output_len": draws.choice((100, 600))}
    found = advise(model, **asked)
    if found.chosen is None:
        return

    def request_s(p: Pick) -> float:
        return p.ttft_s + (asked["output_len"] - 1) * p.tpot_s

    for skipped in {(p.tp, p.dp, p.ep) for p in found.layouts}:
        tp, dp, ep = ((size,) for size in skipped)
        alone = advise(model, **asked, tp=tp, dp=dp, ep=ep).chosen
        if alone is not None:
            assert request_s(found.chosen) <= 1.03 * request_s(alone)


def test_one_server_fewer_does_not_serve_the_load() -> None:
    answer = advised("llama-3.1-8b", "h100", 20.0)
    p = answer.chosen
    assert p.gpus == min(other.gpus for other in answer.layouts)
    assert p.gpus < answer.baseline.gpus
    fewer = row_of("llama-3.1-8b", p, p.replicas - 1, request_rate=20.0)
    assert fewer.ttft_s is None or fewer.slo_share < 0.9


def test_given_gpus_get_the_layout_with_the_lowest_tpot() -> None:
    answer = advise("llama-3.1-8b", "8xh100", request_rate=20, **LOAD)
    assert {p.gpus for p in answer.layouts} == {8}
    lowest = min(p.tpot_s for p in answer.layouts)
    assert answer.chosen.tpot_s <= 1.03 * lowest
    assert (
        f"--max-num-seqs {answer.chosen.batch} " not in answer.serve.vllm_line
    )  # of the seats, not the mean


def test_a_crowded_layout_is_not_left_out_by_the_closed_form() -> None:
    """Its TPOT on four crowded servers is twice that of a replay."""
    load = {"model": "qwen3-32b", "hardware": "a100", "input_len": 16_000, "output_len": 200}
    a = advise(**load, gpus=4, request_rate=0.3, rate={"eagle3": "0.75"}, objective="latency")
    one_of_four = traffic(**load, request_rate=0.3 / 4, draft="eagle3", rate="0.75", gamma=a.chosen.gamma)
    assert a.chosen.tpot_s <= one_of_four.rows[-1].tpot_s.mean * 1.01


def test_a_load_that_is_too_much_says_how_many_gpus_it_takes() -> None:
    answer = advise("llama-3.1-8b", "2xh100", request_rate=16, **LOAD)
    assert answer.verdict == "infeasible"
    assert answer.chosen is None
    assert "2 GPUs do not serve 16 requests/s of 4000 + 500 tokens" in answer.reason
    enough = alternative(answer, "4 GPUs suffice: 4 x TP 1, ")
    assert enough.servers == 4
    assert enough.line.startswith("vllm serve ")
    assert advise("llama-3.1-8b", "4xh100", request_rate=16, **LOAD).chosen is not None
    assert advise("llama-3.1-8b", "3xh100", request_rate=16, **LOAD).chosen is None


def test_too_many_clients_are_told_how_many_are_within_the_limits() -> None:
    many = advise("llama-3.1-8b", "2xh100", clients=400, **LOAD)
    assert many.verdict == "infeasible"
    nearest = alternative(many, "Within the limits these serve about ")
    most = int(re.search(r"about (\d+) clients", nearest.text)[1])
    assert nearest.line.startswith("vllm serve ")
    assert advise("llama-3.1-8b", "2xh100", clients=most, **LOAD).verdict != "infeasible"
    assert advise("llama-3.1-8b", "2xh100", clients=2 * most, **LOAD).verdict == "infeasible"


def test_a_cache_in_fp8_is_named_where_memory_lacks_seats() -> None:
    asked = {"clients": 40, "input_len": 20_000, "output_len": 1000, "draft": ["ngram"]}
    found = advise("minimax-m2", "4xh100", weights="fp8", **asked)
    named = alternative(found, "Memory holds ")
    words = r"Memory holds (\d+) of 40 requests of a server, with --kv-dtype fp8 (\d+),"
    seats, more = map(int, re.search(words, named.text).groups())
    assert more > seats
    assert " --kv-cache-dtype fp8 " in named.line
    assert f" --max-num-seqs {more} " in f"{named.line} "
    changed = advise("minimax-m2", "4xh100", weights="fp8", kv_dtype="fp8", **asked)
    assert not any("--kv-dtype" in each.text for each in changed.alternatives)
    assert changed.chosen.all_servers_tokens_per_s > found.chosen.all_servers_tokens_per_s
    roomy = advise("llama-3.1-8b", "h100", gpus=1, clients=8, input_len=500, output_len=100)
    assert not any("--kv-dtype" in each.text for each in roomy.alternatives)


def test_where_nothing_fits_or_no_limit_is_met_the_reason_says_so() -> None:
    too_large = advise("kimi-k2", "8xh100", request_rate=2, input_len=4000, output_len=500)
    assert too_large.verdict == "infeasible"
    assert too_large.reason.startswith("nothing fits: a device would hold")
    too_fast = advise("llama-3.1-70b", "h100", request_rate=2, input_len=4000, output_len=500, slo="tpot:1")
    assert too_fast.verdict == "infeasible"
    assert "no number of servers serves 2 requests/s" in too_fast.reason


def test_clients_are_divided_among_the_servers() -> None:
    answer = advise("llama-3.1-8b", "h100", clients=300, **LOAD)
    p = answer.chosen
    each = {"max_concurrency": -(-300 // p.replicas), "output_std": 25}
    a = traffic("llama-3.1-8b", "h100", tp=p.tp, draft=p.draft, **each, **LOAD)
    row = next(row for row in a.rows if row.gamma == p.gamma)
    assert p.tpot_s == pytest.approx(row.tpot_s.mean)


def test_clients_without_limits_are_of_the_devices_that_are_named() -> None:
    """No limit says how many are enough, so one device is one, and two of a server are two."""
    load = {"clients": 8, "input_len": 4000, "output_len": 500, "draft": ["ngram"]}
    assert advise("llama-3.1-8b", "h100", **load).chosen == advise("llama-3.1-8b", "1xh100", **load).chosen
    assert advise("llama-3.1-8b", "h100", tp=(2,), **load).chosen.layout == "TP 2"
    assert advise("qwen3-30b-a3b", "h100", dp=(2,), **load).chosen.layout == "DP 2"
    split = advise("qwen3-8b", "rtx4090", engine="llamacpp", layer_split=2, **load)
    assert split.chosen.layout == "layers on 2"


def test_degrees_that_no_layout_has_are_the_reason() -> None:
    dense = advise("llama-3.1-8b", "2xh100", dp=(2,))
    assert dense.verdict == "infeasible"
    assert "no layout of these devices has the stated --tp, --dp and --ep" in dense.reason


def test_fp8_weights_are_named_if_a_draft_then_serves_the_load() -> None:
    load = {"request_rate": 12, "input_len": 800, "output_len": 200, "slo": "ttft:800,tpot:30"}
    short = advise("llama-3.1-8b", "2xl40s", **load)
    assert short.verdict == "infeasible"
    assert "-FP8 " in alternative(short, "With --weights fp8 these suffice: ").line
    assert advise("llama-3.1-8b", "2xl40s", weights="fp8", **load).chosen.draft == "eagle3"


def test_a_bound_on_ttft_without_a_load_leaves_slow_layouts_out() -> None:
    rate = {"eagle3": "0.7/0.6/0.5"}
    free = advise("llama-3.1-70b", "8xh100", weights="fp8", rate=rate)
    bound = advise("llama-3.1-70b", "8xh100", weights="fp8", rate=rate, max_ttft_ms=600)
    assert {p.layout for p in bound.layouts} < {p.layout for p in free.layouts}
    assert any("a prompt of 8192 tokens alone takes" in skip.reason for skip in bound.skipped)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"request_rate": 1}, "request_rate, clients: need input_len and output_len"),
        ({"input_len": 100}, "input_len: needs request_rate or clients"),
        ({"request_rate": 1, "clients": 2, **LOAD}, "must be left out with"),
        ({"request_rate": 1, "batch": 2, **LOAD}, "must be left out with"),
    ],
)
def test_an_incomplete_load_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        advise("llama-3.1-8b", "h100", **given)


def test_requests_beyond_the_positions_are_refused_as_traffic_does() -> None:
    for ask in (advise, traffic):
        with pytest.raises(InputError, match="input_len: must be at most the 40960 positions of qwen3-8b"):
            ask("qwen3-8b", "h100", request_rate=1, input_len=40_000, output_len=2_000)


def test_the_least_rate_is_answered_on_several_servers() -> None:
    idle = advise("llama-3.1-8b", "8xh100", request_rate=1e-6, input_len=100, output_len=100)
    assert idle.chosen.gpus == 8


def test_the_line_holds_one_sequence_beside_its_draft() -> None:
    """Llama-3.3-70B in 4 bits nearly fills two RTX 3090, and a draft's 1.4 GB on each come on top."""
    answer = advise("llama-3.3-70b", "2xrtx-3090", weights="awq", objective="latency", context=4096)
    assert answer.chosen.gamma
    cache = answer.chosen.kv_cache
    assert cache.baseline_kv_tokens > 4096 + ANSWER_TOKENS > cache.kv_tokens
    assert cache.max_concurrency >= 1
    assert f"--max-model-len {cache.max_model_len} " in answer.serve.vllm_line


def test_clients_get_the_layout_that_answers_the_most_requests() -> None:
    """Few seats have a low TPOT, but clients wait for them: the end of a request counts, TTFT included."""
    load = {"clients": 64, "input_len": 8192, "output_len": 1024}
    chosen = advise("kimi-k2.5", "8xb200", **load).chosen
    crowded = advise("kimi-k2.5", "8xb200", tp=(4,), dp=(1,), ep=(1,), **load).chosen
    assert crowded.tpot_s < chosen.tpot_s
    assert crowded.ttft_s > 5 * chosen.ttft_s
    assert crowded.all_servers_tokens_per_s < chosen.all_servers_tokens_per_s


def test_the_typical_gain_under_a_load_is_that_of_whatif_at_its_batch() -> None:
    answer = advise("llama-3.1-70b", "8xh100", clients=200, input_len=2000, output_len=300)
    chosen = answer.chosen
    here = {"tp": chosen.tp, "batch": chosen.batch, "context": 2150}
    low, high = whatif("llama-3.1-70b", "h100", draft="eagle3", **here).typical.speedups
    assert f"likely {low:.1f}x to {high:.1f}x with a typical eagle3 draft" in answer.reason


def test_an_unknown_acceptance_is_said_with_the_typical_gain() -> None:
    question = {"hardware": "8xh200", "weights": "fp8", "request_rate": 0.5} | LOAD | {"slo": "tpot:100"}
    reason = advise("llama-3.1-405b", **question).reason
    assert "no acceptance is known for llama-3.1-405b: likely" in reason
    stated = {"draft": ["ngram"], "rate": {"ngram": "0.1"}}
    known = advise("llama-3.1-405b", **question, **stated)
    assert "no acceptance" not in known.reason


def test_a_draft_that_gains_only_at_a_share_of_the_rate_saves_servers() -> None:
    """One server of 30 requests/s is saturated and drafts nothing; of 15 it serves all with a draft, and
    without one it does not.
    """
    question = {"request_rate": 30, "input_len": 1024, "output_len": 250, "slo": "ttft:500,tpot:20"}
    found = advise("llama-3.1-8b", "h100", **question)
    half = traffic("llama-3.1-8b", "h100", draft="eagle3", **question | {"request_rate": 15.0})
    alone, drafted = half.rows
    assert alone.slo_share < 0.9 <= drafted.slo_share
    assert (found.chosen.layout, found.chosen.gamma) == ("2 x TP 1", drafted.gamma)
    assert found.baseline.layout != "2 x TP 1"


def test_a_shared_prefix_shortens_the_prompts_as_in_traffic() -> None:
    load = {"input_len": 20480, "output_len": 600}
    question = {"clients": 16, "gpus": 4, "weights": "fp8", "draft": ["ngram"]} | load
    whole = advise("glm-4.5-air", "rtx-pro-6000", **question)
    shared = advise("glm-4.5-air", "rtx-pro-6000", prefix_len=16384, **question)
    p = shared.chosen
    assert p.ttft_s < whole.chosen.ttft_s / 2
    assert "20480 (16384 shared) + 600 tokens" in shared.reason
    asked = {"max_concurrency": -(-16 // p.replicas), "prefix_len": 16384, "output_std": 30} | load
    row = traffic("glm-4.5-air", "rtx-pro-6000", weights="fp8", gamma=0, tp=p.tp, dp=p.dp, ep=p.ep, **asked)
    assert p.ttft_s == pytest.approx(row.rows[0].ttft_s.mean)
    with pytest.raises(InputError, match="prefix_len: needs request_rate or clients"):
        advise("glm-4.5-air", "rtx-pro-6000", prefix_len=16384)


def test_the_gpus_that_a_load_takes_may_be_larger_servers() -> None:
    """Prompts take too long on two devices; on eight, one server of all reads them within the limit."""
    load = {"request_rate": 5, "input_len": 1500, "output_len": 64, "slo": "ttft:500"}
    few = advise("qwen2.5-coder-32b", "2xa100", **load)
    enough = int(re.match(r"(\d+) GPUs suffice", alternative(few, " GPUs suffice: ").text)[1])
    assert advise("qwen2.5-coder-32b", f"{enough}xa100", **load).chosen is not None
    assert enough <= 8


def test_a_rate_that_fewer_gpus_serve_names_them() -> None:
    load = {"request_rate": 100, "input_len": 500, "output_len": 150}
    eight = advise("llama-3.1-8b", "8xh100", **load)
    fewer = int(re.match(r"(\d+) GPUs suffice", alternative(eight, " GPUs suffice: ").text)[1])
    assert advise("llama-3.1-8b", "h100", **load).chosen.gpus == fewer < 8
    for question in ({"hardware": f"{fewer}xh100"}, {"hardware": "8xh100", "objective": "latency"}):
        answer = advise("llama-3.1-8b", **question, **load)
        assert not any("suffice" in each.text for each in answer.alternatives)
