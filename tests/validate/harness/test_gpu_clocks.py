"""The clocks of a GPU while it is timed, by an `nvidia-smi` of the test."""

import os
import time
from pathlib import Path

import pytest
import torch

from perfmodel.validate.harness import gpu_clocks
from tests.validate.programs import write_program

CPU = torch.device("cpu")
CUDA = torch.device("cuda", 1)
CLOCK_LINES = "900, 2600, 50, 0x0000000000000021\\n800, 2619, 61, 0x0000000000000104\\n700, 26"
"""What a device says until it is cut off in a line."""


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The arguments of an `nvidia-smi` that prints its clocks and goes on; the file is there when it has."""
    arguments = tmp_path / "arguments"
    script = f'printf "{CLOCK_LINES}"; echo "$@" > "{arguments}.begun"; mv "{arguments}.begun" "{arguments}"'
    write_program(tmp_path, "nvidia-smi", f"{script}\nexec sleep 60")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return arguments


@pytest.mark.parametrize(("device", "index"), [(CUDA, "1"), (torch.device("cuda"), "0")])
def test_clocks_of_a_gpu(watch, device, index) -> None:
    """The lowest clocks and the highest temperature of all whole lines; idleness is no throttling."""
    with gpu_clocks.watched(device) as state:
        while not watch.exists():
            time.sleep(0.01)
        assert state == {}
    clocks = {"sm_mhz": 800, "mem_mhz": 2600, "temperature_c": 61, "throttle": "0x124"}
    assert state == {"clocks": clocks}
    assert watch.read_text().split()[-1] == index


def test_where_no_clocks_are_watched(tmp_path, watch, monkeypatch) -> None:
    """Of a CPU; and where `nvidia-smi` says nothing or is absent."""
    with gpu_clocks.watched(CPU) as state:
        pass
    assert state == {}
    assert watch.exists() is False
    for says_nothing in (True, False):
        write_program(tmp_path, "nvidia-smi", "exit 0")
        if not says_nothing:
            (tmp_path / "nvidia-smi").unlink()
            monkeypatch.setenv("PATH", str(tmp_path))
        with gpu_clocks.watched(CUDA) as state:
            pass
        assert state == {}
