"""A load that the devices do not serve, or serve slowly, in the checkpoint's format: smaller formats."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from perfmodel.answers.advice import load_in_formats
from perfmodel.answers.advice.advise import advise
from tests.answers.advise.loads import alternative

LONG = {"input_len": 8192, "output_len": 1024}


@pytest.mark.slow
def test_an_fp8_cache_beside_fp8_weights_is_tried_where_neither_alone_suffices() -> None:
    asked = LONG | {"clients": 28, "slo": {"ttft": 3000, "tpot": 60}}
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


def test_smaller_weights_that_save_most_of_the_time_are_named_after_the_servers_asked_for() -> None:
    """Four A100 of 40 GB have room for 6 of 20 requests of Llama-3.3-70B, and in INT8 for all."""
    answer = advise("llama-3.3-70b", "4xa100-sxm-40gb", clients=20, input_len=2048, output_len=500)
    assert answer.chosen.ttft_s > 20
    assert answer.run_first is None
    assert alternative(answer, "With --weights int8 a request takes ").line


def test_smaller_weights_that_save_less_are_named_too() -> None:
    answer = advise("qwen3-32b", "2xl40s", clients=4, input_len=2048, output_len=500)
    saved = alternative(answer, "With --weights fp8 a request takes ").text
    with_them, without = map(float, re.search(r"takes (\S+) s instead of (\S+) s", saved).groups())
    assert 0.6 * without < with_them < 0.75 * without
    assert answer.run_first is None


def test_a_known_4_bit_checkpoint_that_is_much_faster_than_fp8_is_named_where_nothing_fits() -> None:
    answer = advise("qwen3-32b", "2xrtx-4090", context=16_384, batch=(1,), objective="latency")
    assert "serve Qwen/Qwen3-32B-AWQ " in alternative(answer, "With --model Qwen/Qwen3-32B-AWQ: ").line


def test_layouts_with_many_more_devices_than_the_choice_are_not_listed() -> None:
    load = {"request_rate": 5, "input_len": 1500, "output_len": 150, "slo": {"ttft": 800, "tpot": 60}}
    answer = advise("qwen2.5-7b", "l4", **load)
    assert answer.chosen.gpus < max(pick.gpus for pick in answer.layouts) <= 2 * answer.chosen.gpus


def test_smaller_weights_are_also_tried_on_servers_of_half_the_size() -> None:
    """Two RTX 4090 exchange messages slowly, and Qwen3-14B in FP8 fits on each."""
    answer = advise("qwen3-14b", "2xrtx-4090", clients=6, input_len=6144, output_len=700)
    assert answer.chosen.layout == "TP 2"
    named = alternative(answer, "With --weights fp8 a request takes ")
    assert ": 2 x TP 1, " in named.text
    assert named.servers == 2


def test_limits_are_not_lengthened_for_servers_with_a_queue() -> None:
    load = {"clients": 48, "input_len": 3072, "output_len": 600, "max_tpot_ms": 70}
    answer = advise("qwen2.5-72b", "4xa100", **load)
    assert ": TP 4, no draft, TTFT 9" in alternative(answer, "With --max-tpot-ms ").text  # in ms, not 177 s


def test_where_only_fp8_weights_fit_but_not_all_requests_the_cache_is_fp8_too() -> None:
    load = {"clients": 16, "input_len": 40_960, "output_len": 600}
    answer = advise("qwen3-coder-480b-a35b", "8xh100", **load)
    assert (
        "--max-num-seqs 16 " in alternative(answer, "With --weights fp8 --kv-dtype fp8 8 GPUs suffice: ").line
    )


def test_an_fp8_cache_that_saves_much_time_at_a_rate_is_named_without_a_limit() -> None:
    """The draft's range of batches counts a shared prefix once, as the seats do."""
    load = {"request_rate": 1, "input_len": 60_000, "output_len": 600, "prefix_len": 50_000}
    answer = advise("kimi-k2", "8xb200", engine="sglang", **load)
    smaller = alternative(answer, "With --kv-dtype fp8 a request takes ")
    with_it, without = map(float, re.search(r"takes (\S+) s instead of (\S+) s", smaller.text).groups())
    assert with_it < 0.5 * without
    assert "--kv-cache-dtype fp8_e4m3 " in smaller.line
    assert answer.on_off.looked_to >= answer.chosen.batch


