"""What `advise` reads from a row of `traffic`: queues, the limit that binds, and near ties. Made-up rows."""

from types import SimpleNamespace
from typing import Any

import pytest

from perfmodel.answers.advice import eased_limit
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.eased_limit import _rounded_up
from perfmodel.answers.advice.load_reasons import _near_tie, _tie_text, load_text
from perfmodel.answers.advice.nearest import _limit
from perfmodel.answers.advice.servers_needed import queues
from tests.commands import read, run

LIMITED = SimpleNamespace(objective="throughput", latency_limits_ms={"ttft": 1000.0, "tpot": 30.0})


@pytest.mark.parametrize(("at_once", "waits"), [(109, False), (111, True)])
def test_a_tenth_more_requests_than_seats_is_a_queue(at_once: int, waits: bool) -> None:
    clients = SimpleNamespace(concurrency=at_once, e2e_s=None, requests_per_s=0.0)
    rate = SimpleNamespace(concurrency=None, e2e_s=SimpleNamespace(mean=at_once / 5.0), requests_per_s=5.0)
    assert queues(clients, 100) is waits
    assert queues(rate, 100) is waits


@pytest.mark.parametrize(
    ("ttft_s", "tpot_s", "limit"),
    [(0.69, 0.020, "saturation"), (0.71, 0.020, "ttft"), (0.71, 0.025, "tpot"), (1.5, 0.025, "ttft")],
)
def test_below_seven_tenths_of_all_limits_saturation_binds(ttft_s: float, tpot_s: float, limit: str) -> None:
    times = {"ttft": SimpleNamespace(p90=ttft_s), "tpot": SimpleNamespace(p90=tpot_s)}
    assert _limit(LIMITED, SimpleNamespace(by_limit=times, ttft_s=times["ttft"])) == limit


@pytest.mark.parametrize(
    ("request_s", "gpus", "said"),
    [(0.98, 8, " (2% less time, a near tie)"), (0.98, 4, ""), (0.997, 8, ""), (0.97, 8, "")],
)
def test_a_draft_that_saves_half_to_two_and_a_half_per_cent_is_a_near_tie(request_s, gpus, said) -> None:
    def served(seconds: float, devices: int) -> SimpleNamespace:
        layout = SimpleNamespace(gpus=devices)
        return SimpleNamespace(candidate=SimpleNamespace(layout=layout), request_s=seconds)

    assert _near_tie(LIMITED, served(1.0, 8), served(request_s, gpus)) == said


def of_eight(request_s: float, **changes: Any) -> SimpleNamespace:
    """Servers on eight GPUs that serve a load, with half of the limits used."""
    row = {"gamma": changes.pop("gamma", 0), "slo_share": 1.0}
    tpot_s = changes.pop("tpot_s", 0.015)
    by_limit = {"ttft": SimpleNamespace(p90=0.5), "tpot": SimpleNamespace(p90=tpot_s)}
    layout = SimpleNamespace(gpus=changes.pop("gpus", 8), label=lambda: "TP 8")
    stated = {"suffices": True, "queues": False, "ttft_s": 3.0} | changes
    return SimpleNamespace(
        candidate=SimpleNamespace(layout=layout),
        row=SimpleNamespace(**row, by_limit=by_limit),
        request_s=request_s,
        **stated,
    )


TIE = " (TP 8 takes 2% less time, a near tie; the choice {})"


