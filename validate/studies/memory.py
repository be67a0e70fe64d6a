"""Caches that servers logged at their start (``results/published/kv_tokens.csv``), next to the account's.

Numbers of vLLM's account that are means of such logs (`FITTED`) are fitted anew without each source. The
memory of the caches is linear in them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from perfmodel.answers.question import Query, resolve
from perfmodel.reading import read_csv
from perfmodel.specs.engines.memory_facts import VLLMMemory, vllm_memory
from perfmodel.speculation import Acceptance, KVCache, Scenario, kv_cache_of
from perfmodel.speculation.accounts.vllm import GIB, VLLMAccount
from perfmodel.speculation.capacity import weight_bytes
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.solving import Array, least_squares

WHOLE = ("tp", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "gamma")
"""Columns of whole numbers; an empty one is the engine's default."""
TEXT = ("source", "engine", "version", "model", "weights", "kv_dtype", "hardware", "draft", "left_out")
REAL = ("memory_fraction", "weights_gib", "pool_gib", "kv_tokens")
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
"""Section and name of the numbers that are means of these logs. Bytes of a logit without FlashInfer are those
of another repository, and single devices print their memory outside PyTorch.
"""
NEAR, FAR = 0.08, 0.20
"""Errors that a table counts."""


@dataclass(frozen=True, slots=True)
class Logged:
    """One log. pool_gib: memory of the caches on one device; kv_tokens: their tokens. One of them may be
    None.
    """

    name: str
    source: str
    engine: str
    scenario: Scenario
    gamma: int
    memory_fraction: float | None
    weights_gib: float | None
    pool_gib: float | None
    kv_tokens: float | None

    def predicted(self, facts: VLLMMemory | None = None) -> KVCache:
        """The caches by the account, with other numbers for vLLM if `facts` is given."""
        scenario = self.scenario
        if facts is not None and isinstance(scenario.account, VLLMAccount):
            scenario = replace(scenario, account=replace(scenario.account, facts=facts))
        return kv_cache_of(scenario, self.gamma, self.memory_fraction)

    def log_error(self, facts: VLLMMemory | None = None) -> float:
        """Predicted over logged tokens, in logarithms; over logged memory where no tokens were logged."""
        cache = self.predicted(facts)
        if self.kv_tokens is not None:
            return float(np.log(max(cache.kv_tokens, 1) / self.kv_tokens))
        assert self.pool_gib is not None
        return float(np.log(max(cache.pool_bytes, 1.0) / GIB / self.pool_gib))


@cache
def logs() -> tuple[Logged, ...]:
    """The rows that count: their inputs and their caches were printed."""
    lines = read_csv(BUNDLED / "published" / "kv_tokens.csv", ("id", "url", *TEXT, *WHOLE, *REAL))
    return tuple(_logged(row) for _, row in lines if not row["left_out"])


def _logged(row: dict[str, str]) -> Logged:
    numbers: dict[str, Any] = {name: int(row[name]) if row[name] else None for name in WHOLE}
    numbers |= {name: float(row[name]) if row[name] else None for name in REAL}
    gamma = numbers.pop("gamma") or 0
    logged = {name: numbers.pop(name) for name in ("weights_gib", "pool_gib", "kv_tokens")}
    words: dict[str, Any] = {name: row[name] or None for name in TEXT[3:8]}
    engine = f"{row['engine']}@{row['version']}"
    question = Query(batch=1, context=1024, gamma=gamma, engine=engine, **words, **numbers)
    scenario = resolve(question, Acceptance.from_alpha(0.0))
    fraction = question.memory_fraction
    name = f"{row['model']}, {row['hardware']}"
    return Logged(name, row["source"], row["engine"], scenario, gamma, fraction, **logged)


def values_of(facts: VLLMMemory) -> Array:
    """The fitted numbers, in the order of `FITTED`."""
    return np.array([_places(facts, section, name)[-1] for section, name in FITTED], float)


