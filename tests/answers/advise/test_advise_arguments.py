"""Arguments of `advise` that only mean something together, and what follows from them.

Limits of single arguments are in `tests/answers/test_answers_refuse.py`.
"""

from typing import Any

import pytest

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.errors import InputError

ASKED = {"model": "llama-3.1-8b", "hardware": "h100"}
LENGTHS = {"input_len": 1000, "output_len": 200}


def question(**changes: Any) -> AdviseQuery:
    return AdviseQuery(**ASKED | changes)


def refusal(**changes: Any) -> str:
    """Why a question is refused."""
    with pytest.raises(InputError) as refused:
        question(**changes)
    return str(refused.value)


@pytest.mark.parametrize("hardware", ["8xh100", "8 X h100"])
def test_a_number_before_the_device_is_the_number_of_devices(hardware: str) -> None:
    asked = question(hardware=hardware)
    assert (asked.gpus, asked.hardware) == (8, "h100")
    assert refusal(hardware="8xh100", gpus=4) == "gpus: must be left out with a number of devices in hardware"


def test_each_of_several_kinds_states_its_own_number() -> None:
    both = question(hardware="8xh100,2xh200", clients=16, **LENGTHS)
    assert both.gpus is None
    assert [(kind.gpus, kind.hardware) for kind in both.by_kind] == [(8, "h100"), (2, "h200")]


def test_one_kind_may_state_its_number_and_the_next_none() -> None:
    """Clients of the other kind get one server."""
    mixed = question(hardware="h100,2xh200", clients=16, **LENGTHS)
    assert [(kind.gpus, kind.hardware) for kind in mixed.by_kind] == [(1, "h100"), (2, "h200")]


@pytest.mark.parametrize(
    ("degrees", "devices"), [({}, 1), ({"tp": (2, 4)}, 4), ({"dp": 8}, 8), ({"tp": 2, "layer_split": 2}, 4)]
)
def test_clients_without_a_limit_get_one_server(degrees: dict[str, Any], devices: int) -> None:
    assert question(clients=16, **LENGTHS, **degrees).gpus == devices


@pytest.mark.parametrize("limit", [{"slo": "tpot:30"}, {"max_ttft_ms": 2000}, {"max_tpot_ms": 30}])
def test_a_limit_of_clients_leaves_the_number_of_devices_open(limit: dict[str, Any]) -> None:
    assert question(clients=16, **LENGTHS, **limit).gpus is None


def test_a_rate_leaves_the_number_of_devices_open() -> None:
    assert question(request_rate=5, **LENGTHS).gpus is None


def test_a_cost_needs_a_price() -> None:
    assert refusal(objective="cost") == "objective cost: needs price, in dollars per device-hour"
    assert question(objective="cost", price=2).dollars == 2


def test_prices_are_one_or_one_for_each_kind() -> None:
    said = refusal(hardware="h100,h200", price=(2, 3, 4))
    assert said == "price: must be one price, or one for each of 2 kinds, given 3"
    one = question(hardware="h100,h200", price=2)
    two = question(hardware="h100,h200", price=(2, 3))
    free = question(hardware="h100,h200")
    assert [kind.dollars for kind in one.by_kind] == [2, 2]
    assert [kind.dollars for kind in two.by_kind] == [2, 3]
    assert [kind.dollars for kind in free.by_kind] == [None, None]


@pytest.mark.parametrize("load", [{"request_rate": 5}, {"clients": 16}])
def test_a_load_needs_both_lengths(load: dict[str, Any]) -> None:
    assert refusal(**load, input_len=1000) == "request_rate, clients: need input_len and output_len"
    assert refusal(**load, output_len=100) == "request_rate, clients: need input_len and output_len"


def test_a_prefix_is_a_part_of_the_prompts_of_a_load() -> None:
    alone = refusal(prefix_len=100)
    assert alone == "prefix_len: needs request_rate or clients, whose prompts it shortens"
    longer = refusal(request_rate=5, prefix_len=1001, **LENGTHS)
    assert longer == "prefix_len: must be at most input_len 1000, given 1001"
    assert question(request_rate=5, prefix_len=1000, **LENGTHS).prefix_len == 1000


def test_layers_are_split_over_a_divisor_of_the_devices() -> None:
    assert refusal(gpus=8, layer_split=3) == "layer_split: must be a divisor of gpus 8, given 3"
    assert question(gpus=9, layer_split=3).layer_split == 3


@pytest.mark.parametrize("rates", [{"rate": {"eagle": 0.7}}, {"tree_rate": {"eagle": (0.7, 0.1)}}])
def test_methods_of_the_cache_belong_to_a_draft_where_rates_name_others(rates: dict[str, Any]) -> None:
    said = refusal(draft_kv="quest:1k", **rates)
    assert said == "draft_kv: needs draft; a rate names its method, as in rate self@quest:1k=0.8"
    assert question(draft_kv="quest:1k", draft="self", rate={"eagle": 0.7}).draft == ("self",)
    assert question(draft_kv="quest:1k").draft is None
