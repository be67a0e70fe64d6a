"""A constant is declared once, and what is declared of it holds: its bounds, its work, the term that it
enters.
"""

import math
from collections import defaultdict

import numpy as np
import pytest

from perfmodel.answers.question import Query, resolve
from perfmodel.specs import (
    CONSTANTS,
    Calibration,
    Constant,
    Scatter,
    StatedFit,
    interpolated,
    load_calibration,
)
from perfmodel.specs.boundary.frozen import annotations
from perfmodel.specs.calibrations.constants import AllReduce
from perfmodel.specs.calibrations.engine_constants import EngineConstants
from perfmodel.specs.calibrations.loading import load_bundled
from perfmodel.speculation import Scenario, with_calibration, with_values

A100 = load_calibration("a100-sxm-80gb.magicdec")
EVERYTHING = with_values(
    A100,
    {
        "gemm_column_s": 1e-9,
        "weight_unpack_s": 1e-13,
        "kv_reread_per_query": 0.1,
        "pass_fixed_s": 1e-4,
        "token_s": 1e-5,
        "full_cache_pass_s": 1e-4,
        "sparse_cache_sequence_s": 1e-6,
        "search_s": 1e-4,
        "searched_unit_s": 1e-6,
        "gemm_blend_power": 1.0,
    },
)
"""A calibration that states every constant; loading and computing add, so that a term moves alone."""


# The declaration and the formula agree.


def spent(scenario: Scenario) -> dict[tuple[str, str], float]:
    """(work, term) -> seconds of a verification of 8 sequences, a draft step of 1 and an iteration."""
    overhead_s = float(scenario.overhead_s(8.0, 8000.0))
    spent_s: dict[tuple[str, str], float] = defaultdict(float)
    spent_s["iteration", "overhead"] = overhead_s
    target = scenario.target_ops(8.0, 8000.0, 4.0)
    draft = scenario.draft_ops(1.0, 8000.0)
    for machine, ops in (scenario.machine, target), (scenario.draft_machine, draft):
        of_empty_pass = machine.time([], 0.0).terms_s
        for op in ops:
            work = "pass" if op.kind in ("upkeep", "host") else op.kind
            for term, seconds in machine.time([op], 0.0).terms_s.items():
                spent_s[work, term] += float(seconds) - float(of_empty_pass[term])
        for term, seconds in machine.time([], 8.0).terms_s.items():
            spent_s["pass", term] += float(seconds)
    return spent_s


def moved_by(scenario: Scenario, changed: Calibration) -> set[tuple[str, str]]:
    """(work, term) that another calibration makes longer or shorter."""
    before = spent(scenario)
    after = spent(with_calibration(scenario, changed))
    return {key for key in before if not np.isclose(before[key], after[key], rtol=1e-6, atol=0.0)}


HALVED = {"allreduce": None, "attention_flops_fraction": 1e-4, "attention_blocks_per_multiprocessor": 0.25}
"""Constants that show in another way than at half their value."""


DECODER = ("gemm_bandwidth_fraction_fp8", "gemm_flops_fraction_fp8", "gemm_fixed_fp8_s", "kv_reread_per_tile")
"""Constants of this project's own kernels: fp8 products, and tiles of many rows."""
OF_TREES = ("tree_level_s",)
"""Constants that no chain has."""


@pytest.mark.parametrize("name", DECODER)
def test_a_kernels_constant_moves_the_term_of_the_work_that_it_is_declared_for(name: str) -> None:
    micro = load_bundled("h200-sxm-141gb.micro")
    moved = set()
    for batch, weights in (1, "fp8"), (4096, "fp8"), (1, "bf16"):
        query = Query("gemma-4-12b", "h200-sxm-141gb", batch, 8000, 3, alpha=0.8, weights=weights)
        scenario = with_calibration(resolve(query), micro)
        half = getattr(micro, name).value / 2
        moved |= moved_by(scenario, with_values(micro, {name: half}))
    declared = CONSTANTS[name]
    assert (declared.work, declared.term) in moved
    assert {work for work, _ in moved} == {declared.work}


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, c in CONSTANTS.items()
        if c.term and name not in {*annotations(EngineConstants), *DECODER, *OF_TREES}
    ],
)
def test_a_constant_moves_the_term_of_the_work_that_it_is_declared_for(name: str) -> None:
    query = Query(
        "llama-2-7b", "a100-sxm-80gb", 8, 8000, 3, tp=2, draft_kv="quest:512", alpha=0.8, weights="int8-wo"
    )
    scenario = with_calibration(resolve(query), EVERYTHING)
    declared = CONSTANTS[name]
    value = HALVED[name] if name in HALVED else getattr(EVERYTHING, name).value / 2
    changed = EVERYTHING.replace(**{name: None}) if value is None else with_values(EVERYTHING, {name: value})
    moved = moved_by(scenario, changed)
    assert (declared.work, declared.term) in moved
    others = moved - {(declared.work, declared.term)}
    if declared.unit == "s":
        assert not others
    else:  # all bytes of an op move at one rate, and attention takes the longer of loading and computing
        assert others <= {(declared.work, term) for term in ("activations", "kv_load", "flops")}


