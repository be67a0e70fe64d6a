"""The advice between pools, in words, from options that are given by hand."""

from typing import Any

import pytest

from perfmodel.answers.advice.pools.option import PoolAdvice, PoolOption


def option(rate: float, **more: Any) -> PoolOption:
    """One pool of 8 devices without a draft that serves the asked load, with these fields changed."""
    figures: dict[str, Any] = {
        "servers": "1x8",
        "prefill": None,
        "decode": None,
        "draft": None,
        "gamma": 0,
        "most_requests_per_s": rate,
        "most_requests_per_s_per_gpu": rate / 8,
        "ratio": None,
        "needed": None,
        "needed_gpus": None,
        "ttft_s": 0.5,
        "ttft_p90_s": 0.9,
        "tpot_s": 0.02,
        "tpot_p90_s": 0.03,
        "slo_share": 0.95,
        "check": "perfmodel traffic ...",
    }
    return PoolOption(**figures | more)


TWO: dict[str, Any] = {"servers": None, "prefill": "1x4", "decode": "2x2"}
DRAFTS: dict[str, Any] = {"draft": "mtp", "gamma": 3}
BEYOND: dict[str, Any] = {"ttft_s": None, "ttft_p90_s": None, "tpot_s": None, "tpot_p90_s": None}
CLIENTS: dict[str, Any] = {"request_rate": None, "clients": 64, "load": "64 clients"}


def advice(*options: PoolOption, **more: Any) -> PoolAdvice:
    """The advice on 8 devices for 8 requests per second, the best option first."""
    fields: dict[str, Any] = {
        "gpus": 8,
        "load": "8 requests/s",
        "request_rate": 8.0,
        "clients": None,
        "options": options,
        "one_would_do": False,
        "searched": 5,
        "notes": (),
    }
    return PoolAdvice(**fields | more)


@pytest.mark.parametrize(("rate", "two"), [(10.0, False), (10.2, False), (11.0, True)])
def test_two_pools_must_be_clearly_better(rate: float, two: bool) -> None:
    """Two per cent do not pay for running two pools."""
    chosen = advice(option(rate, **TWO), option(10.0)).chosen
    assert chosen is not None
    assert chosen.two is two


def test_the_only_kind_that_meets_the_limits_is_chosen() -> None:
    assert advice(option(3.0)).chosen == option(3.0)
    assert advice(option(3.0, **TWO)).chosen == option(3.0, **TWO)
    assert advice().chosen is None


def test_the_best_with_or_without_a_draft() -> None:
    drafting = option(12.0, **TWO, **DRAFTS)
    plain = option(11.0, **TWO)
    both = advice(drafting, plain)
    assert both.best(two=True) == drafting
    assert both.best(two=True, drafts=True) == drafting
    assert both.best(two=True, drafts=False) == plain
    assert both.best(two=False) is None


def test_the_sentence_compares_the_choice_with_the_other_kind() -> None:
    two = option(12.0, **TWO, **DRAFTS)
    assert advice(two, option(10.0)).sentence == (
        "Two pools of 8 GPUs serve the highest rate within the limits: 12 requests/s, prefill 1x4, "
        "decode 2x2, mtp, gamma 3; 1.20 times the rate of one pool (1x8, no draft)"
    )
    assert advice(option(12.0), option(10.0, **TWO)).sentence.startswith(
        "One pool of 8 GPUs serves the highest rate within the limits: 12 requests/s, 1x8, no draft; "
        "1.20 times"
    )


def test_the_sentence_says_that_two_pools_are_no_better() -> None:
    text = advice(option(10.1, **TWO), option(10.0)).sentence
    assert text.startswith("One pool of 8 GPUs serves as much as two pools and takes less to run: 10 req")


@pytest.mark.parametrize(("more", "none"), [({}, "two pools"), (TWO, "one pool")])
def test_the_sentence_says_which_kind_meets_no_limit(more: dict[str, Any], none: str) -> None:
    assert advice(option(10.0, **more)).sentence.endswith(f"; {none}: none")


def test_the_sentence_of_clients_is_about_their_load() -> None:
    assert "serves 64 clients fastest: " in advice(option(9.0), **CLIENTS).sentence
    assert advice(**CLIENTS).sentence == "No layout of 8 GPUs meets the limits for 64 clients"
    assert advice().sentence == "No layout of 8 GPUs meets the limits at any rate"


def test_what_a_rate_needs() -> None:
    one = option(10.0, needed="1x4", needed_gpus=4)
    two = option(9.0, **TWO, needed="1x1 + 1x1", needed_gpus=1)
    fewest = "; the fewest: one pool of 4 GPUs: 1x4; two pools of 1 GPU: 1x1 + 1x1"
    assert advice(one, two, one_would_do=True).for_rate == f"For 8 requests/s one pool suffices{fewest}"
    assert advice(one, two).for_rate == f"For 8 requests/s two pools are needed{fewest}"
    beyond = (option(7.0, **BEYOND), option(6.0, **TWO, **BEYOND))
    assert advice(*beyond).for_rate == "For 8 requests/s these 8 GPUs do not suffice within the limits"


def test_clients_without_limits_need_no_number_of_devices() -> None:
    text = advice(option(9.0, slo_share=None), **CLIENTS).for_rate
    assert text == "Without limits on latency, any number of devices serves 64 clients"
    assert advice(option(9.0), **CLIENTS, one_would_do=True).for_rate == "For 64 clients one pool suffices"
    free = advice(option(9.0, slo_share=None), one_would_do=True)
    assert free.for_rate == "For 8 requests/s one pool suffices"


def test_the_ratio_of_the_pools_with_and_without_a_draft() -> None:
    both = advice(option(9.0, **TWO, **DRAFTS, ratio=1.5), option(8.0, **TWO, ratio=0.75))
    assert (
        both.ratios
        == "Prefill GPUs per decode GPU within the limits: 0.75 with no draft, 1.50 with mtp, gamma 3"
    )
    assert advice(option(9.0, **TWO)).ratios is None
    assert advice(option(9.0)).ratios is None
