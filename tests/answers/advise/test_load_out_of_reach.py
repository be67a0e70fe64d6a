"""A load that the stated devices do not serve: the reason, and what would serve it."""

import re
from typing import Any

import pytest

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.load.traffic import traffic
from tests.answers.advise.loads import LOAD, alternative


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


def test_a_cache_in_fp8_is_named_where_memory_holds_too_few_requests() -> None:
    asked = {"clients": 40, "input_len": 20_000, "output_len": 1000, "draft": ["ngram"]}
    found = advise("minimax-m2", "4xh100", weights="fp8", **asked)
    named = alternative(found, "A server runs ")
    words = r"A server runs (\d+) of 40 requests at once, with --kv-dtype fp8 (\d+),"
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


def test_stated_degrees_that_no_layout_has_are_named_as_the_reason() -> None:
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


def test_an_unknown_acceptance_is_said_with_the_typical_gain() -> None:
    question = {"hardware": "8xh200", "weights": "fp8", "request_rate": 0.5} | LOAD | {"slo": "tpot:100"}
    reason = advise("llama-3.1-405b", **question).reason
    assert "no acceptance is known for llama-3.1-405b: likely" in reason
    stated = {"draft": ["ngram"], "rate": {"ngram": "0.1"}}
    known = advise("llama-3.1-405b", **question, **stated)
    assert "no acceptance" not in known.reason


def test_where_not_one_client_is_within_the_limits_the_reason_and_its_doubts_are_told() -> None:
    asked = {"weights": "fp8", "input_len": 6000, "output_len": 800, "slo": "ttft:4000,tpot:40"}
    answer = advise("qwen3-32b", "2xrtx5090", clients=8, **asked)
    assert answer.verdict == "infeasible"
    binding = re.search(r"one request alone exceeds the limit on TTFT: ([\d.]+) s on TP 2$", answer.reason)
    row = traffic("qwen3-32b", "rtx5090", tp=2, max_concurrency=1, gamma=0, **asked)
    assert float(binding[1]) == pytest.approx(row.rows[0].ttft_s.p90, abs=0.05)
    assert set(row.warnings) <= set(answer.warnings)
    assert any("from one measurement" in each for each in answer.warnings)
    assert any("is transferred from rtx-pro-6000-96gb" in each for each in answer.warnings)
    at_a_rate = advise("qwen3-32b", "2xrtx5090", request_rate=2, **asked)
    assert set(row.warnings) <= set(at_a_rate.warnings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "flag"),
    [
        ({"clients": 16, "max_ttft_ms": 3000}, r"--max-ttft-ms (\d+)"),
        ({"request_rate": 0.05, "slo": "ttft:3000,tpot:200"}, r"--slo tpot:200,ttft:(\d+)"),
    ],
)
def test_where_one_request_alone_is_too_slow_the_limit_that_can_be_kept_is_named(
    load: dict[str, Any], flag: str
) -> None:
    asked = {"weights": "fp8", "input_len": 12_000, "output_len": 300} | load
    where = ("llama-3.3-70b", "2xa100-sxm-80gb")
    short = advise(*where, **asked)
    assert "one request alone exceeds the limit on TTFT" in short.reason
    named = alternative(short, "these GPUs serve all of it: ")
    kept = int(re.match(f"With {flag} these GPUs", named.text)[1])
    assert named.line.startswith("vllm serve ")

    def within(ttft_ms: float) -> bool:
        if "slo" in load:
            limit = {"slo": f"tpot:200,ttft:{ttft_ms:g}"}
        else:
            limit = {"max_ttft_ms": ttft_ms}
        return advise(*where, **asked | limit).chosen is not None

    assert within(kept)
    assert not within(0.85 * kept)


def test_limits_that_all_servers_exceed_by_far_are_not_eased() -> None:
    asked = {"weights": "fp8", "input_len": 12_000, "output_len": 300, "slo": "ttft:1000,tpot:200"}
    short = advise("llama-3.3-70b", "2xa100-sxm-80gb", clients=16, **asked)
    assert not any("all of it" in each.text for each in short.alternatives)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "hardware", "load", "flags"),
    [
        (
            "glm-4.5-air",
            "2xrtx-pro-6000",
            {"clients": 16, "input_len": 12_000, "output_len": 700, "slo": "tpot:25"} | {"weights": "fp8"},
            r"--slo (tpot:\d+)",
        ),
        (
            "llama-3.3-70b",
            "2xa100-sxm-80gb",
            {"clients": 16, "input_len": 12_000, "output_len": 300, "slo": "ttft:3000,tpot:200"}
            | {"weights": "fp8"},
            r"--slo (ttft:\d+,tpot:\d+)",
        ),
    ],
)
def test_the_limits_within_which_the_given_gpus_serve_all_of_a_load_are_named(
    model: str, hardware: str, load: dict[str, Any], flags: str
) -> None:
    named = alternative(advise(model, hardware, **load), "these GPUs serve all of it: ")
    slo = re.match(f"With {flags} these GPUs", named.text)[1]
    assert advise(model, hardware, **load | {"slo": slo}).chosen is not None


def test_where_the_given_gpus_are_too_few_for_any_limit_more_gpus_and_a_limit_are_named() -> None:
    asked = {"input_len": 6000, "output_len": 1000, "request_rate": 1.0}
    short = advise("mistral-large-2411", "4xh100", max_tpot_ms=8, **asked)
    named = alternative(short, " GPUs suffice: ")
    kept, gpus = re.match(r"With --max-tpot-ms (\d+), (\d+) GPUs suffice: ", named.text).groups()
    assert advise("mistral-large-2411", f"{gpus}xh100", max_tpot_ms=int(kept), **asked).chosen is not None


@pytest.mark.slow
def test_where_no_number_of_gpus_keeps_a_limit_one_that_some_keep_is_named() -> None:
    asked = {"weights": "fp8", "request_rate": 0.5, "input_len": 12_000, "output_len": 300}
    model, gpu = "llama-3.3-70b", "a100-sxm-80gb"
    short = advise(model, gpu, max_ttft_ms=600, **asked)
    assert short.reason.startswith("no number of servers serves 0.5 requests/s")
    named = alternative(short, " GPUs suffice: ")
    kept, gpus = re.match(r"With --max-ttft-ms (\d+), (\d+) GPUs suffice: ", named.text).groups()
    assert advise(model, f"{gpus}x{gpu}", max_ttft_ms=int(kept), **asked).chosen is not None
    far = advise(model, gpu, max_ttft_ms=60, **asked)
    assert not any("suffice" in each.text for each in far.alternatives)
