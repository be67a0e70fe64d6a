"""`advise` on more devices than a box has: one pool of servers against a prefill and a decode pool."""

import shlex
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import perfmodel as pm
from perfmodel.answers.advice.pools.option import PoolAdvice, PoolOption
from perfmodel.errors import InputError
from tests.commands import read

ASKED: dict[str, Any] = {
    "model": "deepseek-v3",
    "hardware": "h200",
    "engine": "sglang",
    "gpus": 32,
    "request_rate": 7.0,
    "input_len": 4096,
    "output_len": 512,
    "draft": "mtp",
    "rate": ("mtp=0.7",),
    "slo": "ttft:3000,tpot:40",
}

BOX = 8
"""GPUs of one box, which has no two pools."""


@cache
def _advice(**changes: Any) -> PoolAdvice:
    pools = pm.advise(**ASKED | changes).pools
    assert pools is not None
    return pools


def best(two: bool, drafts: bool | None = None, **changes: Any) -> PoolOption:
    choice = _advice(**changes).best(two, drafts)
    assert choice is not None
    return choice


def pool_row(option: PoolOption, rate: float) -> Any:
    """The row of `traffic` for two pools at a rate."""
    question = {name: value for name, value in ASKED.items() if name not in ("gpus", "rate")}
    pools_asked = {"alpha": 0.7, "prefill": option.prefill, "decode": option.decode, "closed_form": True}
    answer = pm.traffic(**question | pools_asked | {"request_rate": rate, "gamma": option.gamma})
    assert answer.pools is not None
    return next(row for row in answer.pools.rows if row.gamma == option.gamma)


@pytest.mark.parametrize("drafts", [False, True])
def test_two_pools_have_the_figures_of_traffic(drafts: bool) -> None:
    option = best(True, drafts)
    row = pool_row(option, ASKED["request_rate"])
    for name in ("ttft_s", "ttft_p90_s", "tpot_s", "tpot_p90_s", "slo_share"):
        assert getattr(option, name) == pytest.approx(getattr(row, name), rel=1e-9)


