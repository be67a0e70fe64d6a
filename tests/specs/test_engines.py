"""Serving engines: kernels and engine constants put together, the choice of a calibration, rows that load."""

import math
from itertools import pairwise, product
from typing import get_args

import pytest

from perfmodel.errors import InputError
from perfmodel.specs import (
    ENGINES,
    Relation,
    calibration_of,
    engine_of,
    files,
    load_gpu,
    over_host,
    read_kernels,
    release,
)
from perfmodel.specs.calibrations.by_engine import distance, on_board
from perfmodel.specs.calibrations.fit_errors import step_kind
from perfmodel.specs.calibrations.loading import load_bundled
from perfmodel.specs.engines.backends import backend_name
from perfmodel.specs.engines.engines import engines
from tests.refusals import refused

SERVED = ("vllm", "trtllm", "sglang")


@pytest.mark.parametrize(
    ("architecture", "requested", "meant"),
    [
        ("CDNA3", "ROCM_AITER_FA", "aiter"),
        ("Hopper GH100", "FLASH_ATTN", "flash-attn3"),
        ("Ampere GA100", "flash_attn", "flash-attn2"),
        ("Hopper GH100", "flashinfer", "flashinfer"),
    ],
)
def test_a_backend_has_the_engine_s_own_word_too(architecture: str, requested: str, meant: str) -> None:
    """Of several with one word, it is the engine's choice on the device."""
    assert backend_name("vllm", architecture, "usual", requested) == meant


def test_no_word_is_no_backend() -> None:
    """TensorRT-LLM's backends have none in the engine."""
    for engine in SERVED:
        with pytest.raises(InputError, match="--attention-backend"):
            backend_name(engine, "Hopper GH100", "usual", "")


def test_the_nearer_place_wins() -> None:
    """TensorRT-LLM on Hopper has its own share of bandwidth over an fp8 cache, which stands before
    Hopper's.
    """
    chosen = engines().chosen("trtllm", "hopper")
    assert chosen["attention_bandwidth_fraction_fp8"] == "trtllm.hopper.attention_bandwidth_fraction_fp8"
    assert engines().chosen("vllm", "hopper")["attention_bandwidth_fraction_fp8"].startswith("hopper.")
    assert engines().chosen("vllm", "hopper")["drafted_token_s"] == "all.drafted_token_s"


@pytest.mark.parametrize(
    ("gpu", "engine", "name"),
    [
        ("h200-sxm-141gb", None, "h200-sxm-141gb.vllm"),
        ("xeon-amx-2core", None, "xeon-amx-2core.micro"),
        ("h100-sxm-80gb", "magicdec", "h100-sxm-80gb.magicdec"),
        ("h20-sxm-96gb", None, "h100-sxm-80gb.vllm"),  # 4.0 TB/s: nearer to 3.35 than to 4.8
        ("h100-pcie-80gb", "sglang", "h100-sxm-80gb.sglang"),
        ("a100-pcie-40gb", None, "a100-sxm-80gb.vllm"),
        ("gh200-144gb", None, "h200-sxm-141gb.vllm"),  # 4.9 TB/s
        ("mi300x-192gb", None, "h200-sxm-141gb.vllm"),  # none of its architecture: by bandwidth
        ("h200-sxm-141gb", "magicdec", "h100-sxm-80gb.magicdec"),
    ],
)
def test_a_device_takes_its_own_calibration_or_the_nearest_of_its_architecture(gpu, engine, name) -> None:
    assert calibration_of(load_gpu(gpu), engine).name == name


def test_every_calibration_is_that_of_its_device_and_engine() -> None:
    """`calibration_of` looks no further than the files' names."""
    for name in files.bundled_names("calibrations"):
        read_again = read_kernels(name)
        assert read_again.name == name
        assert read_again.gpu == (name.rpartition(".")[0] or None)
        engine = engine_of(read_again)
        version = f"@{read_again.version}" if read_again.version else ""
        assert engine is None or calibration_of(load_gpu(read_again.gpu), engine + version).name == name
    b200 = load_gpu("b200-sxm-180gb")
    assert calibration_of(b200, None, "ideal").name == "ideal"
    b200 = b200.replace(calibration="hardware/calibrations/ideal.yaml")
    assert calibration_of(b200).name == "ideal" != calibration_of(b200, "vllm").name


def test_a_device_of_the_same_vendor_is_nearer() -> None:
    others = (load_gpu(name) for name in ("h200-sxm-141gb", "mi300x-192gb"))
    assert [distance(load_gpu("h100-sxm-80gb"), other).other_vendor for other in others] == [False, True]


def test_versions_sort() -> None:
    ordered = ["v0.5.9-cu130", "0.18", "0.18.1", "0.20.1", "1.2.0rc0.post1", "1.2.0rc6", "1.2.0", "1.3.0rc14"]
    assert all(release(one) < release(other) for one, other in pairwise(ordered))
    assert release("not stated") == ()