SERVED = (
    Query("qwen3-32b", "h200-sxm-141gb", 8, 8000, 3, draft="eagle", alpha=0.8, weights="fp8", kv_dtype="fp8"),
    Query("deepseek-r1", "h200-sxm-141gb", 8, 8000, 3, tp=8, draft="eagle", alpha=0.8, kv_dtype="fp8"),
    Query("deepseek-r1", "h200-sxm-141gb", 8, 8000, 3, tp=8, draft="eagle", alpha=0.8, kv_dtype="bf16"),
    Query("deepseek-r1", "h200-sxm-141gb", 8, 8000, 3, tp=8, alpha=0.8, attention_backend="trtllm"),
    Query("llama-3.1-8b", "h200-sxm-141gb", 1, 128000, 3, alpha=0.8, attention_backend="triton"),
    Query("deepseek-v3.2", "h200-sxm-141gb", 64, 64000, 3, tp=8, draft="eagle", alpha=0.8, kv_dtype="fp8"),
    Query("qwen3.5-35b-a3b", "h200-sxm-141gb", 8, 8000, 3, draft="eagle", alpha=0.8),
    Query("llama-3.1-8b", "h200-sxm-141gb", 1, 128000, 3, draft="eagle", alpha=0.8),
    Query("llama-3.1-8b", "rtx-4090-24gb", 1, 1000, 3, tp=2, alpha=0.8),
    Query("minimax-m2", "h200-sxm-141gb", 8, 8000, 3, tp=4, draft="eagle", alpha=0.8),
    Query("qwen3-32b", "b200", 1, 1000, 3, draft="eagle", alpha=0.8, weights="nvfp4"),
    Query("nemotron-3-super-120b-a12b", "h200-sxm-141gb", 8, 8000, 3, tp=4, draft="eagle", alpha=0.8),
)
"""Questions in which every constant of an engine has something to cost."""


LAUNCHED = ("host_pass_s", "host_layer_s", "host_latent_layer_s")
"""Constants of the versions of vLLM in which the host launches attention in every pass."""


@pytest.mark.parametrize("name", [name for name in annotations(EngineConstants) if name in CONSTANTS])
def test_an_engines_constant_moves_the_term_of_the_work_that_it_is_declared_for(name: str) -> None:
    declared = CONSTANTS[name]
    base = load_bundled("h200-sxm-141gb.vllm")
    moved = set()
    stated = {
        "expert_alone_tokens": 32.0,
        "latent_bandwidth_fraction_fp8": 0.4,
        "multiprocessor_bandwidth": 0.5,
        "gemm_flops_factor": 0.02,
        "latent_reread_per_query": 0.5,
        "state_verify_s": 1e-3,
        "gemm_factor_fp4": 2.0,
        "latent_flops_fraction": 0.001,
        "scan_copies": 5.0,
        "schedule_s": 1e-3,
        "host_pass_s": 1.0,
        "host_layer_s": 0.1,
        "host_latent_layer_s": 0.1,
        "host_piecewise_layer_s": 0.1,
        "uncut_bandwidth": 0.05,
    }
    override = {constant: number for constant, number in stated.items() if constant == name}
    base = with_values(base, override)
    if name in LAUNCHED:
        base = base.replace(version="0.10.1")
    value = getattr(base, name)
    halved = isinstance(value, Constant)
    changed = with_values(base, {name: value.value / 2}) if halved else base.replace(**{name: None})
    for query in SERVED:
        moved |= moved_by(with_calibration(resolve(query), base), changed)
    assert (declared.work, declared.term) in moved
    routing = {"small"} if name == "expert_kernels" else set()  # they hold the kernels that serve them
    assert {work for work, _ in moved} - routing == {declared.work}


# Curves.


ENDS = {
    "gemm_bandwidth_fraction": (1e-300, 1.1),
    "gemm_fixed_s": (0.0, 0.999),
    "token_s": (0.0, 0.5),
    "kv_reread_per_query": (0.0, 1.0),
    "allreduce_multiplier": (0.0, 100.0),
    "attention_blocks_per_multiprocessor": (0.0, 1024.0),
    "gemm_blend_power": (1.0, 16.0, math.inf),
}


def test_ends_of_what_a_constant_may_be() -> None:
    for name, ends in ENDS.items():
        for value in ends:
            CONSTANTS[name].check(name, Constant(value=value, source="a test"))
    for name, scope in ((name, c.search) for name, c in CONSTANTS.items() if c.search):
        assert scope.low <= scope.start <= scope.high
        for value in (scope.low, scope.high):
            CONSTANTS[name].check(name, Constant(value=value, source="a test"))
    factor = CONSTANTS["allreduce_multiplier"]
    assert factor.widest == 100.0
    assert CONSTANTS["gemm_blend_power"].widest == 15.0
    assert factor.ideal == 1.0
    factor.check("x", Constant(value=1, stderr=100.0, source="a test"))
    with pytest.raises(ValueError, match=r"x: stderr must be from 0 to 100, given 100.5"):
        factor.check("x", Constant(value=1, stderr=100.5, source="a test"))
    with pytest.raises(ValueError, match="must be from 0 to 100, given inf"):
        factor.check("x", Constant(value=math.inf, source="a test"))


