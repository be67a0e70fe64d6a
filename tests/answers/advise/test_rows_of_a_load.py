"""What `advise` reads from a row of `traffic`: queues, the limit that binds, and near ties. Made-up rows."""

from types import SimpleNamespace

import pytest

from perfmodel.answers.advice.eased_limit import _rounded_up
from perfmodel.answers.advice.load_reasons import _near_tie
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


@pytest.mark.parametrize(("time_ms", "rounded"), [(123.4, 130), (130.0, 130), (1001.0, 1100), (9.91, 10)])
def test_an_eased_limit_has_two_digits_and_is_not_below_the_time(time_ms: float, rounded: float) -> None:
    assert _rounded_up(time_ms) == rounded


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
