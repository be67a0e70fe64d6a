"""A GPU by what torch and its driver say of it."""

import os
from types import SimpleNamespace

import torch

from perfmodel.validate.harness.gpu_facts import describe_gpu
from tests.validate.programs import write_program

CUDA = torch.device("cuda", 1)
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
    assert describe_gpu(CUDA) == {
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
