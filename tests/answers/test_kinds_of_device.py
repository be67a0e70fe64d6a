"""Several kinds of device in one question: their order, and what is said of those that are not chosen."""

import pytest

from perfmodel.answers.advice.advise import advise
from perfmodel.errors import InputError


def test_kinds_of_device_are_ranked_by_price_where_one_is_given() -> None:
    kinds = "h100,h200,b200"
    by_price = advise("llama-3.1-70b", kinds, gpus=8, weights="fp8", price="2,100,100")
    assert by_price.by_hardware[0].hardware == by_price.chosen.hardware == "h100"
    costs = [p.cost_per_million_tokens or 0.0 for p in by_price.by_hardware]
    assert costs == sorted(costs)
    by_rate = advise("llama-3.1-70b", kinds, gpus=8, weights="fp8")
    assert by_rate.chosen.hardware == "b200"
    with pytest.raises(InputError, match="price: must be one price, or one for each of 3 kinds, given 2"):
        advise("llama-3.1-70b", kinds, gpus=8, price="2,3")


def test_the_choice_of_a_kind_says_how_sure_it_is_and_each_other_kind_has_its_line() -> None:
    answer = advise("llama-3.1-8b", "h100,h200,b200")
    close, sure = answer.over_kinds
    assert (close.hardware, sure.hardware) == ("h200", "h100")
    assert close.gain_interval[0] < 1.0 < close.gain < close.gain_interval[1]
    assert close.text.startswith("Too close to call: b200 gives ")
    assert f"chance above 1: {close.chance_better:.0%}".replace("%", " %") in close.text
    assert sure.gain_interval[0] > 1.0
    assert sure.text.startswith("b200 gives ")
    lines = {each.text.partition(" instead")[0]: each.line for each in answer.alternatives}
    for kind in ("h200", "h100"):
        own = advise("llama-3.1-8b", kind)
        assert lines[f"On {kind}"] == own.serve.lines["vllm"]


def test_a_kind_with_a_transferred_calibration_is_less_certain_than_a_measured_one() -> None:
    measured, transferred = (
        advise("qwen3-8b", f"{kind},l4", price="0.1,10", draft=[]).over_kinds[0].gain_interval
        for kind in ("h100", "mi300x")
    )
    assert transferred[1] / transferred[0] > measured[1] / measured[0]


def test_of_kinds_that_serve_a_load_equally_well_the_faster_one_is_chosen() -> None:
    load = {"request_rate": 8, "input_len": 4000, "output_len": 500, "gpus": 8}
    answer = advise("qwen3-32b", "h100,b200", **load)
    (over,) = answer.over_kinds
    assert answer.chosen.hardware == "b200"
    assert "b200 and h100 give the same tokens/s per GPU under this load" in over.text
    assert over.gain_interval is None


def test_a_kind_of_device_that_cannot_serve_is_named_with_its_reason() -> None:
    answer = advise("llama-3.1-70b", "1xl4,8xh100", batch=4)
    assert answer.chosen.hardware == "h100"
    assert any(note.startswith("on l4: nothing fits: a device would hold") for note in answer.warnings)
    load = {"request_rate": 2, "input_len": 500, "output_len": 200, "slo": "tpot:20", "draft": []}
    loaded = advise("llama-3.1-8b", "h100,1xl4", **load)
    (said,) = (note for note in loaded.warnings if note.startswith("on l4: "))
    assert "1 GPU does not serve 2 requests/s" in said


def test_the_larger_machine_is_named_with_its_line_where_it_gives_more_in_all() -> None:
    asked = {"weights": "fp8", "input_len": 1024, "output_len": 200}
    answer = advise("llama-3.1-8b", "1xb200,4xh100", **asked)
    assert answer.chosen.hardware == "b200"
    most = max(answer.by_hardware, key=lambda p: p.all_servers_tokens_per_s)
    (first, *_) = answer.alternatives
    assert first.text.startswith(f"4 x h100 ({most.layout}, ")
    totals = [f"{p.all_servers_tokens_per_s:,.0f}" for p in (most, answer.chosen)]
    assert "{} tokens/s in all instead of {}".format(*totals) in first.text
    assert first.servers == most.replicas
    assert "vllm serve" in first.line
    for other in ({"hardware": "4xb200,4xh100"}, {"hardware": "1xb200,4xh100", "price": "2,2"}):
        equal = advise("llama-3.1-8b", **asked, **other)
        assert not any("in all" in each.text for each in equal.alternatives)


def test_smaller_weights_are_named_once_where_several_kinds_of_device_are_compared() -> None:
    load = {"request_rate": 24, "input_len": 500, "output_len": 200}
    answer = advise("mistral-7b-v0.3", "l40s,a100", price="1,9", objective="cost", **load)
    named = [each.line for each in answer.alternatives if "--weights fp8" in each.text]
    assert answer.chosen.hardware == "l40s"
    assert len(named) == len(set(named)) == 1
