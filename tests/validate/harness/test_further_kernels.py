"""Constants of kernels that a further record has: wide tiles, unsplit attention, products in fp8."""

import json

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.cli import run
from perfmodel.specs import load_calibration
from perfmodel.validate.accuracy.compare import compare_record
from perfmodel.validate.records import BUNDLED, records

H200 = BUNDLED / "h200-1"
MAIN = H200 / "20261126T015436Z-53cec594-gpu-headline-micro.json"
TREES = H200 / "20261126T023412Z-f66ff6fd-gpu-trees-micro.json"
TABLE = H200 / "attention.json"
FP8 = H200 / "20261126T023433Z-f66ff6fd-gpu-headline-fp8-micro.json"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory):
    out = tmp_path_factory.mktemp("further") / "h200.yaml"
    further = [word for path in (TREES, TABLE, FP8) for word in ("--further", str(path))]
    assert run(["validate", "calibrate", "--from-microbench", str(MAIN), *further, "--out", str(out)]) == 0
    return load_calibration(str(out))


def test_the_shipped_calibration_has_them(fitted) -> None:
    shipped = load_calibration("h200-sxm-141gb.micro")
    for name in (
        "kv_reread_per_tile",
        "block_bandwidth",
        "gemm_bandwidth_fraction_fp8",
        "gemm_flops_fraction_fp8",
        "gemm_fixed_fp8_s",
    ):
        assert getattr(fitted, name) == getattr(shipped, name), name
    assert fitted.gemm_fixed_s == shipped.gemm_fixed_s, "the main record's constants stay"


@pytest.mark.parametrize(
    ("plan", "quantity", "most"),
    [
        ("gpu-trees", "verify_s", 0.08),
        ("gpu-unsplit", "verify_s", 0.08),
        ("gpu-unsplit", "speedup", 0.03),
        ("gpu-headline-fp8", "draft_s", 0.06),
    ],
)
def test_whole_passes_follow_from_kernels(fitted, plan, quantity, most) -> None:
    """No whole pass was fitted."""
    (record,) = (
        r for r in records(BUNDLED, "h200-1") if (r.data.plan.name, r.data.kind) == (plan, "measure")
    )
    errors = [cell.error for cell in compare_record(record, fitted) if cell.quantity == quantity]
    assert len(errors) > 1
    assert max(map(abs, errors)) < most


def test_an_unsplit_verification_is_slow_where_few_sequences_are_long() -> None:
    """With more sequences and KV heads than multiprocessors, both kernels read at almost the same rate."""
    factors = {}
    for batch in (2, 33):
        split_s, whole_s = (
            whatif(
                "llama-3.1-8b",
                "h200",
                batch,
                32768,
                3,
                draft_kv="snapkv:1024",
                alpha=0.8,
                calibration="h200-sxm-141gb.micro",
                attention_backend=backend,
            ).verify_step.predicted_s
            for backend in ("triton", "triton-unsplit")
        )
        factors[batch] = whole_s / split_s
    assert factors[2] > 2
    assert factors[33] < 1.15


def test_a_file_without_such_kernels_is_refused(tmp_path) -> None:
    command = ["validate", "calibrate", "--from-microbench", str(MAIN), "--further"]
    assert run([*command, str(MAIN)]) == 2
    odd = tmp_path / "odd.json"
    odd.write_text(json.dumps({"implementation": "triton-unsplit"}) + "\n")
    assert run([*command, str(odd)]) == 2
    assert run(["validate", "calibrate", "--further", str(TREES)]) == 2
