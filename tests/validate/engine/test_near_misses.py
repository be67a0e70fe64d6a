"""Texts about a run that cannot be read: the refusal names what they lack."""

import pytest

from perfmodel.validate.engine.paste import recognised
from perfmodel.validate.engine.pastes import form_of
from perfmodel.validate.engine.text import plain
from perfmodel.validate.engine.unwrapped import unwrapped
from tests.refusals import refused


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("I only see a 1.2x speedup with MTP. Why?", "states a ratio without speeds"),
        ("Maximum request concurrency: 8\n 45%|### | 29/64", "is a benchmark without its result"),
        ("Median TTFT (ms): 55.0\nMean E2E Latency (ms): 3571.0", "without the TPOT"),
        ("torch.OutOfMemoryError: CUDA out of memory.", "is an error of the engine, without a speed"),
        ("INFO: Application startup complete.", "is the start of a server: send requests"),
        ("| NVIDIA-SMI 590.44 |", "is the state of the device, without a speed"),
        ("first 33 tok/s, second 52 tok/s", "states several speeds, but not which one has a draft"),
        (
            "At concurrency 1 TPOT is 17 ms without, 8 ms with EAGLE3. At concurrency 32, 21 ms vs 17 ms.",
            "states more than two times: write one line for each load",
        ),
        ("the weather", "holds no benchmark known here"),
    ],
)
def test_a_refused_text_names_what_it_lacks(text: str, says: str) -> None:
    refused(says, recognised, "-", plain(text))


def test_json_behind_a_command_is_read_and_a_log_with_some_json_stays() -> None:
    data = '[\n  {"n_prompt": 0, "n_gen": 128, "avg_ns": 1000000000}\n]'
    assert unwrapped(f"$ llama-bench -o json\n{data}\n") == data
    log = "a line of a log\n" * 20 + data
    assert unwrapped(log) == log


def test_a_line_of_a_draft_length_can_name_its_speed() -> None:
    text = "spec off: 71.2 tg tok/s\nmtp n=1: 80.4 tg tok/s (acc 0.86)\nmtp n=2: 84.0 tg tok/s (acc 0.79)\n"
    assert form_of(text).title == "lines of draft lengths and tokens per second or TPOT"
