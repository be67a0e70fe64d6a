"""Where kernel tables are found, in which order their versions come, and the command that distils them."""

import io
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from perfmodel.cli import run
from perfmodel.specs import load_calibration
from perfmodel.validate.fit.tables import Tables, folder_of, release_order, where
from tests.refusals import refused
from tests.validate.fit.kernel_tables.made_up import BF16, H100, attention_rows

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
PLACE = "aiconfigurator/systems/data/h100_sxm"


def parquet(columns: dict[str, list[object]]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


@pytest.fixture
def given(tmp_path: Path) -> str:
    """Two versions of one table, one of another and of another device, and files that are none."""
    names = [f"{PLACE}/gemm/vllm/{v}/gemm_perf.parquet" for v in ("0.9.1", "0.10.0", "0.10.0rc2")]
    names += [f"{PLACE}/moe/vllm/0.9.1/moe_perf.parquet", f"{PLACE}/gemm/sglang/0.5/gemm_perf.parquet"]
    names += [f"{PLACE}/read.txt", "elsewhere/x.parquet", "aiconfigurator_core-1.2.3.dist-info/METADATA"]
    names += ["aiconfigurator/systems/data/l40s/gemm/vllm/9.9/gemm_perf.parquet"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(parquet({"m": [1, 2], "latency": [2.0, 5.0]}))
    return str(tmp_path)


def test_tables_of_one_device(given) -> None:
    tables = Tables.of(given, "h100-sxm-80gb")
    assert tables.package == "aiconfigurator-core 1.2.3"
    assert len(tables.files) == 5
    assert tables.versions("gemm", "vllm", "gemm_perf") == ["0.9.1", "0.10.0rc2", "0.10.0"]
    assert tables.versions("moe", "vllm", "moe_perf") == ["0.9.1"]
    assert tables.versions("moe", "vllm", "gemm_perf") == []
    assert tables.versions("moe", "sglang", "moe_perf") == []
    table = tables.read("gemm", "sglang", "0.5", "gemm_perf")
    assert {name: values.tolist() for name, values in table.items()} == {
        "m": [1, 2],
        "seconds": [0.002, 0.005],
    }
    assert where(table, np.array([False, True]))["m"].tolist() == [2]
    refused("no device of these tables named 'b200_sxm'", Tables.of, given, "b200-sxm-180gb")


@pytest.mark.parametrize(
    ("wanted", "used"), [("0.10.0rc2", "0.10.0rc2"), ("9.9", "0.10.0"), (None, "0.10.0")]
)
def test_a_version_without_a_table_has_that_of_the_newest(given, wanted, used) -> None:
    """A table of version 9.9 belongs to another device."""
    found = Tables.of(given, "h100-sxm-80gb").read_version("gemm", "vllm", wanted, "gemm_perf")
    assert found.version == used


def test_release_candidates_come_before_the_release() -> None:
    versions = ["1.3.0", "1.3.0rc20", "1.3.0rc9", "1.2.9", "1.3.0.post1", "1.10.0rc1"]
    assert sorted(versions, key=release_order)[:3] == ["1.2.9", "1.3.0rc9", "1.3.0rc20"]
    assert sorted(versions, key=release_order)[-1] == "1.10.0rc1"
    assert release_order("1.3rc9") == [1, 3, 9]
    assert release_order("0.20.0") == [0, 20, 0, np.inf]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with GEMMs and attention of one engine."""
    root = tmp_path_factory.mktemp("aic")
    attention = attention_rows("bfloat16", 2.0, 8e-6, 0.75)
    for family, name, rows in (
        ("gemm", "gemm_perf", BF16),
        ("attention", "generation_attention_perf", attention),
    ):
        path = root / f"systems/data/h100_sxm/{family}/vllm/0.24.0/{name}.parquet"
        path.parent.mkdir(parents=True)
        columns = {column: [row[column] for row in rows] for column in rows[0]}
        columns["latency"] = [1e3 * seconds for seconds in columns.pop("seconds")]
        pq.write_table(pa.table(columns), path)
    return root


def test_the_command_writes_a_file_that_answers(tables, tmp_path, capsys) -> None:
    out = tmp_path / "mine.yaml"
    command = f"calibrations import aiconfigurator {tables} --gpu {H100.name} --engine vllm".split()
    assert run([*command, "--out", str(out)]) == 0
    calibration = load_calibration(str(out))
    assert calibration.gpu == H100.name
    assert calibration.stack == "vllm"
    assert calibration.attention_fixed_s.value == pytest.approx(8e-6, rel=1e-3)
    assert calibration.drafted_token_s.value > 0  # the engine's own constants are put onto the kernels
    assert run([*command, "--out", str(out)]) == 2
    assert "exists" in capsys.readouterr().err


def test_times_that_no_roofline_follows_are_one_line(tables, tmp_path, capsys) -> None:
    shutil.copytree(tables, tmp_path / "x")
    path = next(tmp_path.rglob("gemm_perf.parquet"))
    rows = pq.read_table(path).to_pydict()
    pq.write_table(pa.table(rows | {"m": [0] * len(rows["m"])}), path)
    refused_import(tmp_path / "x", "must hold times that a roofline can be fitted to", capsys)


def columns(**changed: list[object]) -> bytes:
    """The table of GEMMs with some columns changed."""
    rows: dict[str, list[object]] = {name: [16, 16] for name in ("m", "n", "k")}
    return parquet(rows | {"gemm_dtype": ["float16", "float16"], "latency": [2.0, 5.0]} | changed)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (b"PAR1 none", "must be a Parquet table"),
        (b"", "must be a Parquet table"),
        (columns()[:-20], "must be a Parquet table"),
        (columns(m=[1.0, float("nan")]), "m: must be a column of numbers from 0 to 1e+12 without gaps"),
        (columns(m=["a", "b"]), "m: must be a column of numbers from 0 to 1e+12"),
        (columns(m=[None, 5]), "m: must be a column of numbers from 0 to 1e+12"),
        (columns(m=[-1, 5]), "m: must be a column of numbers from 0 to 1e+12"),
        (columns(gemm_dtype=[1, 2]), "gemm_dtype: must be a column of words"),
        (columns(gemm_dtype=["x" * 10_000, "y"]), "gemm_dtype: must be a column of words"),
        (columns(latency=[0.0, 1.0]), "latency: must be above 0"),
        (columns(), "must hold h100_sxm/attention/vllm/VERSION/generation_attention_perf.parquet"),
        (columns(latency=["1", "2"]), "latency: must be a column of numbers"),
        (bytes(2**26 + 1), "gemm_perf.parquet: must be at most 67108864 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_that_is_none_is_one_line(table: bytes, says: str, tmp_path: Path, capsys) -> None:
    place_in(tmp_path).write_bytes(table)
    refused_import(tmp_path, says, capsys)


@pytest.mark.parametrize(
    ("count", "text", "says"),
    [(10**6 + 1, "bfloat16", "1000001 rows of"), (1, "x" * 2**26, "1 rows of 6")],
    ids=["rows", "bytes"],
)
def test_a_table_that_is_too_large_when_unpacked_is_one_line(count, text, says, tmp_path, capsys) -> None:
    """The file itself is small."""
    path = place_in(tmp_path)
    table = pa.table(
        {"latency": np.ones(count), "gemm_dtype": pa.array([text]).take(pa.array(np.zeros(count, int)))}
    )
    pq.write_table(table, path, compression="zstd", write_statistics=False)
    assert path.stat().st_size < 2**20
    refused_import(tmp_path, f"must be a Parquet table: {says}", capsys)


def test_a_folder_without_tables_and_a_wheel_are_one_line(tmp_path: Path, capsys) -> None:
    (tmp_path / "x.whl").write_bytes(b"PK")
    for path in (tmp_path, tmp_path / "x.whl"):
        refused_import(path, "must be a folder with the package aiconfigurator-core; `python -m", capsys)


def test_a_pipe_in_the_place_of_a_table_is_not_waited_for(tmp_path: Path, capsys) -> None:
    os.mkfifo(place_in(tmp_path))
    refused_import(tmp_path, "must be a readable file", capsys)


def place_in(folder: Path) -> Path:
    """Where the table of GEMMs is."""
    path = folder / PLACE / "gemm/vllm/0.9.1/gemm_perf.parquet"
    path.parent.mkdir(parents=True)
    return path


def refused_import(path: Path, says: str, capsys) -> None:
    ask = f"calibrations import aiconfigurator {path} --gpu h100-sxm-80gb --engine vllm"
    assert run(ask.split()) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert says in error


def test_the_folder_of_a_device_may_complete_or_shorten_its_name() -> None:
    folders = ["b60", "h100_sxm", "l40s", "rtx_pro_6000_server"]
    assert folder_of("h100-sxm-80gb", folders) == "h100_sxm"
    assert folder_of("rtx-pro-6000-96gb", folders) == "rtx_pro_6000_server"
    assert folder_of("arc-pro-b60-24gb", folders) == "b60"
    refused("no device of these tables named 'l40'", folder_of, "l40-48gb", folders)
