"""The published tables: complete, sourced, and without a row that contradicts itself."""

import math
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from operator import mul
from typing import Any

import pytest

from perfmodel.specs import kv_format, load_gpu, load_model, weight_format
from perfmodel.specs.published import MeasuredPoint, PublishedRow, RunFields, published_points, read_published
from perfmodel.validate.studies.public_runs import RunKind, public_runs
from perfmodel.validate.studies.published_engines import (
    engine_decode,
    engine_speculation,
    served,
    source_of,
    step_laws,
)

ROWS = read_published("points", PublishedRow)
HALF_DIGIT = 0.005
"""What a printed figure may be off by: half of its last digit (the tables print two decimals)."""
OVERHEAD_MS = {"a100-sxm-80gb": (1.29, 2.75), "h100-sxm-80gb": (0.565, 0.895)}
"""Device -> what MagicDec's iterations spend outside drafts and verification, over all rows."""


@dataclass(frozen=True, slots=True)
class PublicSource:
    """The address of a source."""

    id: str
    url: str


def rows_of_set(set_name: str) -> list[PublishedRow]:
    return [row for row in ROWS if row.set == set_name]


def test_every_row_says_where_it_is_from_names_what_is_bundled_and_is_above_zero() -> None:
    for row in (*ROWS, *engine_decode(), *engine_speculation(), *served(), *step_laws()):
        assert len(row.source.strip()) >= 8, row.id
        assert load_gpu(row.hardware).name == row.hardware, row.id
        assert load_model(getattr(row, "target", None) or row.model), row.id
        if weights := getattr(row, "weights", ""):
            assert weight_format(weights).name == weights, row.id
        if kv := getattr(row, "kv_dtype", ""):
            assert kv_format(kv).name == kv, row.id
        for name in row.__slots__:
            value = getattr(row, name)
            may_be_zero = name in ("context_std_tokens", "context_tokens", "clean")
            assert isinstance(value, str | None) or value > 0 or (may_be_zero and value == 0), (row.id, name)


def test_public_runs_have_a_source_with_an_address_and_count_only_where_nothing_speaks_against_it() -> None:
    addresses = {row.id: row.url for row in read_published("public_sources", PublicSource)}
    assert addresses.keys() == {row.source_id for row in public_runs()}
    assert all(url.startswith("https://") for url in addresses.values())
    for row in public_runs():
        assert row.kind is not RunKind.PROMPT, row.id
        if row.counts:
            assert (row.time_ms and row.tensor_parallel) or row.kind is RunKind.SPECULATION, row.id
            assert row.kind is not RunKind.SPECULATION or (
                row.gamma and row.tokens_per_iteration and row.speedup
            ), row.id
            assert row.kind is not RunKind.SERVED or (row.input_tokens and row.output_tokens), row.id
            assert load_gpu(row.hardware), row.id
    assert sum(row.counts for row in public_runs()) == 953


def test_rows_of_public_runs_in_the_tables_of_engines_are_the_same_measurements() -> None:
    runs = {f"public-{run.id}": run for run in public_runs()}
    rows = [row for row in engine_decode() if row.id.startswith("public-")]
    assert {row.source_id for row in rows} == {"NVIDIA/TensorRT-LLM#5929"}
    for row in rows:
        run = runs[row.id]
        assert (row.source_id, row.step_ms, row.context_tokens) == (
            run.source_id,
            run.time_ms,
            run.context_tokens,
        )
        for name in (
            "engine",
            "engine_version",
            "model",
            "hardware",
            "tensor_parallel",
            "expert_parallel",
            "batch",
        ):
            assert getattr(row, name) == getattr(run, name), row.id


def test_a_source_is_one_repository_thread_or_paper_at_any_commit() -> None:
    sources = (
        "InferenceX run 2026",
        "GloriaXimingLu/inferencex-profiling@237385bf nebius",
        "arXiv:1.2v2, Fig 1",
    )
    assert [*map(source_of, sources)] == ["InferenceX", "GloriaXimingLu/inferencex-profiling", "arXiv:1.2v2"]
    assert {row.source_id for row in engine_decode()} >= {"InferenceX", "aiconfigurator"}


def test_speculation_gains_at_most_one_token_more_than_it_drafts() -> None:
    for row in ROWS:
        drafted = row.tree_levels - 1 if row.tree_levels else row.gamma
        gained = row.tokens_per_iteration or row.speedup
        assert drafted is None or gained is None or gained <= drafted + 1, row.id
    assert all((row.tokens_per_iteration or 1) <= row.steps + 1 for row in engine_speculation())


