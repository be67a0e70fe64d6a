"""Devices that an engine does not start on are refused, with those that it does start on."""

from functools import partial

import pytest

from perfmodel.answers.question.placement import check_engine
from perfmodel.errors import InputError
from tests.speculation.scenarios import scenario as llama

scenario = partial(llama, hardware="h100", context=4096, alpha=0.7)


def test_devices_that_an_engine_does_not_start_on_are_refused_with_those_it_does() -> None:
    """Qwen2.5-0.5B: 14 heads, 2 KV heads. DeepSeek-R1: experts 2048 wide in blocks of 128, so that 16 share
    one.
    """
    with pytest.raises(InputError, match=r"has 2 \(one of 1, 2, 14\), given 7"):
        scenario(model="qwen2.5-0.5b", tp=7)
    r1 = scenario(model="deepseek-r1", hardware="b200", tp=8)
    for tp, ep, fine in ((16, 1, True), (32, 1, False), (16, 2, True), (96, 4, False), (24, 1, False)):
        arguments = (r1.machine.calibration, r1.machine.gpu, r1.target, r1.precision, tp, ep, 1)
        if fine:
            check_engine(*arguments)
        else:
            with pytest.raises(InputError, match=f"{tp // ep} devices would divide a block; use --ep {tp}"):
                check_engine(*arguments)


@pytest.mark.parametrize(
    ("model", "tp", "part"),
    [("qwen3-4b", 8, "dense MLPs"), ("qwen3-next-80b-a3b", 8, "shared experts"), ("qwen3-8b", 8, None)],
)
def test_no_matrix_of_an_fp8_checkpoint_is_cut_inside_a_block(model: str, tp: int, part: str | None) -> None:
    """Widths 9728, 512 (whole experts do not help the shared one) and 12288 over 8 devices."""
    ep = tp if model == "qwen3-next-80b-a3b" else 1
    question = {"model": model, "weights": "fp8-block", "tp": tp, "ep": ep, "hardware": "h200"}
    if part is None:
        scenario(**question)
        return
    with pytest.raises(InputError, match=f"{part} of {model} are .* would divide a block"):
        scenario(**question)
