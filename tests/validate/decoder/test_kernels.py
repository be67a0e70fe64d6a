"""Triton's kernels equal plain torch, and none spills: all without a device."""

import os
import re
import subprocess
import sys

import pytest

from tests.sampled import first_fast
from tests.scripts import ROOT

pytest.importorskip("triton")

CHECKS = ("copying", "attention", "pointwise", "eight", "product", "selection", "decoding")


@pytest.mark.parametrize("check", first_fast([(check,) for check in CHECKS]))
def test_kernels_equal_plain_torch(check: str) -> None:
    """On a CPU, through Triton's interpreter."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.validate.decoder.interpreted", check],
        cwd=ROOT,
        env=os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.endswith("ok\n"), done.stderr[-2000:]


COMPILED = """
import sys
sys.path[:0] = [{root!r}, {root!r} + "/benchmarks"]
import kernels
from perfmodel.validate.decoder.kernels.split_kv import _split
from perfmodel.validate.decoder.triton_product import _few_rows
for case in kernels.cases():
    for capability, most in kernels.SHARED_BYTES.items():
        made = kernels.compiled(case, capability)
        assert made.spill_bytes == 0, (case, capability, made.spill_bytes)
        assert made.shared_bytes <= most, (case, capability, made.shared_bytes)
        ahead = case.kernel not in (_split, _few_rows) or "cp.async.cg" in made.ptx
        assert ahead, "what is read once is not read ahead"
        eight = case.kernel is not _few_rows or "f32.e4m3.e4m3" in made.ptx
        assert eight, "fp8 is widened"
print(kernels.table(), end="")
"""
EIGHT = """
eight = {{"_split": ["k_at", "v_at"], "_token_scores": ["k_at"], "_rotate": ["cache_k_at", "cache_v_at"]}}
eight["_copy_tokens"] = ["from_at", "into_at"]
for case in kernels.cases():
    cached = eight.get(case.kernel.__name__)
    if cached:
        kernels.PARTIAL[case.kernel.__name__] = {{"out_at": "*fp32"}} | dict.fromkeys(cached, "*fp8e4nv")
        sizes = case.sizes | {{"ROUNDED": True}} if "ROUNDED" in case.sizes else case.sizes
        made = kernels.compiled(kernels.Case(case.kernel, "", sizes, case.warps, case.stages), 90)
        assert made.spill_bytes == 0, (case, made.spill_bytes)
"""


@pytest.mark.slow
def test_kernels_compile_for_ampere_and_hopper() -> None:
    """They keep to registers, fit in shared memory, read ahead; the committed report is what comes out."""
    import triton

    code = (COMPILED + EIGHT).format(root=str(ROOT))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    committed = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    if f"## Triton {triton.__version__}\n" in committed:  # another version may need other registers
        assert done.stdout in committed, "run python benchmarks/kernels.py --write"
    assert re.search(r"^\| `rotate` ", done.stdout, re.M)