def test_an_all_reduce_by_hand() -> None:
    """Level below the first knot, in proportion to the message beyond the last; links of twice the rate halve
    what is more than the shortest message's time.
    """
    curve = AllReduce(
        knots={2: ((16.0, 2e-6), (64.0, 8e-6)), 65536: ((1.0, 1.0), (2.0, 1.0))}, source="a test"
    )
    sizes = np.array([1.0, 16.0, 32.0, 64.0, 1e9])
    level = interpolated(curve.knots[2], sizes)
    assert level == pytest.approx([2e-6, 2e-6, 4e-6, 8e-6, 8e-6]), "straight in the logarithms, level outside"
    sent = np.array([1.0, 16.0, 64.0, 128.0])
    assert curve.seconds(2, sent) == pytest.approx([2e-6, 2e-6, 8e-6, 16e-6])
    known = sent[[0, 2, 3]]
    assert curve.seconds(2, known, 2.0) == pytest.approx([2e-6, 5e-6, 9e-6])
    assert list(curve.numbers()) == [2e-6, 8e-6, 1.0, 1.0]
    assert curve.link == "device"
    assert curve.box_log_rms == 0.0
    of_a_file = {"knots": {"2": [[16, 2e-6], [64, 8e-6]]}, "source": "a test"}  # JSON has no numbers as keys
    assert AllReduce.of_mapping(of_a_file).knots == {2: curve.knots[2]}
    knots = ((1.0, 1.0), (2.0, 1.0))
    for by_devices in ({2: knots, 1: knots}, {2: knots, 65537: knots}, {}):
        with pytest.raises(ValueError, match="knots must be given for 2 to 65536 devices"):
            AllReduce(knots=by_devices, source="a test")


@pytest.mark.parametrize(
    "knots",
    [
        ((1.0, 1.0),),
        ((2.0, 1.0), (1.0, 2.0)),
        ((1.0, 1.0), (1.0, 2.0)),
        ((1.0, 1.0), (2.0, float("inf"))),
        ((0.0, 1.0), (2.0, 1.0)),
        ((1.0, 0.0), (2.0, 1.0)),
        ((1.0, 1e-5), (float("nan"), 1e-4)),
    ],
)
def test_knots_rise_and_are_above_0(knots) -> None:
    with pytest.raises(ValueError, match="two or more pairs of numbers above 0, by rising first number"):
        AllReduce(knots={2: knots}, source="a test")


# What holds a fit's constants together is a correlation, and an error leaves an answer finite.


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        # a and b move together, b and c move together, a and c against each other: eigenvalue 1 - 2 x 0.9 =
        # -0.8
        (((1,), (0.9, 1), (-0.9, 0.9, 1)), "positive semi-definite, given an eigenvalue of -0.8"),
        (((1,), (float("nan"), 1), (0, 0, 1)), "from -1 to 1"),
        (((1,), (1.01, 1), (0, 0, 1)), "from -1 to 1"),
        (((1,), (-1.01, 1), (0, 0, 1)), "from -1 to 1"),
        (((1,), (0.5, 0.9), (0, 0, 1)), "1 on the diagonal"),
        (((1,), (0.5, 1)), "one row per parameter"),
    ],
)
def test_what_is_no_correlation_is_refused(rows: tuple[tuple[float, ...], ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        StatedFit(parameters=("a", "b", "c"), correlation=rows)


def test_a_parameter_of_a_fit_is_a_constant_with_an_error_of_its_own() -> None:
    fitted = load_bundled("h200-sxm-141gb.vllm")
    assert fitted.fit is not None
    name, *others = fitted.fit.parameters
    stated = fitted.as_mapping(exclude_none=True)
    assert Calibration.of_mapping(stated).fit == fitted.fit
    without_error = stated | {name: stated[name] | {"stderr": None}}
    with pytest.raises(ValueError, match=f"parameter {name} must be a constant of this file with a stderr"):
        Calibration.of_mapping(without_error)
    no_constant = stated | {"fit": stated["fit"] | {"parameters": ["gpu", *others]}}
    with pytest.raises(ValueError, match="parameter gpu must be a constant of this file with a stderr"):
        Calibration.of_mapping(no_constant)


def test_the_deviation_of_a_scatter_is_that_of_its_interval() -> None:
    """90 % of a normal distribution lie within 1.645 deviations."""
    assert Scatter(log_rms=0.2, rows=1, source="a test").deviation == 0.2
    within = Scatter(log_rms=0.2, log_within=0.3, rows=1, source="a test")
    assert within.deviation == pytest.approx(0.3 / 1.6448536269514722, rel=1e-15)
    assert [Scatter(log_rms=end, rows=1, source="xyz").deviation for end in (0.0, 10)] == [0.0, 10.0]
    for log_rms, rows in ((0.1, 0), (-0.1, 3), (10.1, 3), (float("inf"), 3), (float("nan"), 3)):
        with pytest.raises(ValueError, match="Expected"):
            Scatter.of_mapping({"log_rms": log_rms, "rows": rows, "source": "a test"})