@pytest.mark.parametrize(
    ("chosen", "other", "said"),
    [
        ({}, of_eight(1.02), ""),
        ({}, of_eight(0.98), TIE.format("is simpler to run")),
        ({}, of_eight(0.98, queues=True), TIE.format("has a seat for every request")),
        ({"queues": True}, of_eight(0.98, queues=True), TIE.format("is simpler to run")),
        ({}, of_eight(0.98, tpot_s=0.029), TIE.format("stays further below the limits")),
        ({}, of_eight(0.996), ""),
        ({}, of_eight(0.9), ""),
        (
            {},
            of_eight(0.9, queues=True),
            " (TP 8 takes 10% less time, but its requests wait 3.0 s for the first token)",
        ),
        ({"queues": True}, of_eight(0.9, queues=True), ""),
        ({}, of_eight(0.98, gpus=4), ""),
        ({}, of_eight(0.98, gamma=3), ""),
        ({}, of_eight(0.98, suffices=False), ""),
    ],
)
def test_a_faster_layout_that_is_not_chosen_is_named_with_the_reason(chosen, other, said) -> None:
    decision = SimpleNamespace(others=[other])
    assert _tie_text(LIMITED, decision, of_eight(1.0, **chosen)) == said


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"request_rate": 2}, "2 requests/s of 4000 + 500 tokens"),
        ({"clients": 8, "slo": "tpot:30"}, "8 clients of 4000 + 500 tokens with 90% within tpot 30 ms"),
        ({"clients": 8, "prefix_len": 1000}, "8 clients of 4000 (1000 shared) + 500 tokens"),
        (
            {"clients": 8, "prefix_len": 1000, "prefix_hits": 0.5},
            "8 clients of 4000 (1000 shared in 50% of the prompts) + 500 tokens",
        ),
    ],
)
def test_a_load_in_words(asked, said) -> None:
    assert load_text(AdviseQuery("qwen3-8b", "h100", input_len=4000, output_len=500, **asked)) == said


@pytest.mark.parametrize(("time_ms", "rounded"), [(123.4, 130), (130.0, 130), (1001.0, 1100), (9.91, 10)])
def test_an_eased_limit_has_two_digits_and_is_not_below_the_time(time_ms: float, rounded: float) -> None:
    assert _rounded_up(time_ms) == rounded


def eased(monkeypatch, limits: list[str], **row: Any) -> tuple[str, dict[str, float]] | None:
    """What is said of the limits that may be longer if requests take this long, and the eased limits.

    - row: 90th percentiles in seconds, and `rate`, the request rate of a server with a capacity of 10.
    """
    times = {"ttft": row.get("ttft", 0.5), "tpot": row.get("tpot", 0.02), "e2e": row.get("e2e", 9.0)}
    served = SimpleNamespace(
        queues=row.get("queues", False),
        row=SimpleNamespace(
            by_limit={name: SimpleNamespace(p90=time_s) for name, time_s in times.items()},
            request_rate=row.get("rate"),
            saturation_rate=10.0,
        ),
    )
    asked = []

    def best_on(question: AdviseQuery, layouts: list, excess: Any = None) -> SimpleNamespace:
        asked.append(question.latency_limits_ms)
        return served

    monkeypatch.setattr(eased_limit, "best_on", best_on)
    monkeypatch.setattr(eased_limit, "served_with_draft", lambda served: "servers")
    monkeypatch.setattr(eased_limit, "started", lambda text, question, served: text)
    stated = row.get("stated", {"slo": {"ttft": 1000, "tpot": 30}})
    question = AdviseQuery("qwen3-8b", "h100", gpus=2, clients=8, input_len=99, output_len=99, **stated)
    text = eased_limit.with_eased_limits(question, [], limits)
    return None if text is None else (text, asked[-1])


def test_the_binding_limit_is_eased_to_the_90th_percentile_with_two_digits(monkeypatch) -> None:
    said, limits_ms = eased(monkeypatch, ["ttft"], ttft=2.345)
    assert limits_ms == {"ttft": 2400, "tpot": 30}
    assert said == "With --slo tpot:30,ttft:2400 these GPUs serve all of it: servers"
    flags = {"stated": {"max_ttft_ms": 1000, "max_tpot_ms": 30}}
    assert eased(monkeypatch, ["ttft"], ttft=2.345, **flags)[0].startswith("With --max-ttft-ms 2400 these")