def test_lengths_without_a_load_are_those_of_an_offline_job() -> None:
    """Its clients keep the GPUs full, and twice as many give the same tokens per second."""
    lengths = {"input_len": 1024, "output_len": 100}
    job = advise("qwen3-4b", "l40s", **lengths)
    assert job.query.clients == 1024
    assert any("offline job" in note for note in job.warnings)
    more = advise("qwen3-4b", "l40s", clients=2048, **lengths)
    assert more.chosen.all_servers_tokens_per_s == job.chosen.all_servers_tokens_per_s
    assert not any("offline job" in note for note in more.warnings)
    assert advise("qwen3-235b-a22b", "8xh100", weights="fp8", **lengths).query.clients == 8 * 1024


def in_formats(
    monkeypatch,
    loads: dict[str, float],
    serves: tuple[str, ...] = (),
    confirmed: dict[str, float] | None = None,
) -> list[str]:
    """What is named for a load of 10 if 5 of it is served in the format of the question.

    - loads: the largest load in each smaller format by the closed form.
    - serves: the formats with servers that a replay confirms for the whole load.
    - confirmed: the largest load in a format by replays, if it is another one.
    """
    found = [
        load_in_formats.FormatReach(flags, flags, [SimpleNamespace(load=load)], [])  # type: ignore[arg-type, list-item]
        for flags, load in loads.items()
    ]

    def nearest(question: str, *_: Any) -> SimpleNamespace | None:
        load = (confirmed or loads)[question]
        served = SimpleNamespace(candidate=SimpleNamespace(layout=None))
        said = SimpleNamespace(load_text=f"{load:g} of 10")
        return SimpleNamespace(load=load, nearest=said, question=question, served=served)

    replaced = {
        "_reaches": lambda question, layouts: found,
        "load_of": lambda question: 10.0,
        "best_on": lambda question, layouts: question if question in serves else None,
        "nearest_servers": nearest,
        "served_with_draft": lambda served: "servers",
        "started": lambda text, question, served: text,
        "_for_all": lambda *_: (),
    }
    for name, stand_in in replaced.items():
        monkeypatch.setattr(load_in_formats, name, stand_in)
    return list(load_in_formats.in_formats("asked", [], 5.0, [], 99.0))  # type: ignore[arg-type]


@pytest.mark.parametrize(("load", "is_tried"), [(9.2, True), (9.0, False)])
def test_a_format_that_nearly_serves_the_load_by_the_closed_form_is_replayed(
    monkeypatch, load, is_tried
) -> None:
    (text,) = in_formats(monkeypatch, {"--fp8": load}, serves=("--fp8",))
    assert text == (
        "With --fp8 these suffice: servers" if is_tried else "With --fp8 these serve about 9 of 10: servers"
    )


def test_of_formats_that_serve_the_load_the_first_is_named_that_a_replay_confirms(monkeypatch) -> None:
    loads = {"--fp8": 12.0, "--fp8 --kv fp8": 14.0, "--int4": 20.0}
    (text,) = in_formats(monkeypatch, loads, serves=("--fp8 --kv fp8", "--int4"))
    assert text == "With --fp8 --kv fp8 these suffice: servers"


@pytest.mark.parametrize(("load", "is_named"), [(5.6, True), (5.4, False)])
def test_a_format_that_serves_only_a_part_must_serve_a_tenth_more_than_before(
    monkeypatch, load, is_named
) -> None:
    named = in_formats(monkeypatch, {"--fp8": load})
    assert named == ([f"With --fp8 these serve about {load:g} of 10: servers"] if is_named else [])


@pytest.mark.parametrize(("load", "named"), [(7.6, "--fp8"), (7.4, "--int4")])
def test_the_most_precise_format_is_named_whose_load_is_less_than_a_fifth_below_the_largest(
    monkeypatch, load, named
) -> None:
    (text,) = in_formats(monkeypatch, {"--fp8": load, "--int4": 9.0})
    assert text.startswith(f"With {named} these serve about ")


def test_a_format_with_less_load_in_the_replay_gives_way_to_the_next(monkeypatch) -> None:
    (text,) = in_formats(monkeypatch, {"--fp8": 8.0, "--int4": 9.0}, confirmed={"--fp8": 5.2, "--int4": 8.8})
    assert text == "With --int4 these serve about 8.8 of 10: servers"
