"""The environment of a run by hand: a CPU by its files, a GPU by what it says, and its clocks."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from perfmodel.validate.harness import environment, gpu_clocks
from tests.validate.programs import write_program

CPU = torch.device("cpu")
CUDA = torch.device("cuda", 1)


def test_how_busy_a_machine_is(tmp_path) -> None:
    """Of 100 jiffies 30 + 10 were idle; time of guests is in that of users already."""
    stat = tmp_path / "stat"
    slept = list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        stat.write_text("cpu  40 30 40 430 60 70 70 80 99 99\ncpu0 2")

    assert environment.busy_share(0.0, stat) == 0
    stat.write_text("cpu  10 20 30 400 50 60 70 80 9 9\ncpu0 1")
    assert environment.busy_share(stat=stat, sleep=sleep) == pytest.approx(0.6)
    assert environment.busy_share(stat=stat, sleep=sleep) == 0
    assert slept == [0.5, 0.5]


@pytest.mark.parametrize(
    ("flags", "bf16"),
    [
        ("amx_bf16 amx_tile avx512_bf16", "amx"),
        ("amx_tile avx512_bf16", "avx512"),
        ("amx_bf16 avx2", "emulated"),
    ],
)
def test_a_cpu_by_its_files(tmp_path, flags, bf16) -> None:
    text = f"processor : 0\nmodel name\t: Some CPU\nflags\t\t: fpu {flags}\nmodel name\t: Another\n"
    assert environment.describe_cpu(tmp_path)["name"], "of a system without the file, by other means"
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(text)
    assert environment.describe_cpu(tmp_path) == {
        "kind": "cpu",
        "name": "Some CPU",
        "isa": [name for name in environment.ISA if name in flags.split()],
        "bf16": bf16,
        "last_level_cache_bytes": None,
    }


@pytest.mark.parametrize(
    ("sizes", "largest"),
    [
        (["48K"], 48 * 2**10),
        (["48K", "2M"], 2 * 2**20),
        (["2M", "4096K"], 4 * 2**20),
        (["2M", "odd"], 2 * 2**20),
    ],
)
def test_the_largest_cache_of_a_cpu(tmp_path, sizes, largest) -> None:
    for number, size in enumerate(sizes):
        folder = tmp_path / f"sys/devices/system/cpu/cpu0/cache/index{number}"
        folder.mkdir(parents=True)
        (folder / "size").write_text(f"{size}\n")
    assert environment.describe_cpu(tmp_path)["last_level_cache_bytes"] == largest


QUERY = "driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit,temperature.gpu,persistence_mode"


def test_a_gpu_by_what_it_says(monkeypatch, tmp_path) -> None:
    """What it is, and what its driver says; clocks and temperature are apart, because they drift."""
    properties = SimpleNamespace(
        name="H", major=9, minor=0, total_memory=5, multi_processor_count=132, L2_cache_size=7
    )
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 27))
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    asked = f"--query-gpu={QUERY} --format=csv,noheader -i 1"
    says = "570, 1980 MHz, 2619 MHz, 1990 MHz, 700 W, 31, Enabled"
    write_program(tmp_path, "nvidia-smi", f'[ "$*" = "{asked}" ] && echo "{says}"')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert environment.capture(CUDA)["device"] == {
        "kind": "cuda",
        "name": "H",
        "capability": "9.0",
        "memory_bytes": 5,
        "multiprocessors": 132,
        "last_level_cache_bytes": 7,
        "cuda": torch.version.cuda,
        "nccl": "2.27",
        "driver_version": "570",
        "clocks.max.sm": "1990 MHz",
        "power.limit": "700 W",
        "persistence_mode": "Enabled",
        "clocks": {"clocks.sm": "1980 MHz", "clocks.mem": "2619 MHz"},
        "temperature_c": "31",
    }


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
