"""macOS limits the memory of the GPU; an answer that needs more has the command that raises the limit."""

import re
from typing import Any

import pytest

import perfmodel as pm
from perfmodel.specs import load_gpu
from tests.commands import run

MAC: dict[str, Any] = {"model": "llama-3.1-70b", "weights": "q4_k_m", "batch": 1, "context": 4096, "gamma": 0}
COMMAND = re.compile(r"^sudo sysctl iogpu\.wired_limit_mb=(\d+)$", re.MULTILINE)


def test_a_model_above_the_default_limit_gets_the_command_with_the_amount_it_needs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of 48 GiB macOS gives three quarters by default: 38.7 GB."""
    answer = pm.whatif(**MAC, hardware="m4-max:48gb")
    (warning,) = (text for text in answer.warnings if "sysctl" in text)
    assert warning.startswith(
        "by default, macOS lets the GPU use 38.7 GB; this would fit with a higher limit"
    )
    (limit_mib,) = COMMAND.findall(warning)
    used = answer.memory.weight_bytes + answer.memory.kv_bytes
    default_bytes = load_gpu("m4-max:48gb").memory_bytes
    needed_bytes = default_bytes + used - answer.memory.available_bytes
    assert needed_bytes <= int(limit_mib) * 2**20 < needed_bytes + 2**20
    question = "whatif -m llama-3.1-70b --weights q4_k_m -b 1 -c 4096 --gamma 0 --hardware m4-max:48gb"
    assert COMMAND.search(run(capsys, *question.split())), "in one line, to copy"


def test_an_advice_of_nothing_gets_it_too() -> None:
    answer = pm.advise("llama-3.1-70b", "m4-max:48gb", weights="q4_k_m", context=4096, batch=1)
    assert answer.verdict == "infeasible"
    assert sum("sysctl" in text for text in answer.warnings) == 1


def test_two_macs_have_twice_the_memory_of_one_and_not_the_share_of_a_larger_mac() -> None:
    one, two = (pm.whatif(**MAC, hardware="m4:24gb", layer_split=split) for split in (1, 2))
    assert two.memory.available_bytes == pytest.approx(2 * one.memory.available_bytes)
    assert two.query.hardware == one.query.hardware, "the name of one device, to ask again"
    assert "sysctl" not in "".join(two.warnings), "each Mac has a limit of its own"


@pytest.mark.parametrize(
    ("hardware", "why"),
    [
        ("m4-max:64gb", "it fits with the default limit"),
        ("m4-max:36gb", "no limit is enough"),
        ("m4-max:45gb", "macOS itself would keep less than 4 GiB"),
        ("rtx-4090", "no Mac"),
    ],
)
def test_no_command_where_it_does_not_help(hardware: str, why: str) -> None:
    assert "sysctl" not in "".join(pm.whatif(**MAC, hardware=hardware).warnings), why


@pytest.mark.parametrize("name", ["h100-sxm-80gb", "m4-max:48gb"])
def test_a_gpu_that_reports_its_own_limit_has_no_default_one(name: str) -> None:
    """Although more memory is left than macOS keeps for itself."""
    gpu = load_gpu(name)
    reported = gpu.stated_memory.replace(value=20, unit="GB")
    assert gpu.replace(reported_memory=reported).raised_limit_mib(1.0) is None