def test_an_eased_limit_of_slo_gets_no_flag_of_its_own(monkeypatch) -> None:
    """The limit of the whole answer (e2e) has none. The line that starts the servers shows all limits."""
    said = eased(monkeypatch, ["e2e"], e2e=12.0, stated={"slo": {"e2e": 9000, "tpot": 30}})[0]
    assert said == "With --slo tpot:30,e2e:12000 these GPUs serve all of it: servers"
    asked = []
    monkeypatch.setattr(eased_limit, "best_on", lambda question, *given: asked.append(question) or None)
    stated = {"slo": {"ttft": 1000}, "max_tpot_ms": 30}
    question = AdviseQuery("qwen3-8b", "h100", gpus=2, clients=8, input_len=99, output_len=99, **stated)
    eased_limit.with_eased_limits(question, [], ["ttft", "tpot"])
    assert [(each.slo, each.max_ttft_ms, each.max_tpot_ms) for each in asked] == [(None, None, None)]


def test_of_several_eased_limits_each_has_a_fifth_more_and_none_is_tightened(monkeypatch) -> None:
    """Otherwise, fewer than nine tenths of the requests would be within all of them."""
    assert eased(monkeypatch, ["ttft", "tpot"], ttft=2.0, tpot=0.04)[1] == {"ttft": 2400, "tpot": 48}
    assert eased(monkeypatch, ["ttft", "tpot"], ttft=2.0, tpot=0.01)[1] == {"ttft": 2400, "tpot": 30}


@pytest.mark.parametrize(
    ("row", "is_named"),
    [
        ({"ttft": 9.9}, True),
        ({"ttft": 10.1}, False),
        ({"ttft": 2.0, "rate": 8.9}, True),
        ({"ttft": 2.0, "rate": 9.1}, False),
        ({"ttft": 2.0, "queues": True}, True),
    ],
)
def test_a_limit_is_not_eased_tenfold_or_near_saturation(monkeypatch, row, is_named) -> None:
    assert (eased(monkeypatch, ["ttft"], **row) is not None) is is_named


def test_of_several_eased_limits_none_is_exceeded_tenfold(monkeypatch) -> None:
    assert eased(monkeypatch, ["ttft", "tpot"], ttft=9.9, tpot=0.04) is not None
    assert eased(monkeypatch, ["ttft", "tpot"], ttft=10.1, tpot=0.04) is None


@pytest.mark.parametrize(("queues", "is_named"), [(False, True), (True, False)])
def test_a_limit_on_tpot_alone_is_not_eased_for_servers_with_a_queue(monkeypatch, queues, is_named) -> None:
    """No limit then applies to the wait for a seat."""
    alone = {"tpot": 0.04, "queues": queues, "stated": {"slo": {"tpot": 30}}}
    assert (eased(monkeypatch, ["tpot"], **alone) is not None) is is_named


@pytest.mark.parametrize(("p90_s", "limit_ms"), [(1.0, 1300.0), (7.9, 9900.0), (8.1, None)])
def test_more_gpus_are_named_with_a_limit_a_quarter_above_the_time_of_one_request(
    monkeypatch, p90_s, limit_ms
) -> None:
    """But not with more than ten times the stated limit."""
    asked = []
    monkeypatch.setattr(eased_limit, "all_reaches", lambda question: [])
    monkeypatch.setattr(eased_limit, "fewest_gpus", lambda question, found: asked.append(question))
    row = SimpleNamespace(by_limit={"ttft": SimpleNamespace(p90=p90_s)})
    alone = SimpleNamespace(limit="ttft", served=SimpleNamespace(row=row))
    question = AdviseQuery("qwen3-8b", "h100", clients=8, input_len=99, output_len=99, slo="ttft:1000")
    assert eased_limit.fewest_with_eased_limit(question, alone) is None
    assert [each.latency_limits_ms["ttft"] for each in asked] == ([] if limit_ms is None else [limit_ms])


def test_rows_that_are_only_estimated_are_marked_and_are_not_the_choice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    load = ("--clients", "64", "--input-len", "1000", "--output-len", "300")
    asked = ("advise", "--model", "llama-3.3-70b", "--hardware", "4xh100", *load)
    picks = read(capsys, *asked)["layouts"]
    assert not picks[0]["estimated"]
    estimated = [pick for pick in picks if pick["estimated"]]
    text = run(capsys, *asked)
    assert bool(estimated) is ("~: not simulated" in text)
    assert estimated
    for pick in estimated:
        assert f" ~{pick['throughput_tokens_per_s_per_device']:.0f} " in text