def test_an_older_version_has_its_own_constants_and_an_unknown_one_is_less_sure() -> None:
    """MiniMax's norms cost more up to vLLM 0.17; nothing else of a step moved."""
    gpu = load_gpu("h200-sxm-141gb")
    newest, old, unknown = (calibration_of(gpu, engine) for engine in ("vllm", "vllm@0.16.0", "vllm@0.12"))
    factor = engines().engines["vllm"].drifts["0.18"]["wide_norm_s"].value
    assert newest.version == engines().engines["vllm"].versions[-1]
    assert newest.wide_norm_s.value == pytest.approx(factor * old.wide_norm_s.value)
    assert newest.small_kernel_s == old.small_kernel_s
    assert [c.relation("target_s", "minimax-m2", gpu) for c in (newest, old, unknown)] == [
        "seen",
        "seen",
        "version",
    ]


def test_a_patch_release_is_as_sure_as_the_fitted_one() -> None:
    gpu = load_gpu("h200-sxm-141gb")
    assert "0.16.99" not in engines().engines["vllm"].versions
    assert calibration_of(gpu, "vllm@0.16.99").relation("target_s", "minimax-m2", gpu) == "seen"


def test_the_error_of_a_drifted_constant_has_the_factor_s_own_part() -> None:
    """Relative errors of independent factors add as squares."""
    gpu = load_gpu("h200-sxm-141gb")
    older = calibration_of(gpu, "vllm@0.16.0").wide_norm_s
    newer = calibration_of(gpu, "vllm").wide_norm_s
    factor = engines().engines["vllm"].drifts["0.18"]["wide_norm_s"]
    both = math.hypot(older.stderr / older.value, factor.stderr / factor.value)
    assert factor.stderr > 0
    assert newer.stderr / newer.value == pytest.approx(both)


def test_what_one_board_is_off_by_is_of_no_other() -> None:
    """The 94 GB board takes the 80 GB board's kernels, and computes slower than they do."""
    engine_calibration, kernels = (calibration_of(load_gpu(f"h100-sxm-{size}gb")) for size in (94, 80))
    assert engine_calibration.gpu == kernels.gpu == "h100-sxm-80gb"
    assert (
        engine_calibration.gemm_flops_factor.value
        == engines().architectures["h100-sxm-94gb"]["gemm_flops_factor"].value
        < 0.9
    )
    assert kernels.gemm_flops_factor.value == 1.0
    assert calibration_of(load_gpu("h100-sxm-94gb"), "magicdec").gemm_flops_factor.value == 1.0


def test_what_another_architecture_is_off_by_multiplies_and_moves_with_its_own_versions() -> None:
    """MI300X takes an H200's kernels: SGLang's experts are slower on CDNA3, less so from 0.5.12 on; an H200's
    do not move. An H20 reads weights at half of what kernels of an H100 do.
    """
    h200 = load_gpu("h200-sxm-141gb")
    mi300x = load_gpu("mi300x-192gb")
    older = calibration_of(mi300x, "sglang@0.5.9").expert_factor.value
    newer = calibration_of(mi300x, "sglang@0.5.12").expert_factor.value
    kernels = calibration_of(h200, "sglang@0.5.12").expert_factor
    slower = engines().engines["sglang"].architectures["cdna3"]["expert_factor"].value
    faster = engines().engines["sglang"].drifts["0.5.12/cdna3"]["expert_factor"].value
    assert older == pytest.approx(kernels.value * slower)
    assert newer == pytest.approx(older * faster)
    assert kernels == calibration_of(h200, "sglang@0.5.9").expert_factor
    h20, h100 = (calibration_of(load_gpu(gpu)).gemm_factor.value for gpu in ("h20", "h100"))
    assert h20 == pytest.approx(h100 * engines().architectures["h20-sxm-96gb"]["gemm_factor"].value)


def test_a_context_or_a_width_that_was_not_fitted_is_less_sure() -> None:
    """Nothing for what was; each e-fold of context or width adds its variance."""
    c = load_bundled("h200-sxm-141gb.vllm")
    long = c.longest_tokens
    assert c.unseen_log_error(long, c.widest_tokens) == 0
    each = c.unseen_context.deviation  # type: ignore[union-attr]
    assert c.unseen_log_error(long * math.e**2, 1.0) == pytest.approx(2 * each)
    wide = c.unseen_width.deviation  # type: ignore[union-attr]
    assert c.unseen_log_error(100.0, c.widest_tokens * math.e**3) == pytest.approx(3 * wide)
    assert load_bundled("a100-sxm-80gb.magicdec").unseen_log_error(1e6, 1e6) == 0


