"""The logs of servers that judge the memory accounts."""

import numpy as np
import pytest

from perfmodel.specs.engines.memory_facts import vllm_memory
from perfmodel.validate.studies import memory


def test_half_of_the_logs_are_within_eight_per_cent_with_their_source_left_out() -> None:
    errors = memory.figures()["all"]
    assert errors["sources"] >= 30
    assert errors["held_out"]["median"] < memory.NEAR
    assert errors["held_out"]["far"] > 0.88
    assert errors["shipped"]["median"] < 0.05
    assert abs(errors["shipped"]["bias"]) < 0.02


def test_the_memory_of_caches_is_linear_in_the_fitted_numbers() -> None:
    """What `pools` says of a row is what its account says with any numbers."""
    rows = [row for row in memory.logs() if row.pool_gib is not None and row.weights_gib is None][:3]
    base, taken = memory.pools(rows)
    values = np.linspace(0.1, 1.0, len(memory.FITTED))
    facts = memory.with_values(values, vllm_memory())
    for row, empty, slopes in zip(rows, base, taken, strict=True):
        expected = empty - slopes @ values
        assert row.predicted(facts).pool_bytes / memory.GIB == pytest.approx(expected)


def test_a_number_without_a_log_is_zero() -> None:
    """A fit to logs of which none has a vision tower knows nothing of one."""
    rows = [
        r for r in memory.logs() if r.pool_gib is not None and r.source == "dennislee22/vLLM-benchmarking"
    ]
    base, taken = memory.pools(rows)
    values = memory.fitted(base, taken, np.array([row.pool_gib for row in rows], float))
    assert values[memory.FITTED.index(("vision", "pass_gib"))] == pytest.approx(0.0, abs=1e-6)


def test_one_log_that_is_far_off_hardly_moves_a_number() -> None:
    """Nine servers logged 10 of 12 GiB, one logged 5: the first number takes 2 GiB of the caches. The others
    take nothing, so they are 0.
    """
    taken = np.zeros((10, len(memory.FITTED)))
    taken[:, 0] = 1.0
    logged = np.array([10.0] * 9 + [5.0])
    first, *others = memory.fitted(np.full(10, 12.0), taken, logged)
    assert first == pytest.approx(2.0, abs=0.1)
    assert others == pytest.approx([0.0] * len(others), abs=1e-6)
