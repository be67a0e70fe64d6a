"""What the given devices serve of a load that is too much for them."""

from functools import cache

import pytest

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.load.traffic import traffic
from tests.answers.advise.loads import LOAD, alternative
from tests.sampled import first_fast

QUESTIONS = {
    "kimi-k2.5 b200": {"request_rate": 4, "input_len": 8192, "output_len": 1024, "slo": "ttft:4000,tpot:35"},
    "llama-3.3-70b h100": {"request_rate": 20, "weights": "fp8", **LOAD},
    "qwen3-8b l40s": {"clients": 400, **LOAD},
}
"""Loads that are too much for eight of these devices."""
SEARCHED = [pytest.param(name, marks=[pytest.mark.slow] if "kimi" in name else []) for name in QUESTIONS]
"""Their names. Each layout of the largest model is asked in the slow tests alone."""
FIRST_FAST = first_fast([("llama-3.3-70b h100",), ("kimi-k2.5 b200",), ("qwen3-8b l40s",)])
"""Their names. All layouts of the last two are asked in the slow tests alone."""


@cache
def advised(name: str) -> Advice:
    """What `advise` says of one of these loads; several tests ask the same."""
    model, hardware = name.split()
    return advise(model, f"8x{hardware}", **QUESTIONS[name])


def share_of(
    asked: dict[str, object], name: str, layout: dict[str, int], draft: str | None, load: float
) -> float:
    """The largest share of requests within the limits on one server, over its draft lengths."""
    model, hardware = name.split()
    at = (
        {"request_rate": load}
        if "request_rate" in asked
        else {"max_concurrency": round(load), "output_std": 25}
    )
    common = {key: value for key, value in asked.items() if key not in ("request_rate", "clients")}
    lengths = {"draft": draft} if draft else {"gamma": 0}
    rows = traffic(model, hardware, **common, **layout, **at, **lengths).rows
    return max(row.slo_share or 0.0 for row in rows if row.ttft_s is not None or row.slo_share == 0.0)


@pytest.mark.parametrize("name", FIRST_FAST)
def test_no_layout_of_the_devices_serves_much_more_than_the_nearest(name: str) -> None:
    """The share of requests within the limits rises a little where a load has a shorter draft."""
    model, _ = name.split()
    asked = QUESTIONS[name]
    nearest = advised(name).nearest
    load = nearest.request_rate or nearest.clients
    layouts = [{"tp": tp, "dp": dp} for tp in (1, 2, 4, 8) for dp in {1, tp if "kimi" in model else 1}]
    for layout in layouts:
        more = 1.04 * load / (8 // layout["tp"]) + ("clients" in asked)
        for draft in (None, "eagle3"):
            assert share_of(asked, name, layout, draft, more) < 0.9, (layout, draft)


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHED)
def test_the_devices_serve_what_the_nearest_says(name: str) -> None:
    model, hardware = name.split()
    nearest = advised(name).nearest
    key = "clients" if nearest.request_rate is None else "request_rate"
    less = QUESTIONS[name] | {key: nearest.clients or nearest.request_rate}
    assert advise(model, f"8x{hardware}", **less).chosen is not None


def test_the_nearest_has_a_verdict_intervals_warnings_and_the_limit_that_binds() -> None:
    answer = advised("kimi-k2.5 b200")
    nearest = answer.nearest
    assert nearest.pick.draft == "eagle3"
    assert nearest.verdict == "likely_pays"
    assert nearest.speedup_interval[0] < nearest.speedup < nearest.speedup_interval[1]
    assert nearest.tpot_interval[0] < nearest.pick.tpot_s < nearest.tpot_interval[1]
    assert nearest.pick.ttft_s > 0
    assert nearest.alone < nearest.request_rate
    assert any("the acceptance was published for short prompts" in each for each in answer.warnings)
    assert "the limit on TPOT then binds" in answer.reason


@pytest.mark.slow
def test_the_nearest_servers_have_the_note_about_a_shorter_draft() -> None:
    asked = {"request_rate": 40, "input_len": 20000, "output_len": 800, "slo": "ttft:4000,tpot:40"}
    answer = advise("qwen3-coder-480b-a35b", "8xh200", weights="fp8", **asked)
    gamma = answer.nearest.pick.gamma
    note = alternative(answer, "A shorter draft loses less if fewer tokens are accepted: gamma ")
    assert int(note.text.rpartition("gamma ")[2].split()[0]) <= gamma - 2


def test_of_several_servers_with_drafts_one_has_the_note_about_a_shorter_one() -> None:
    asked = {"request_rate": 8, "input_len": 1000, "output_len": 200, "slo": "ttft:500,tpot:20"}
    answer = advise("llama-3.1-8b", "4xa10g", **asked)
    drafted = [each for each in answer.alternatives if each.line and "num_speculative_tokens" in each.line]
    assert len(drafted) > 1
    assert len([each for each in answer.alternatives if each.text.startswith("A shorter draft")]) == 1


def test_a_known_nvfp4_checkpoint_is_tried_on_devices_that_multiply_it() -> None:
    answer = advised("kimi-k2.5 b200")
    named = alternative(answer, "With --model nvidia/Kimi-K2.5-NVFP4 these suffice: ")
    assert "nvidia/Kimi-K2.5-NVFP4" in named.line


@pytest.mark.slow
def test_the_fewest_gpus_are_confirmed_and_one_server_less_does_not_suffice() -> None:
    asked = {
        "request_rate": 12,
        "weights": "fp8",
        "input_len": 2048,
        "output_len": 512,
        "slo": "ttft:2000,tpot:40",
    }
    few = advise("llama-3.3-70b", "8xh100", **asked)
    enough = alternative(few, " GPUs suffice: ")
    gpus = int(enough.text.split()[0])
    assert advise("llama-3.3-70b", f"{gpus}xh100", **asked).chosen is not None
    assert advise("llama-3.3-70b", f"{gpus - 2}xh100", **asked).chosen is None


@pytest.mark.slow
def test_of_two_kinds_that_do_not_suffice_the_nearer_one_answers() -> None:
    """Whatever their order; the other one is named in a note."""
    load = {"gpus": 4, "clients": 96, "input_len": 20480, "output_len": 600, "slo": "ttft:8000,tpot:50"}
    both = advise(model="qwen3-32b", hardware="h100,h200", draft=["eagle3"], **load)
    assert both.verdict == "infeasible"
    assert both.query.hardware == "h200"
    priced = advise(model="qwen3-32b", hardware="h200,h100", price=[3.1, 2.2], draft=["eagle3"], **load)
    assert priced.query.hardware == "h100"
    assert any(note.startswith("on h100: 4 GPUs do not serve 96 clients") for note in both.warnings)
