"""What ``traffic`` refuses as too much work, and what it says beside its rows."""

import pytest

import perfmodel as pm
from tests.answers.traffic.questions import ASK
from tests.refusals import refused


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"max_concurrency": "1..10001"}, "max_concurrency: must be at most 1000 values, given 10001"),
        (
            {"max_concurrency": "1..600", "num_prompts": 100_000},
            "num_prompts: must be at most 47619 for 599 loads and draft lengths",
        ),
        (
            {"request_rate": list(range(1, 51)), "gamma": "table", "alpha": 0.7, "replay": True}
            | {"num_prompts": 100_000},
            "num_prompts: must be at most 15151 for 100 loads and draft lengths",
        ),
        ({"max_concurrency": 8, "replay": True, "closed_form": True}, "closed_form: must be left out"),
    ],
)
def test_more_than_seconds_of_work_is_refused(more, message) -> None:
    ask = {"input_len": 1000, "output_len": 200, "gamma": 0} | more
    refused(message, pm.traffic, "llama-3.1-8b", "h100", **ask)


@pytest.mark.parametrize(
    ("alpha", "std", "count"), [(0.99, 0.2, 1), (0.99, None, 0), (0.6, 0.2, 0), (0, 0.2, 0)]
)
def test_a_spread_that_no_acceptance_has_is_said(alpha, std, count) -> None:
    ask = ASK | {"model": "llama-3.1-8b", "request_rate": 1, "gamma": 3, "acceptance_std": std}
    notes = [note for note in pm.traffic(**ask, alpha=alpha).warnings if "cannot differ" in note]
    assert notes == ["requests cannot differ by 0.2 around an acceptance of 0.99: 0.018 is used"] * count


def test_prompts_through_host_memory_come_with_the_switch_that_helps() -> None:
    load = {"input_len": 8192, "output_len": 100, "max_concurrency": 1, "gamma": 0, "weights": "fp8"}
    notes = {
        hardware: [w for w in pm.traffic("qwen3-32b", hardware, tp=2, **load).warnings if "NCCL_SHM" in w]
        for hardware in ("rtx-5090", "rtx-pro-6000", "h100")
    }
    assert [len(each) for each in notes.values()] == [1, 0, 0]
    assert notes["rtx-5090"][0].startswith("2 x rtx-5090-32gb: long prompts wait")
    warnings = pm.traffic("qwen3-32b", "rtx-5090", tp=2, **load).warnings
    assert any(
        "host memory are assumed to run at 1.9 GB/s, from one measurement (RTX 5070 Ti" in each
        for each in warnings
    )