def test_the_phases_of_magicdec_add_up_to_its_speeds() -> None:
    for row in rows_of_set("magicdec"):
        low, high = OVERHEAD_MS[row.hardware]
        assert low <= row.overhead_ms <= high, row.id
        least = (row.target_ms - HALF_DIGIT) / (row.sd_tpot_ms + HALF_DIGIT) - HALF_DIGIT
        most = (row.target_ms + HALF_DIGIT) / (row.sd_tpot_ms - HALF_DIGIT) + HALF_DIGIT
        assert least - 1e-9 <= row.speedup <= most + 1e-9, row.id


def test_positions_gain_the_tokens_that_are_stated() -> None:
    """Shares of iterations add up; conditional rates survive one after the other."""
    for run in engine_speculation():
        if run.positions:
            shares = map(float, run.positions.split("/"))
            assert 1 + math.fsum(shares) == pytest.approx(run.tokens_per_iteration, abs=0.02), run.id
    for row in served():
        assert len(row.conditional) == row.gamma
        assert 1 + math.fsum(accumulate(row.conditional, mul)) == pytest.approx(
            row.tokens_per_iteration, abs=0.01
        )


def test_the_readme_row_in_seconds() -> None:
    """Llama-3.1-8B, 8 x A100, B=64, S=32000, gamma=2 (Table 3c): 2.45 x 21.03 - 19.08 - 30.86 = 1.58 ms of
    overhead.
    """
    row = ("a100-sxm-80gb", "llama-3.1-8b", 64, 32000)
    points = published_points("magicdec")
    (point,) = (p for p in points if (p.hardware, p.target, p.batch, p.context) == row)
    assert point.tp == 8
    assert point.draft == "self"
    assert point.draft_kv == "streamingllm:512"
    assert point.gamma == 2
    times = (point.draft_s, point.verify_s, point.target_s, point.ar_tpot_s, point.overhead_s)
    assert times == pytest.approx((9.54e-3, 30.86e-3, 26.99e-3, 26.99e-3, 1.5835e-3))
    assert point.tokens_per_iteration == 2.45
    assert point.speedup == 1.28


@pytest.mark.parametrize(
    ("shape", "drafts", "query", "drafted"),
    [
        ({"gamma": 3}, 3, 4, "3"),
        ({}, None, 1, "None"),
        ({"tree": (9, 4), "widths": (1, 3, 3, 2)}, 3, 9, "1-3-3-2"),
    ],
)
def test_what_an_iteration_runs_by_its_shape(
    shape: dict[str, Any], drafts: float, query: float, drafted: str
) -> None:
    unknown = dict.fromkeys(field.name for field in fields(RunFields))
    stated: dict[str, Any] = unknown | {"batch": 1, "tp": 1, "context": 1, "set_name": "x", "row_id": "x"}
    point = MeasuredPoint(**stated | shape)
    assert point.drafts == drafts
    assert point.query == query
    assert point.drafted == drafted
    assert point.iteration_s is None
    assert replace(point, tokens_per_iteration=2.5, sd_tpot_s=0.1).iteration_s == 0.25


def test_a_row_in_seconds_with_cells_left_out() -> None:
    row = next(row for row in ROWS if row.overhead_ms is not None)
    bare = replace(row, drafts_ms=None, tokens_per_iteration=2.0, sd_tpot_ms=10.0, verify_ms=15.0)
    assert bare.overhead_ms == 5.0
    assert bare.point().draft_s is None
    assert bare.point().overhead_s == 0.005
    for name in ("tokens_per_iteration", "sd_tpot_ms", "verify_ms"):
        assert replace(bare, **{name: None}).overhead_ms is None
    tree = replace(bare, tree_nodes=9, tree_levels=4, drafts_ms=3.0, gamma=None).point()
    assert tree.tree == (9, 4)
    assert tree.draft_s == 0.001
    assert tree.overhead_s == 0.002
    assert replace(bare, sd_tpot_ms=None, target_ms=30.0, speedup=2.0).point().sd_tpot_s == 0.015
    assert replace(bare, sd_tpot_ms=None, target_ms=None, speedup=2.0).point().sd_tpot_s is None
    assert replace(bare, tree_nodes=9, tree_levels=None).point().tree is None
