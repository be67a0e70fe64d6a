"""Compares the cache sizes that servers logged at their start (``results/published/kv_tokens.csv``) with the
predicted sizes.

A prediction uses the engine's memory account (`accounts`). Some numbers of vLLM's account come from these
logs (`FITTED`), so they are fitted again without each source. The predicted cache size is linear in these
numbers.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from perfmodel.specs.engines.memory_facts import VLLMMemory, vllm_memory
from perfmodel.speculation.accounts.vllm import GIB
from perfmodel.speculation.capacity import weight_bytes
from perfmodel.validate.solving import Array, grouped, least_squares
from perfmodel.validate.studies.memory_logs import Logged, logs

FITTED = (
    ("activation", "flashinfer_logit_bytes"),
    ("outside", "devices_gib"),
    ("outside", "many_devices_gib"),
    ("outside", "latent_gib"),
    ("outside", "shared_memory_gib"),
    ("vision", "weights_gib"),
    ("vision", "pass_gib"),
    ("graphs", "usual_gib"),
    ("graphs", "sliding_gib"),
    ("graphs", "recurrent_gib"),
    ("graphs", "sparse_latent_gib"),
)
"""(section, name) of each number of vLLM's account that is fitted to these logs. Two similar numbers are not
fitted. The bytes per logit without FlashInfer come from another repository. The memory outside PyTorch on a
single device is printed by vLLM.
"""
NEAR = 0.08
"""Largest error, as a fraction, with which the table counts a log as near."""
FAR = 0.20
"""Largest error, as a fraction, with which the table counts a log in its second column of shares."""
BELOW_ZERO = 1e-9
"""The lower bound of a fitted number is this much below 0, because a search cannot start on a bound."""
MOST_GIB = 50.0
"""Upper bound of a fitted number, in its unit."""
SOFT_ERROR = 0.03
"""Relative error above which the loss of a log grows linearly."""
PRIOR = 1e-4
"""Weight of the size of each fitted number in the loss. It makes a number 0 if no log determines it."""


def with_values(values: Array, facts: VLLMMemory) -> VLLMMemory:
    """The numbers of the account, with these values of the fitted numbers."""
    for (section, name), value in zip(FITTED, values.tolist(), strict=True):
        facts = facts.replace(**{section: _changed(getattr(facts, section), name, value)})
    return facts


def _changed(section: Any, name: str, value: float) -> Any:
    """A section with another value of a number. In a section by version, the number changes in all versions
    that state it.
    """
    if not isinstance(section, dict):
        return section.replace(**{name: value})
    changed = {}
    for version, facts in section.items():
        is_stated = getattr(facts, name) is not None
        changed[version] = facts.replace(**{name: value}) if is_stated else facts
    return changed


class Pools(NamedTuple):
    """The memory of caches, in GiB, as a linear function of the fitted numbers.

    - base_gib: the memory if all fitted numbers are 0, ``[row]``.
    - unit_gib: the reduction of this memory per unit of each number, ``[row, number]``.
    """

    base_gib: Array
    unit_gib: Array


def pools(rows: Sequence[Logged]) -> Pools:
    """The memory of the caches of some logs. If a log states the memory of the weights, it is used instead of
    the predicted memory of the weights.
    """
    shipped = vllm_memory()

    def pools_gib(values: Array) -> Array:
        facts = with_values(values, shipped)
        return np.array([row.predicted(facts).pool_bytes / GIB for row in rows])

    base = pools_gib(np.zeros(len(FITTED)))
    units = np.eye(len(FITTED))
    taken = np.array([base - pools_gib(unit) for unit in units]).T
    tower = FITTED.index(("vision", "weights_gib"))
    for i, row in enumerate(rows):
        if row.weights_gib is not None:
            draft_bytes = row.predicted().draft_weight_bytes
            counted_gib = (weight_bytes(row.scenario) + draft_bytes) / GIB
            tower_gib = shipped.vision.weights_gib * taken[i, tower]
            base[i] += counted_gib - tower_gib
            base[i] -= row.weights_gib
            taken[i, tower] = 0.0
    return Pools(base, taken)


def fitted(base: Array, taken: Array, logged: Array) -> Array:
    """The values of the fitted numbers with the smallest relative errors of the caches' memory (soft L1). A
    number that no log determines is 0.

    - base, taken: the fields of `Pools`.
    - logged: the logged memory of the caches, in GiB.
    """

    def errors(values: Array) -> Array:
        return np.append((base - taken @ values) / logged - 1.0, PRIOR * values)

    start = np.zeros(len(FITTED))
    low = start - BELOW_ZERO
    high = start + MOST_GIB
    return np.asarray(least_squares(errors, start, low, high, soft=SOFT_ERROR).x)


def held_out(rows: Sequence[Logged]) -> Array:
    """The log error of each log, predicted with numbers that were fitted without its source."""
    with_pool = [row for row in rows if row.pool_gib is not None and row.engine == "vllm"]
    base, taken = pools(with_pool)
    logged = np.array([row.pool_gib for row in with_pool], float)
    errors = np.empty(len(rows))
    indices_of = grouped(range(len(rows)), lambda i: rows[i].source)
    for source, indices in indices_of.items():
        others = np.array([row.source != source for row in with_pool])
        values = fitted(base[others], taken[others], logged[others])
        facts = with_values(np.maximum(values, 0.0), vllm_memory())
        errors[indices] = [rows[i].log_error(facts) for i in indices]
    return errors


def figures() -> dict[str, Any]:
    """Engine -> errors with the bundled numbers, and with numbers that were fitted without each source."""
    rows = logs()
    shipped = np.array([row.log_error() for row in rows])
    left_out = held_out(rows)
    by_engine: dict[str, Any] = {}
    for engine in ("all", "vllm", "sglang"):
        index = [i for i, row in enumerate(rows) if engine in ("all", row.engine)]
        by_engine[engine] = {
            "rows": len(index),
            "sources": len({rows[i].source for i in index}),
            "shipped": _errors(shipped[index]),
            "held_out": _errors(left_out[index]),
        }
    return by_engine


def _errors(log_errors: Array) -> dict[str, float]:
    sizes = np.abs(np.expm1(log_errors))
    return {
        "median": float(np.median(sizes)),
        "bias": float(np.expm1(np.median(log_errors))),
        "near": float(np.mean(sizes <= NEAR)),
        "far": float(np.mean(sizes <= FAR)),
        "p90": float(np.quantile(sizes, 0.9)),
    }
