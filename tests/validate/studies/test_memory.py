"""The logs of servers that judge the memory accounts."""

from types import SimpleNamespace

import numpy as np
import pytest

from perfmodel.specs.engines.memory_facts import vllm_memory
from perfmodel.validate.studies import memory
from perfmodel.validate.studies.memory_logs import Logged


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


@pytest.mark.parametrize(
    ("logged", "error"),
    [
        ({"kv_tokens": 1000.0, "pool_gib": 9.0}, np.log(1200 / 1000)),
        ({"kv_tokens": None, "pool_gib": 4.0}, np.log(3 / 4)),
        ({"kv_tokens": 1000.0, "pool_gib": None, "predicted": 0}, np.log(1 / 1000)),
        ({"kv_tokens": None, "pool_gib": 4.0, "predicted": 0}, np.log(1 / 2**32)),
    ],
)
def test_a_log_is_judged_by_its_tokens_and_without_any_by_its_memory(logged, error) -> None:
    """A prediction of no room at all has a finite error."""
    some = logged.pop("predicted", 1)
    room = SimpleNamespace(kv_tokens=1200 * some, pool_bytes=3.0 * 2**30 * some)
    made = type("Made", (Logged,), {"predicted": lambda self, facts=None: room})
    log = made("a server", "a page", "vllm", None, 0, None, None, logged["pool_gib"], logged["kv_tokens"])
    assert log.log_error() == pytest.approx(error)


def test_errors_of_logs_by_hand() -> None:
    """Errors of 5 % and 50 % too much, and 10 % too little."""
    errors = memory._errors(np.log([1.05, 0.9, 1.5]))
    expected = {"median": 0.1, "bias": 0.05, "near": 1 / 3, "far": 2 / 3, "p90": 0.1 + 0.8 * 0.4}
    assert errors == pytest.approx(expected)


def test_a_log_is_predicted_without_the_logs_of_its_source(monkeypatch) -> None:
    """The fitted number is the mean of the logs of the other sources."""
    logged = {"a": (1.0, 2.0), "b": (4.0,), "c": (7.0,)}
    rows = [
        SimpleNamespace(source=source, pool_gib=gib, engine="vllm", log_error=lambda number: number)
        for source, each in logged.items()
        for gib in each
    ]
    of_sglang = SimpleNamespace(source="d", pool_gib=99.0, engine="sglang", log_error=lambda number: number)
    monkeypatch.setattr(memory, "pools", lambda rows: (np.zeros(len(rows)), np.zeros(len(rows))))
    monkeypatch.setattr(memory, "fitted", lambda base, taken, logged: logged.mean())
    monkeypatch.setattr(memory, "with_values", lambda values, facts: float(values))
    errors = memory.held_out([*rows, of_sglang])
    assert errors.tolist() == pytest.approx([5.5, 5.5, 10 / 3, 7 / 3, 3.5])


def test_a_number_changes_in_the_versions_that_state_it() -> None:
    """In no other version, and in sections without versions at once."""
    facts = vllm_memory()
    changed = memory.with_values(np.full(len(memory.FITTED), 0.123), facts)
    for section, name in memory.FITTED:
        before, after = getattr(facts, section), getattr(changed, section)
        if not isinstance(before, dict):
            assert getattr(after, name) == 0.123
            continue
        assert list(after) == list(before)
        for version in before:
            stated = getattr(before[version], name)
            assert getattr(after[version], name) == (None if stated is None else 0.123)
