"""Kernel tables distilled: constants that made a table come out again, and a file that can be read."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from perfmodel.cli import run
from perfmodel.errors import InputError
from perfmodel.specs.calibration import load_calibration
from perfmodel.specs.gpu import load_gpu
from perfmodel.validate.fit.tables import Tables, device_of

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
H100 = load_gpu("h100-sxm-80gb")
BW, F = H100.memory_bandwidth_bytes_per_s, H100.peak_flops("bf16")
START, SHARE, ATTENTION_START, ATTENTION_SHARE = 4e-6, 0.8, 1.2e-5, 0.85


def write(root: Path, family: str, name: str, columns: dict) -> None:
    path = root / "systems" / "data" / "h100_sxm" / family / "vllm" / "0.24.0" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("aic")
    (root / "aiconfigurator_core-9.9.dist-info").mkdir()
    tokens, widths = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096), (512, 1024, 4096, 8192, 12288)
    m, n, k = map(np.array, zip(*product(tokens, widths, widths), strict=True))
    m, n, k = (np.tile(part, 2) for part in (m, n, k))
    moved, flops = 2.0 * (n * k + 2 * m * n + m * k), 2.0 * m * n * k
    seconds = START + np.maximum(moved / BW, flops / F) / SHARE
    seconds[len(m) // 2 :] *= 1.3  # a slower kernel of the same call, which no engine would choose
    form = np.full(len(m), "bfloat16")
    write(root, "gemm", "gemm_perf", {"m": m, "n": n, "k": k, "gemm_dtype": form, "latency": seconds * 1e3})
    calls = product((1, 4, 16, 64, 256), (8, 16, 32), 2 ** np.arange(5, 17))
    batch, heads, step = map(np.array, zip(*calls, strict=True))
    kv_heads = heads // 4
    moved = batch * kv_heads * step * 2.0 * 128 * 2 + 4.0 * batch * heads * 128
    ones = np.ones(len(batch), int)
    write(root, "attention", "generation_attention_perf", {
        "batch_size": batch, "num_heads": heads, "num_key_value_heads": kv_heads, "head_dim": 128 * ones,
        "isl": 0 * ones, "step": step, "window_size": 0 * ones, "kv_cache_dtype": np.full(len(batch), "bfloat16"),
        "kernel_source": np.full(len(batch), "flash"),
        "latency": (ATTENTION_START + moved / BW / ATTENTION_SHARE) * 1e3,
    })  # fmt: skip
    return root


def test_the_command_writes_a_file_that_answers(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "mine.yaml"
    command = ["calibrations", "import", "aiconfigurator", str(tables), "--gpu", H100.name, "--engine", "vllm"]
    assert run([*command, "--out", str(out)]) == 0
    made = load_calibration(str(out))
    assert (made.gpu, made.stack) == (H100.name, "vllm")
    assert made.attention_fixed_s.value == pytest.approx(ATTENTION_START, rel=0.02)
    assert made.drafted_token_s.value > 0  # the engine's own constants are put onto the kernels
    assert run([*command, "--out", str(out)]) == 2
    assert "exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"--engine": "tgi"}, "no engine named 'tgi'"),
        ({"--version": "0.1"}, "--version: must be one of 0.24.0"),
        ({"--gpu": "b200-sxm-180gb"}, "no device of these tables named 'b200_sxm'"),
    ],
)
def test_bad_input_is_one_line(tables: Path, change: dict, words: str, capsys: pytest.CaptureFixture) -> None:
    given = {"--gpu": H100.name, "--engine": "vllm"} | change
    flags = [part for pair in given.items() for part in pair]
    assert run(["calibrations", "import", "aiconfigurator", str(tables), *flags]) == 2
    assert words in capsys.readouterr().err


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be the package aiconfigurator-core"):
        Tables.of(str(tmp_path), H100.name)
    assert device_of("rtx-4090-24gb") == "rtx_4090"
