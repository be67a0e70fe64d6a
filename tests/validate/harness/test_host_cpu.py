"""The host's CPU, by the files of a system."""

import pytest

from perfmodel.validate.harness import host_cpu


def test_how_busy_a_machine_is(tmp_path) -> None:
    """Of 100 jiffies 30 + 10 were idle; time of guests is in that of users already."""
    stat = tmp_path / "stat"
    slept = list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        stat.write_text("cpu  40 30 40 430 60 70 70 80 99 99\ncpu0 2")

    assert host_cpu.busy_share(0.0, stat) == 0
    stat.write_text("cpu  10 20 30 400 50 60 70 80 9 9\ncpu0 1")
    assert host_cpu.busy_share(stat=stat, sleep=sleep) == pytest.approx(0.6)
    assert host_cpu.busy_share(stat=stat, sleep=sleep) == 0
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
    assert host_cpu.describe_cpu(tmp_path)["name"], "of a system without the file, by other means"
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(text)
    assert host_cpu.describe_cpu(tmp_path) == {
        "kind": "cpu",
        "name": "Some CPU",
        "isa": [name for name in host_cpu.ISA if name in flags.split()],
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
    assert host_cpu.describe_cpu(tmp_path)["last_level_cache_bytes"] == largest
