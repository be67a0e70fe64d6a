"""Reads the cache sizes that servers logged at their start (``results/published/kv_tokens.csv``), and
predicts them.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from perfmodel.answers.question import Query, resolve
from perfmodel.reading import read_csv
from perfmodel.specs.engines.memory_facts import VLLMMemory
from perfmodel.speculation import Acceptance, KVCapacity, Scenario, kv_cache_of
from perfmodel.speculation.accounts.vllm import GIB, VLLMAccount
from perfmodel.validate.records import BUNDLED

WHOLE_NUMBERS = ("tp", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "gamma")
"""Columns with whole numbers. An empty cell means the engine's default."""
SERVED = ("model", "weights", "kv_dtype", "hardware", "draft")
"""Columns with text that are also fields of a question."""
WORDS = ("source", "engine", "version", *SERVED, "left_out")
"""All columns with text, except the id and the address of the source."""
REAL_NUMBERS = ("memory_fraction", "weights_gib", "pool_gib", "kv_tokens")


@dataclass(frozen=True, slots=True)
class Logged:
    """The cache size that one server logged. Either `pool_gib` or `kv_tokens` can be None.

    - weights_gib: the logged memory of the weights of target and draft; None if it was not logged.
    - pool_gib: the memory of the caches on one device, in GiB.
    - kv_tokens: the number of tokens that fit in the caches.
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

    def predicted(self, facts: VLLMMemory | None = None) -> KVCapacity:
        """The predicted cache size.

        - facts: the numbers of vLLM's account; by default the bundled numbers.
        """
        scenario = self.scenario
        if facts is not None and isinstance(scenario.account, VLLMAccount):
            scenario = replace(scenario, account=scenario.account.replace(facts=facts))
        return kv_cache_of(scenario, self.gamma, self.memory_fraction)

    def log_error(self, facts: VLLMMemory | None = None) -> float:
        """The log error of `kv_tokens`, or that of `pool_gib` if no number of tokens was logged.

        - facts: see `predicted`.
        """
        cache = self.predicted(facts)
        if self.kv_tokens is not None:
            return float(np.log(max(cache.kv_tokens, 1) / self.kv_tokens))
        assert self.pool_gib is not None
        return float(np.log(max(cache.pool_bytes, 1.0) / GIB / self.pool_gib))


@cache
def logs() -> tuple[Logged, ...]:
    """The logs that count: those that state the cache size and all inputs of a prediction."""
    columns = ("id", "url", *WORDS, *WHOLE_NUMBERS, *REAL_NUMBERS)
    lines = read_csv(BUNDLED / "published" / "kv_tokens.csv", columns)
    return tuple(_logged(row) for _, row in lines if not row["left_out"])


def _logged(row: dict[str, str]) -> Logged:
    columns = (*SERVED, *WHOLE_NUMBERS, *REAL_NUMBERS)
    cells: dict[str, Any] = {name: _cell(name, row[name]) for name in columns}
    gamma = cells.pop("gamma") or 0
    weights_gib = cells.pop("weights_gib")
    pool_gib = cells.pop("pool_gib")
    kv_tokens = cells.pop("kv_tokens")
    engine = f"{row['engine']}@{row['version']}"
    question = Query(batch=1, context=1024, gamma=gamma, engine=engine, **cells)
    return Logged(
        name=f"{row['model']}, {row['hardware']}",
        source=row["source"],
        engine=row["engine"],
        scenario=resolve(question, Acceptance.from_alpha(0.0)),
        gamma=gamma,
        memory_fraction=question.memory_fraction,
        weights_gib=weights_gib,
        pool_gib=pool_gib,
        kv_tokens=kv_tokens,
    )


def _cell(column: str, text: str) -> int | float | str | None:
    """The value of a cell; None if it is empty."""
    if not text:
        return None
    if column in WHOLE_NUMBERS:
        return int(text)
    return float(text) if column in REAL_NUMBERS else text
