"""A load that the devices do not serve, or serve slowly, in the checkpoint's format: smaller formats."""

from perfmodel.answers.advice.advise import advise
from tests.answers.advise.loads import alternative

LONG = {"input_len": 8192, "output_len": 1024}


def test_an_fp8_cache_beside_fp8_weights_is_tried_where_neither_alone_suffices() -> None:
    asked = LONG | {"clients": 24, "slo": {"ttft": 3000, "tpot": 60}}
    named = alternative(
        advise("llama-3.3-70b", "2xh100", **asked), "With --weights fp8 --kv-dtype fp8 these "
    )
    assert " these suffice: " in named.text
    assert "--kv-cache-dtype fp8 " in named.line
    assert advise("llama-3.3-70b", "2xh100", weights="fp8", kv_dtype="fp8", **asked).chosen is not None
    for alone in ({"weights": "fp8"}, {"kv_dtype": "fp8"}):
        assert advise("llama-3.3-70b", "2xh100", **asked, **alone).chosen is None


def test_in_a_format_that_serves_only_a_part_the_fewest_devices_are_named_too() -> None:
    asked = LONG | {"clients": 200, "slo": {"ttft": 3000, "tpot": 50}}
    answer = advise("qwen3-235b-a22b", "8xh100", **asked)
    smaller = "With --weights fp8 --kv-dtype fp8 "
    assert "serve about " in alternative(answer, f"{smaller}these ").text
    alternative(answer, "32 GPUs suffice: ")
    alternative(answer, f"{smaller}16 GPUs suffice: ")


def test_smaller_weights_that_save_most_of_the_time_are_to_be_run_first() -> None:
    """Four A100 of 40 GB have room for 6 of 20 requests of Llama-3.3-70B, and in FP8 for all."""
    answer = advise("llama-3.3-70b", "4xa100-sxm-40gb", clients=20, input_len=2048, output_len=500)
    assert answer.chosen.ttft_s > 20
    assert answer.run_first.startswith("Run the server with --weights fp8 first: a request takes ")


def test_a_known_4_bit_checkpoint_that_is_much_faster_than_fp8_is_named_where_nothing_fits() -> None:
    answer = advise("qwen3-32b", "2xrtx-4090", context=16_384, batch=(1,), objective="latency")
    assert "serve Qwen/Qwen3-32B-AWQ " in alternative(answer, "With --model Qwen/Qwen3-32B-AWQ: ").line


def test_layouts_with_many_more_devices_than_the_choice_are_not_listed() -> None:
    load = {"request_rate": 5, "input_len": 1500, "output_len": 150, "slo": {"ttft": 800, "tpot": 60}}
    answer = advise("qwen2.5-7b", "l4", **load)
    assert max(pick.gpus for pick in answer.layouts) <= 2 * answer.chosen.gpus