def with_values(values: Array, facts: VLLMMemory) -> VLLMMemory:
    """The account with these numbers."""
    for (section, name), value in zip(FITTED, values.tolist(), strict=True):
        part: Any = getattr(facts, section)
        if isinstance(part, dict):
            changed: Any = {
                version: each.replace(**{name: value})
                if version != _first(part) and getattr(each, name) is not None
                else each
                for version, each in part.items()
            }
        else:
            changed = part.replace(**{name: value})
        facts = facts.replace(**{section: changed})
    return facts


def _first(versions: dict[str, Any]) -> str:
    """The version of V0, whose numbers are not fitted."""
    return next(iter(versions))


def _places(facts: VLLMMemory, section: str, name: str) -> list[float]:
    part: Any = getattr(facts, section)
    if not isinstance(part, dict):
        return [getattr(part, name)]
    return [v for each in part.values() if (v := getattr(each, name)) is not None]


def pools(rows: Sequence[Logged]) -> tuple[Array, Array]:
    """Memory of the caches in GiB without any fitted number, ``[row]``, and what one unit of each takes,
    ``[row, number]``. The weights are the logged ones, where a log has them.
    """
    shipped = vllm_memory()

    def of(values: Array) -> Array:
        facts = with_values(values, shipped)
        return np.array([row.predicted(facts).pool_bytes / GIB for row in rows])

    base = of(np.zeros(len(FITTED)))
    taken = np.array([base - of(unit) for unit in np.eye(len(FITTED))]).T
    tower = FITTED.index(("vision", "weights_gib"))
    for at, row in enumerate(rows):
        if row.weights_gib is not None:
            counted_gib = weight_bytes(row.scenario) / GIB
            tower_gib = shipped.vision.weights_gib * taken[at, tower]
            base[at] += counted_gib - tower_gib
            base[at] -= row.weights_gib
            taken[at, tower] = 0.0
    return base, taken


def fitted(base: Array, taken: Array, logged: Array) -> Array:
    """The numbers of the least relative errors of the caches' memory (soft L1); 0 for one without a row."""

    def errors(values: Array) -> Array:
        return np.append((base - taken @ values) / logged - 1.0, PRIOR * values)

    start = np.zeros(len(FITTED))
    return np.asarray(least_squares(errors, start, start - AT_LEAST, start + MOST, soft=SOFT).x)


AT_LEAST, MOST = 1e-9, 50.0
"""Bounds of a fitted number, the lower one below 0."""
SOFT = 0.03
"""Relative error from which a log counts linearly."""
PRIOR = 1e-4
"""Weight of each fitted number itself among the errors, so that one without a row is 0."""


def held_out(rows: Sequence[Logged]) -> Array:
    """Log errors, each with the numbers that the other sources give."""
    known = [row for row in rows if row.pool_gib is not None and row.engine == "vllm"]
    base, taken = pools(known)
    logged = np.array([row.pool_gib for row in known], float)
    found: dict[int, float] = {}
    for source in {row.source for row in rows}:
        others = np.array([row.source != source for row in known])
        values = fitted(base[others], taken[others], logged[others])
        facts = with_values(np.maximum(values, 0.0), vllm_memory())
        found |= {id(row): row.log_error(facts) for row in rows if row.source == source}
    return np.array([found[id(row)] for row in rows])


def figures() -> dict[str, Any]:
    """Errors by engine, as shipped and with each source left out."""
    rows = logs()
    off = np.array([row.log_error() for row in rows])
    others = held_out(rows)
    sources = np.array([row.source for row in rows])
    engines = np.array([row.engine for row in rows])
    parts = {"all": np.ones(len(rows), bool), "vllm": engines == "vllm", "sglang": engines == "sglang"}
    return {
        name: {
            "rows": int(part.sum()),
            "sources": len(set(sources[part])),
            "shipped": _errors(off[part]),
            "held_out": _errors(others[part]),
        }
        for name, part in parts.items()
    }


def _errors(logs_of: Array) -> dict[str, float]:
    off = np.abs(np.expm1(logs_of))
    figures = {
        "median": np.median(off),
        "bias": np.expm1(np.median(logs_of)),
        "near": np.mean(off <= NEAR),
        "far": np.mean(off <= FAR),
        "p90": np.quantile(off, 0.9),
    }
    return {name: float(value) for name, value in figures.items()}