def row_of_the_printed_command(option: PoolOption, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The row of the option's draft length in the answer to its command."""
    program, *words = shlex.split(option.check)
    assert program == "perfmodel"
    answer = read(capsys, *words)
    rows = answer["pools"]["rows"] if option.two else answer["rows"]
    return next(row for row in rows if row["gamma"] == option.gamma)


@pytest.mark.parametrize("two", [False, True])
def test_the_printed_command_answers_with_the_same_figures(
    two: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    option = best(two)
    row = row_of_the_printed_command(option, capsys)
    if two:
        assert row["tpot_s"] == pytest.approx(option.tpot_s, rel=1e-5)
        assert row["ttft_s"] == pytest.approx(option.ttft_s, rel=1e-5)
    else:
        assert row["tpot_s"]["mean"] == pytest.approx(option.tpot_s, rel=1e-5)
        assert row["ttft_s"]["p90"] == pytest.approx(option.ttft_p90_s, rel=1e-5)


def test_the_highest_rate_keeps_the_limits_and_a_higher_one_does_not() -> None:
    option = best(True, True)
    assert pool_row(option, option.most_requests_per_s * 0.999).slo_share >= 0.9
    beyond = pool_row(option, option.most_requests_per_s * 1.15)
    assert beyond.saturated or beyond.slo_share < 0.9


@pytest.mark.parametrize("prefill", [1, 2, 3])
def test_no_other_split_of_the_same_instances_serves_more(prefill: int) -> None:
    option = best(True, True)
    instances = [(text or "").partition("x")[2] for text in (option.prefill, option.decode)]
    fewer, more = instances
    other = replace(option, prefill=f"{prefill}x{fewer}", decode=f"{4 - prefill}x{more}")
    row = pool_row(other, 1.01 * option.most_requests_per_s)
    full = max(row.prefill_used, row.decode_used) > 0.89
    assert full or row.slo_share < 0.9


def test_one_pool_would_do_where_it_keeps_the_limits_at_the_rate() -> None:
    assert _advice().one_would_do
    assert "one pool suffices" in _advice().for_rate
    fast = _advice(request_rate=24.0)
    assert fast.serves
    assert not fast.one_would_do
    assert "two pools are needed" in fast.for_rate
    most = _advice(request_rate=400.0)
    assert not most.serves
    assert "do not suffice" in most.for_rate


@pytest.mark.slow
def test_the_fewest_devices_serve_the_rate_and_the_given_ones_at_least_as_many() -> None:
    for option in _advice().options:
        assert option.needed_gpus is not None
        assert option.needed_gpus <= ASKED["gpus"]
        assert option.most_requests_per_s >= ASKED["request_rate"]
        kind = (option.two, option.draft is not None)
        enough = best(*kind, gpus=option.needed_gpus)
        assert enough.most_requests_per_s >= ASKED["request_rate"]
        fewer_gpus = option.needed_gpus - BOX
        if fewer_gpus > BOX:
            assert best(*kind, gpus=fewer_gpus).most_requests_per_s < ASKED["request_rate"]


def test_twice_the_devices_serve_at_least_twice_as_much() -> None:
    for two in (False, True):
        assert best(two, gpus=64).most_requests_per_s >= 1.99 * best(two).most_requests_per_s


def test_a_device_without_links_has_one_pool_and_a_line_that_names_the_table() -> None:
    asked = {
        "model": "llama-3.1-8b",
        "hardware": "l4",
        "engine": "vllm",
        "gpus": 16,
        "draft": None,
        "rate": (),
    }
    advice = _advice(**asked, request_rate=2.0, slo=None)
    assert {option.two for option in advice.options} == {False}
    of_limits, note = advice.notes
    assert "0.9 of the capacity" in of_limits
    assert "hardware/links has no table of links between servers of l4-24gb" in note
    assert "\n" not in note


def test_one_device_is_not_plural() -> None:
    small = {"model": "llama-3.1-8b", "draft": None, "rate": (), "slo": None, "gpus": 16}
    assert "one pool of 1 GPU: 1x1" in _advice(**small, request_rate=2.0).for_rate


def test_the_fewest_servers_are_found_however_many_they_are() -> None:
    """The alternatives name those of one pool, where the given devices do not suffice."""
    answer = pm.advise(**ASKED | {"request_rate": 4000.0})
    one = next(each.text for each in answer.alternatives if " GPUs suffice: " in each.text)
    assert int(one.partition(" ")[0]) > 64 * ASKED["gpus"]
    for option in answer.pools.options:
        if not option.two:
            assert option.needed_gpus is None
            continue
        assert option.needed_gpus is not None
        assert option.needed_gpus > 64 * ASKED["gpus"]


def test_a_degree_of_the_draft_that_pools_do_not_have_is_said() -> None:
    (note,) = _advice(draft_tp=(8,)).notes
    assert "--draft-tp has no effect" in note


def test_requests_longer_than_the_models_positions_are_refused() -> None:
    with pytest.raises(InputError, match="input_len: must be at most the 163840 positions of deepseek-v3"):
        _advice(input_len=200_000)


def test_a_box_is_not_divided() -> None:
    assert pm.advise(**ASKED | {"gpus": 8}).pools is None


OF_CLIENTS: dict[str, Any] = {"request_rate": None, "clients": 300, "slo": "ttft:3000,tpot:50"}


@pytest.mark.parametrize("two", [False, True])
def test_clients_have_the_figures_of_the_printed_command(
    two: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    option = best(two, **OF_CLIENTS)
    assert option.serves
    row = row_of_the_printed_command(option, capsys)
    if two:
        assert row["request_rate"] == pytest.approx(option.most_requests_per_s, rel=1e-6)
        assert row["tpot_s"] == pytest.approx(option.tpot_s, rel=1e-6)
    else:
        assert row["tpot_s"]["mean"] == pytest.approx(option.tpot_s, rel=1e-6)
        share = option.most_requests_per_s / int((option.servers or "").partition("x")[0])
        assert row["requests_per_s"] == pytest.approx(share, rel=1e-6)


def test_no_other_split_serves_the_clients_faster_within_the_limits() -> None:
    """Splits of all devices into instances of the two chosen sizes."""
    option = best(True, True, **OF_CLIENTS)
    instances = [(text or "").partition("x")[2] for text in (option.prefill, option.decode)]
    reading, decoding = (int(text.partition(":")[0]) for text in instances)
    elsewhere = ("gpus", "rate", "request_rate")
    question = {name: value for name, value in ASKED.items() if name not in elsewhere}
    asked = {
        "alpha": 0.7,
        "max_concurrency": 300,
        "output_std": 0.05 * ASKED["output_len"],
        "slo": OF_CLIENTS["slo"],
        "closed_form": True,
    }
    splits = 0
    for prefill in range(1, ASKED["gpus"] // reading):
        decode = (ASKED["gpus"] - prefill * reading) // decoding
        if not decode:
            continue
        split = {"prefill": f"{prefill}x{instances[0]}", "decode": f"{decode}x{instances[1]}"}
        answer = pm.traffic(**question | asked | split | {"gamma": option.gamma}).pools
        assert answer is not None
        row = next(row for row in answer.rows if row.gamma == option.gamma)
        assert (row.slo_share or 0.0) < 0.9 or row.request_rate <= option.most_requests_per_s * (1 + 1e-9)
        splits += 1
    assert splits > 1


@pytest.mark.slow
def test_more_devices_serve_clients_no_slower_and_the_fewest_suffice() -> None:
    for two in (False, True):
        option = best(two, **OF_CLIENTS)
        more = best(two, **OF_CLIENTS, gpus=64)
        assert more.most_requests_per_s >= option.most_requests_per_s
        assert option.needed_gpus is not None
        assert option.needed_gpus <= ASKED["gpus"]
        if option.needed_gpus > BOX:
            assert best(two, **OF_CLIENTS, gpus=option.needed_gpus).serves


@pytest.mark.slow
@pytest.mark.parametrize("slo", ["tpot:50", "e2e:200000"])
def test_clients_need_no_more_devices_than_keep_the_limits(slo: str) -> None:
    """Limits that leave the time to the first token open let clients wait for it."""
    option = best(True, **OF_CLIENTS | {"clients": 2000, "slo": slo})
    assert option.serves
    assert option.needed_gpus is not None
    assert option.needed_gpus <= ASKED["gpus"]


@pytest.mark.slow
def test_clients_beyond_the_limits_have_no_option_and_without_limits_any_number_of_devices() -> None:
    many = _advice(**OF_CLIENTS | {"clients": 5000})
    assert not many.options
    assert "for 5000 clients" in many.sentence
    assert any(note.startswith("two pools with mtp meet the limits on ") for note in many.notes)
    assert any(note.startswith("one pool without a draft meets the limits on ") for note in many.notes)
    free = _advice(**OF_CLIENTS | {"slo": None})
    assert "any number of devices serves 300 clients" in free.for_rate
    assert {option.two for option in free.options} == {False, True}


@pytest.mark.parametrize(("gain", "chosen"), [(0.9, False), (1.01, False), (1.1, True)])
def test_two_pools_are_advised_only_where_they_serve_clearly_more(gain: float, chosen: bool) -> None:
    """A little more is not worth a second pool."""
    one = best(False)
    two = replace(best(True), most_requests_per_s=gain * one.most_requests_per_s)
    by_rate = sorted((one, two), key=lambda option: -option.most_requests_per_s)
    pools = replace(_advice(), options=tuple(by_rate))
    assert pools.chosen is not None
    assert pools.chosen.two is chosen
    assert pools.sentence.startswith("Two pools" if chosen else "One pool")
    assert ("takes less to run" in pools.sentence) is (gain == 1.01)


def test_an_answer_names_one_highest_rate_of_one_pool() -> None:
    """The table had that of the closed form, and the nearest servers that of replays."""
    load = {"request_rate": 2, "input_len": 6144, "output_len": 400, "slo": "ttft:3000,tpot:50"}
    answer = pm.advise("llama-3.3-70b", "16xa100", **load)
    one, near = answer.pools.best(two=False), answer.nearest
    assert one.servers == f"{near.pick.replicas}x{near.pick.tp}"
    assert (one.most_requests_per_s, one.gamma) == (near.request_rate, near.pick.gamma)
    assert f" --gamma {one.gamma} " in one.check
    assert answer.pools.best(two=False, drafts=False).most_requests_per_s == near.alone


def test_one_pool_with_attention_groups_has_the_rate_of_the_replays() -> None:
    load = {"request_rate": 40.0, "input_len": 4000, "output_len": 1000, "slo": "ttft:2000,tpot:50"}
    answer = pm.advise("kimi-k2", "h200", gpus=32, **load)
    assert answer.pools is not None
    assert answer.nearest is not None
    one = next(option for option in answer.pools.options if option.servers and option.gamma)
    assert one.servers == "2x16:dp2,ep16"
    assert one.most_requests_per_s == answer.nearest.request_rate
