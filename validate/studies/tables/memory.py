"""The table of KV tokens: predictions compared with the numbers that engines logged."""

from perfmodel.validate.studies.memory import FAR as FAR_TOKENS, NEAR as NEAR_TOKENS
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.tables.cells import Record, Rows, figures, percent

MEMORY_MODES = {"shipped": "as shipped", "held_out": "its source left out"}
"""Key in the accuracy record -> description of the constants with which the logs are predicted."""


def memory(record: Record) -> Rows:
    """The errors of KV tokens by engine, with the shipped constants and with constants that were fitted to
    other sources.
    """
    near = f"logs with an error of at most {percent(NEAR_TOKENS, 0)} %, in %"
    far = f"logs with an error of at most {percent(FAR_TOKENS, 0)} %, in %"
    yield [
        "KV tokens",
        "logs",
        "sources",
        "median error %",
        "bias %",
        near,
        far,
        "error in % that 90 % of logs do not exceed",
    ]
    for engine, logs in record.get("memory", {}).items():
        counts = figures(logs, "rows", "sources")
        title = ENGINES.get(engine, engine)
        for mode, words in MEMORY_MODES.items():
            cells = figures(logs[mode], "median", "bias", "near", "far", "p90", digits=0)
            yield [f"{title}, {words}", *counts, *cells]