def test_a_research_stack_says_how_far_it_is_off_here_and_elsewhere() -> None:
    c = load_bundled("a100-sxm-80gb.magicdec")
    assert c.error("speedup", "any", load_gpu("a100-sxm-80gb")) is c.observed_error["speedup"]
    assert c.error("speedup", "any", load_gpu("h100-sxm-80gb")) is c.transfer_error is not None
    assert load_bundled("ideal").error("speedup", "any", load_gpu("a100-sxm-80gb")) is None
    served = load_bundled("h200-sxm-141gb.vllm")
    for quantity in ("speedup", "ratio"):  # a speedup is off by what the ratio of an iteration to a step is
        assert served.error(quantity, "none", load_gpu("h200-sxm-141gb")) is served.errors["model"]["ratio"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kernels", "model", "gpu", "relation"),
    [
        ("h200-sxm-141gb", "gpt-oss-120b", "h200-sxm-141gb", "seen"),
        ("h200-sxm-141gb", "qwen3-8b", "h200", "model"),
        ("h200-sxm-141gb", "gpt-oss-120b", "h20-sxm-96gb", "transferred"),
        ("h200-sxm-141gb", "gpt-oss-120b", "mi300x-192gb", "maker"),
        ("gb200-186gb", "gpt-oss-120b", "gb200", "gpu"),
    ],
)
def test_what_an_error_rests_on(kernels: str, model: str, gpu: str, relation: str) -> None:
    assert load_bundled(f"{kernels}.vllm").relation("target_s", model, load_gpu(gpu)) == relation


def test_what_is_less_known_has_a_wider_error() -> None:
    for engine, quantity in product(SERVED, ("target_s", "ratio")):
        widths = [engines().engines[engine].errors[r][quantity].deviation for r in get_args(Relation)]
        assert widths == sorted(widths)
        assert widths[0] > 0.01
    assert set(SERVED) < set(ENGINES)


def test_all_reduces_belong_to_a_kind_of_box() -> None:
    assert over_host().link == "host"
    bridged = load_gpu("h100-nvl-94gb")
    assert [bridged.over_host(n) for n in (2, 4)] == [False, True]
    assert [bridged.link_rate(n) for n in (2, 4)] == [300e9, bridged.host_link.per_direction.si]
    assert not load_gpu("h100-sxm-80gb").over_host(8)


@pytest.mark.parametrize(
    ("experts", "batch", "context", "kind"),
    [
        (False, 4, 200_000, "dense"),
        (False, 5, 1000, "dense_batched"),
        (True, 4, 10_000, "experts"),
        (True, 4, 10_001, "experts_long"),
        (True, 5, 200_000, "experts_batched"),
    ],
)
def test_the_kind_of_a_step_has_its_own_error(experts: bool, batch: float, context: float, kind: str) -> None:
    assert step_kind(experts, batch, context) == kind


def test_borrowed_constants_are_as_far_as_those_of_another_device() -> None:
    own = load_bundled("h200-sxm-141gb.vllm")
    borrowed = own.replace(constants_of="sglang")
    for gpu, relation in (("h200-sxm-141gb", "transferred"), ("mi300x-192gb", "maker")):
        assert borrowed.relation("target_s", "gpt-oss-120b", load_gpu(gpu)) == relation


def test_borrowed_constants_are_those_of_the_newest_version_of_the_lender() -> None:
    """SGLang's experts are faster on CDNA3 from 0.5.12 on, whatever the version of the borrowing engine."""
    mi300x = load_gpu("mi300x-192gb")
    newest = calibration_of(mi300x, "sglang")
    older = calibration_of(mi300x, "sglang@0.5.9")
    borrowed = load_bundled("h200-sxm-141gb.sglang").replace(constants_of="sglang", version="0.1")
    assert on_board(borrowed, mi300x).expert_factor == newest.expert_factor != older.expert_factor


def test_a_file_with_the_name_of_a_bundled_device_keeps_its_kernels() -> None:
    """An H20 with the bandwidth of an H200 still takes the kernels of an H100."""
    faster = load_gpu("h20-sxm-96gb").replace(memory_bandwidth=load_gpu("h200-sxm-141gb").memory_bandwidth)
    assert calibration_of(faster, "vllm").name == "h100-sxm-80gb.vllm"
    assert calibration_of(faster.replace(name="mine"), "vllm").name == "h200-sxm-141gb.vllm"


def test_a_named_calibration_is_corrected_for_the_board() -> None:
    board = load_gpu("h100-sxm-94gb")
    named = calibration_of(board, calibration="h100-sxm-80gb.vllm")
    assert named.gemm_flops_factor == calibration_of(board, "vllm").gemm_flops_factor
    assert named.gemm_flops_factor.value < 0.9


def test_a_named_calibration_goes_with_its_own_engine_alone() -> None:
    gpu = load_gpu("h100-sxm-80gb")
    name = "h100-sxm-80gb.vllm"
    assert calibration_of(gpu, "vllm@0.16.0", name) == calibration_of(gpu, "vllm@0.16.0")
    says = f"--engine: must be left out with --calibration {name}, given 'sglang'"
    refused(says, calibration_of, gpu, "sglang", name)
