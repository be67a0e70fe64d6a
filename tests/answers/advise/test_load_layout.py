"""Which layout serves a load: the fewest devices, or the fastest of those that are stated."""

import random
import re
from dataclasses import replace

import pytest

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import find_candidates
from perfmodel.answers.advice.load_order import PATIENCE, safest_of_best
from perfmodel.answers.advice.load_search import LoadSearch
from perfmodel.answers.advice.picks import Pick
from perfmodel.answers.advice.served import Served
from perfmodel.answers.advice.servers.base import ANSWER_TOKENS
from perfmodel.answers.load.traffic import traffic
from tests.answers.advise.loads import LOAD, advised, row_of
from tests.sampled import first_fast


@pytest.mark.parametrize("seed", first_fast([(seed,) for seed in range(8)]))
def test_no_layout_asked_by_itself_ends_requests_sooner_than_the_choice(seed: int) -> None:
    """A random load: no layout of the same GPUs beats the choice by more than 3 %, one that was not replayed
    included. Layouts with later first tokens may have a queue.
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

    for degrees in {(p.tp, p.dp, p.ep) for p in found.layouts}:
        tp, dp, ep = ((size,) for size in degrees)
        alone = advise(model, **asked, tp=tp, dp=dp, ep=ep).chosen
        if alone is not None:
            most = 1.03 if alone.ttft_s <= found.chosen.ttft_s else PATIENCE
            assert request_s(found.chosen) <= most * request_s(alone)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "load"),
    [
        (("kimi-k2", "16xh200"), {"clients": 256, "input_len": 2048, "output_len": 1024}),
        (("deepseek-v3", "16xh100"), {"request_rate": 4, "input_len": 2048, "output_len": 1024}),
    ],
)
def test_over_nodes_no_layout_of_the_same_devices_beats_the_choice(
    place: tuple[str, str], load: dict[str, float]
) -> None:
    """Several attention groups of several devices each are searched like the other layouts."""
    choice = advise(*place, **load).chosen
    assert choice.gpus == 16
    for dp in (1, 2, 4, 8, 16):
        alone = advise(*place, **load, tp=(16,), dp=(dp,)).chosen
        if alone is not None:
            times = (p.ttft_s + load["output_len"] * p.tpot_s for p in (choice, alone))
            assert next(times) <= 1.03 * next(times), alone.layout


def test_servers_with_a_shorter_draft_are_compared_by_what_they_may_have_given_up() -> None:
    """A request of 10 s may take 9.9 s with the fastest draft beyond the contexts of its acceptance."""
    tokens = {"input_len": 30_000, "output_len": 500}
    question = AdviseQuery("llama-3.3-70b", "h100", gpus=4, weights="fp8", clients=2, **tokens)
    drafted = [s for s in LoadSearch.of(question, find_candidates(question)).served if s.row.gamma]
    simple, other = sorted(drafted, key=lambda s: s.candidate.layout.simplicity)[:: len(drafted) - 1]

    def took(served: Served, seconds: float) -> Served:
        assert served.row.e2e_s is not None
        return replace(served, row=replace(served.row, e2e_s=replace(served.row.e2e_s, mean=seconds)))

    assert simple.candidate.layout.simplicity < other.candidate.layout.simplicity
    assert safest_of_best([took(other, 10.0), took(simple, 10.05)], question).candidate == simple.candidate
    assert safest_of_best([took(other, 10.0), took(simple, 10.2)], question).candidate == other.candidate


def test_a_draft_that_breaks_a_limit_is_not_one_of_unknown_acceptance() -> None:
    """EAGLE-3 is known for this model, but delays the first tokens beyond the limit."""
    tokens = {"input_len": 12_288, "output_len": 300, "max_ttft_ms": 3000}
    answer = advise("llama-3.3-70b", "a100", weights="fp8", request_rate=1, **tokens)
    assert answer.verdict == "do_not_speculate"
    assert answer.reason.endswith("; no draft with a known acceptance is faster within the limits")


def test_of_equally_fast_servers_those_with_a_seat_for_every_request_are_chosen() -> None:
    load = {"clients": 40, "input_len": 2048, "output_len": 300}
    question = AdviseQuery("llama-3.1-8b", "h100", gpus=2, draft=("eagle3",), **load)
    seated, *_ = LoadSearch.of(question, find_candidates(question)).served
    crowded = replace(seated, seats=8)
    assert crowded.queues
    assert not seated.queues
    assert safest_of_best([crowded, seated], question) is seated


@pytest.mark.parametrize(("slower", "has_seats"), [(1.1, True), (1.2, False)])
def test_a_seat_for_every_request_is_worth_a_tenth_of_its_time(slower: float, has_seats: bool) -> None:
    """Unless the TTFT has a limit."""
    load = {"clients": 40, "input_len": 2048, "output_len": 300}
    question = AdviseQuery("llama-3.1-8b", "h100", gpus=2, draft=("eagle3",), **load)
    first, *_ = LoadSearch.of(question, find_candidates(question)).served
    crowded = replace(first, seats=8)
    e2e = replace(first.row.e2e_s, mean=slower * first.row.e2e_s.mean)
    seated = replace(first, row=replace(first.row, e2e_s=e2e))
    assert safest_of_best([crowded, seated], question) is (seated if has_seats else crowded)
    assert safest_of_best([crowded, seated], replace(question, max_ttft_ms=9e9)) is crowded


def test_a_shared_prefix_takes_memory_once() -> None:
    """Nine requests of 24,676 tokens fit without it. The typical gain is that of a batch that fits."""
    shared = {"clients": 24, "input_len": 24_576, "output_len": 200, "prefix_len": 22_528}
    answer = advise("qwen2.5-14b", "h100", **shared)
    assert " --max-num-seqs 24" in answer.serve.vllm_line
    assert answer.likely
    assert "a typical eagle3 draft" in answer.reason


def test_one_server_fewer_does_not_serve_the_load() -> None:
    answer = advised("llama-3.1-8b", "h100", 20.0)
    p = answer.chosen
    assert p.gpus == min(other.gpus for other in answer.layouts)
    assert p.gpus < answer.baseline.gpus
    fewer = row_of("llama-3.1-8b", p, p.replicas - 1, request_rate=20.0)
    assert fewer.ttft_s is None or fewer.slo_share < 0.9


def test_a_stated_number_of_gpus_gets_the_layout_with_the_lowest_tpot() -> None:
    answer = advise("llama-3.1-8b", "8xh100", request_rate=20, **LOAD)
    assert {p.gpus for p in answer.layouts} == {8}
    lowest = min(p.tpot_s for p in answer.layouts)
    assert answer.chosen.tpot_s <= 1.03 * lowest
    assert (
        f"--max-num-seqs {answer.chosen.batch} " not in answer.serve.vllm_line
    )  # of the seats, not the mean


def test_clients_without_limits_get_the_stated_devices_and_no_more() -> None:
    """No limit says how many are enough, so one device is one, and two of a server are two."""
    load = {"clients": 8, "input_len": 4000, "output_len": 500, "draft": ["ngram"]}
    assert advise("llama-3.1-8b", "h100", **load).chosen == advise("llama-3.1-8b", "1xh100", **load).chosen
    assert advise("llama-3.1-8b", "h100", tp=(2,), **load).chosen.layout == "TP 2"
    assert advise("qwen3-30b-a3b", "h100", dp=(2,), **load).chosen.layout == "DP 2"
    split = advise("qwen3-8b", "rtx4090", engine="llamacpp", layer_split=2, **load)
    assert split.chosen.layout == "layers on 2"


def test_the_least_rate_is_answered_on_several_servers() -> None:
    idle = advise("llama-3.1-8b", "8xh100", request_rate=1e-6, input_len=100, output_len=100)
    assert idle.chosen.gpus == 8


def test_the_printed_line_has_room_for_one_sequence_and_its_draft() -> None:
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


@pytest.mark.parametrize(
    ("model", "place", "clients", "seats"),
    [
        ("llama-3.1-8b", "4xh100", 64, 20),  # four servers, of 16 clients each if the router is even
        ("deepseek-v3", "8xh200", 128, 80),  # two attention groups
        ("llama-3.1-8b", "1xh100", 64, 64),  # no router
    ],
)
def test_servers_that_share_clients_have_seats_for_an_uneven_share(
    model: str, place: str, clients: int, seats: int
) -> None:
    answer = advise(model, place, clients=clients, input_len=2000, output_len=300)
    assert f"--max-num-seqs {seats} " in f"{answer.serve.vllm_line} "


def test_a_rate_has_the_seats_of_the_engine_or_those_that_fit_in_memory() -> None:
    """With fewer seats, the server would saturate at a lower rate than that of the row."""
    server = {"request_rate": 1, "input_len": 200, "output_len": 100}
    answer = advise("llama-3.1-8b", "1xh100", **server)
    assert answer.chosen.batch == 1
    assert "--max-num-seqs 1024 " in f"{answer.serve.vllm_line} "
    tight = advise("llama-3.1-8b", "1xrtx-4090", **server | {"request_rate": 0.02, "input_len": 24_000})
    assert "--max-num-seqs 1 " in f"{tight.serve.vllm_line} "


def test_of_near_ties_the_one_with_more_room_under_the_limits_is_chosen() -> None:
    load = {"request_rate": 5, "input_len": 2048, "output_len": 500, "slo": "ttft:2000,tpot:33"}
    answer = advise("glm-4.6", "8xh200", **load)
    assert answer.chosen.layout == "TP 4 DP 2 EP 8"
    assert "TP 8 takes 3% less time, a near tie; the choice stays further below" in answer.reason
    shares = [pick.slo_share for pick in answer.layouts if pick.ttft_s < 1.05 * answer.chosen.ttft_s]
    assert answer.chosen.slo_share >= max(shares) - 0.01


def test_without_a_given_number_of_gpus_the_binding_limit_is_named() -> None:
    load = {"request_rate": 2, "input_len": 2048, "output_len": 300, "slo": "ttft:10,tpot:40"}
    assert "one request alone exceeds the limit on TTFT" in advise("llama-3.1-70b", "h100", **load).reason


@pytest.mark.parametrize(
    ("rate", "drafts", "words"), [("0.45", False, r"% less time, a near tie\)$"), ("0.9", True, "")]
)
def test_a_draft_that_hardly_shortens_a_request_is_not_run(rate: str, drafts: bool, words: str) -> None:
    load = {"clients": 16, "input_len": 16_000, "output_len": 80}
    answer = advise("llama-3.1-8b", "1xh100", rate={"eagle3": rate}, **load)
    assert bool(answer.chosen.gamma) is drafts
    assert re.search(words, answer.reason)
