"""Constants of kernels that a further record has: wide tiles, unsplit attention, products in fp8."""

import json
from dataclasses import replace

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.cli import run
from perfmodel.specs import load_calibration, load_gpu
from perfmodel.validate.accuracy.compare import compare_record
from perfmodel.validate.harness.micro import further_kernels, roofline_fit
from perfmodel.validate.harness.micro.further import with_further
from perfmodel.validate.harness.micro.timed_kernels import most_rows
from perfmodel.validate.records import BUNDLED, read_record, records
from perfmodel.validate.solving import Parameter

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


def test_constants_of_fp8_have_the_bounds_of_the_same_constants_in_16_bits() -> None:
    of_16_bits = {parameter.name: parameter for parameter in roofline_fit.GEMM}
    for parameter in further_kernels.FP8:
        other = of_16_bits[parameter.name.replace("_fp8", "")]
        assert (parameter.low, parameter.high) == (other.low, other.high)
    (share,) = further_kernels.TILES
    assert (share.low, share.high) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("path", "named"),
    [(TREES, "TILES"), (TABLE, "ONE_PIECE"), (FP8, "FP8")],
    ids=lambda value: str(value)[-9:],
)
def test_the_start_of_a_search_does_not_matter(monkeypatch, path, named) -> None:
    """From a tenth of the way and from nine tenths, the same constants within their bounds come out."""
    shipped = load_calibration("h200-sxm-141gb.micro")
    precision = read_record(MAIN).data.plan.precisions()
    parameters = getattr(further_kernels, named)
    for share in (0.1, 0.9):
        moved = tuple(replace(one, expected=between(one, share)) for one in parameters)
        monkeypatch.setattr(further_kernels, named, moved)
        fitted = with_further(shipped, load_gpu("h200"), precision, [path])
        for one in parameters:
            value = getattr(fitted, one.name).value
            assert value == pytest.approx(getattr(shipped, one.name).value, rel=2e-3), one.name
            assert one.low < value < one.high


def between(parameter: Parameter, share: float) -> float:
    """The value at a share of the range of a parameter, on its scale."""
    low, high = parameter.low, parameter.high
    return low * (high / low) ** share if parameter.log else low + share * (high - low)


@pytest.mark.parametrize(
    ("queries", "implementation", "counts"),
    [
        (1, "triton-unsplit", False),
        (2, "triton-unsplit", True),
        (16, "triton-unsplit", True),
        (17, "triton-unsplit", False),
        (2, "triton", False),
    ],
)
def test_an_unsplit_call_counts_while_it_fits_into_one_tile(
    tmp_path, queries, implementation, counts
) -> None:
    """A query token fills 4 of the 64 rows of a tile. Of a wider call, re-reads would be part of its time."""
    line = {"implementation": implementation, "queries": queries, "heads": 32, "kv_heads": 8}
    line |= {"head_dim": 128, "batch": 2, "context": 16384, "call_s": 1e-3}
    path = tmp_path / "attention.json"
    path.write_text(json.dumps(line) + "\n")
    precision = read_record(MAIN).data.plan.precisions()
    timed = further_kernels.kernels_of(path, precision)
    assert [one.backend for one in timed] == ["triton-unsplit"] * counts


def test_split_attention_of_a_record_counts_where_it_needs_a_second_tile() -> None:
    """With groups of 4 query heads, that is from 17 query tokens on."""
    precision = read_record(TREES).data.plan.precisions()
    (timed,) = further_kernels.kernels_of(TREES, precision)
    assert timed.backend == "triton"
    assert timed.op.query.min() == 21
    assert timed.op.group_rows.tolist() == [4] * len(timed.seconds)


def test_products_in_fp8_beyond_a_pass_have_a_quarter_of_the_weight() -> None:
    """Of their squared error, so half of the error."""
    precision = read_record(FP8).data.plan.precisions()
    (timed,) = further_kernels.kernels_of(FP8, precision)
    most = most_rows(read_record(FP8).data.plan)
    assert (timed.op.rows > most).any()
    assert timed.weight.tolist() == [0.5 if rows > most else 1.0 for rows in timed.op.rows]


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
