"""All-reduces of made-up tables come out with the fastest time of each size."""

from typing import Any

import pytest

from tests.validate.fit.kernel_tables.made_up import Rows, Table, distilled


def test_an_all_reduce_takes_the_fastest_kernel_of_any_engine_at_each_knot() -> None:
    """Sizes are in values of 16 or 8 bits; a knot between two sizes is met on doubly logarithmic paper, and
    times never fall.
    """

    def row(
        devices: int,
        values: int,
        seconds: float,
        op: str = "all_reduce",
        source: str = "graph",
        form: str = "half",
    ) -> dict[str, Any]:
        return {
            "op_name": op,
            "num_gpus": devices,
            "message_size": values,
            "seconds": seconds,
            "kernel_source": source,
            "nccl_dtype": form,
        }

    custom = [
        row(2, 8192, 5e-6),
        row(2, 32768, 9e-6),
        row(2, 131072, 8e-6),
        row(2, 32768, 1e-9, source="eager"),
    ]
    nccl = [row(2, 8192, 7e-6), row(2, 32768, 6e-6), row(2, 2097152, 128e-6), row(4, 8192, 1e-5)]
    nccl.append(row(2, 32768, 1e-9, op="all_gather"))
    nccl.append(row(2, 131072, 6e-6, form="int8"))  # 128 KiB, and not the fastest time of 256 KiB
    for one in nccl:
        del one["kernel_source"]
    for one in custom:
        del one["nccl_dtype"]
    tables: dict[Table, Rows] = {
        ("comm", "vllm", "2", "custom_allreduce_perf"): custom,
        ("comm", "vllm", "1", "custom_allreduce_perf"): [row(2, 8192, 4.5e-6)],
        ("comm", "nccl", "1", "nccl_perf"): nccl,
    }
    fastest = distilled(tables).allreduce
    sizes, seconds = zip(*fastest[2], strict=True)
    assert sizes == (16384, 65536, 262144, 1048576, 4194304)
    # 1048576 lies between 262144 (8 us) and 4194304 bytes (128 us), halfway on paper: the geometric mean
    first_of_an_older_version = 4.5e-6
    expected = (first_of_an_older_version, 6e-6, 8e-6, 32e-6, 128e-6)
    assert seconds == pytest.approx(expected, rel=1e-9)
    assert fastest[4] == [(16384.0, pytest.approx(1e-5))]
    falling = [row(2, 8192, 9e-6), row(2, 32768, 5e-6)]
    table = ("comm", "vllm", "2", "custom_allreduce_perf")
    (*_, after) = distilled({table: falling}).allreduce[2]
    assert after == (65536.0, pytest.approx(9e-6))
