"""Which rows of the fits of serving engines are held out together."""

from dataclasses import replace
from typing import Any

import pytest

from perfmodel.validate.studies.engine_folds import RATIO_FOLDS, STEP_FOLDS
from perfmodel.validate.studies.iterations import iterations
from perfmodel.validate.studies.published_engines import engine_decode


def held_out(rows: list[Any], fold: Any, row: Any) -> list[Any]:
    """The rows that are held out with a row."""
    return [each for each in rows if fold.key(each) == fold.key(row)]


@pytest.mark.parametrize(
    ("relation", "alike"),
    [
        ("seen", ("engine", "model", "hardware", "tensor_parallel")),
        ("model", ("engine", "model")),
        ("gpu", ("hardware",)),
        ("transferred", ("hardware",)),
        ("maker", ("hardware",)),
    ],
)
def test_steps_are_held_out_with_those_that_a_new_server_does_not_know(relation, alike) -> None:
    rows = list(engine_decode())
    for row in rows[::20]:
        same = [each for each in rows if all(getattr(each, k) == getattr(row, k) for k in alike)]
        assert held_out(rows, STEP_FOLDS[relation], row) == same


def test_a_version_is_held_out_in_one_engine_only() -> None:
    """A device is held out in all engines, because their kernels share it."""
    row = replace(next(iter(engine_decode())), engine="vllm", engine_version="0.20.0")
    other = replace(row, engine="sglang")
    assert STEP_FOLDS["version"].key(other) != STEP_FOLDS["version"].key(row)
    assert STEP_FOLDS["gpu"].key(other) == STEP_FOLDS["gpu"].key(row)


@pytest.mark.parametrize(
    ("fold", "at_limit", "above"),
    [("context", {"context": 1024.0}, {"context": 1025.0}), ("width", {"batch": 64.0}, {"batch": 65.0})],
)
def test_long_contexts_and_wide_verifications_begin_above_their_limits(fold, at_limit, above) -> None:
    """Of 1,024 tokens of context, and of 256 verified tokens: 64 sequences of four."""
    row = replace(next(iter(iterations())), batch=1.0, context=100.0, verified=4)
    key = RATIO_FOLDS[fold].key
    assert key(replace(row, **at_limit)) == key(row) != key(replace(row, **above))


def test_ratios_of_versions_that_differ_in_a_patch_are_held_out_together() -> None:
    row = next(iter(iterations()))
    key = RATIO_FOLDS["version"].key
    of = [key(replace(row, version=version)) for version in ("0.20.0", "0.20.2", "0.21.0")]
    assert of[0] == of[1] != of[2]
    assert key(replace(row, engine="sglang", version="0.20.0")) != key(
        replace(row, engine="vllm", version="0.20.0")
    )
