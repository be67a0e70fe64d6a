"""A traffic prediction as a benchmark report of llm-d (0.2.1), to lie beside measured ones of the same form.

The schema is that of the package ``llmd-benchmark-report`` 0.2.1 (llm-d-incubation, Apache-2.0). One row is
one report. It says `PREDICTED` among its keywords, and is never read as a measurement.
"""

import hashlib
import json
from importlib.metadata import version
from typing import Any

from perfmodel.answers.load.traffic import Traffic
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.traffic_rows import Percentiles, TrafficRow
from perfmodel.errors import refuse

VERSION, PREDICTED = "0.2.1", "prediction"
COMPONENT = "0.0.1"
"""Version of the schema's own components."""


def llmd_report(question: TrafficQuery, answer: Traffic) -> dict[str, Any]:
    """Of the one load that was asked: the row of the verdict's draft length.

    Raises InputError for several loads, and for a load that saturates the server, whose times have no end.
    """
    if len(answer.verdicts) != 1:
        raise refuse(
            "--report", None, "one --request-rate or --max-concurrency", f"{len(answer.verdicts)} of them"
        )
    row = next(row for row in answer.rows if row.gamma == answer.verdicts[0].gamma)
    if row.ttft_s is None or row.e2e_s is None:
        raise refuse(
            "--report", None, "a load that the server sustains", row.warnings[0] if row.warnings else "more"
        )
    asked = {name: str(value) for name, value in question.as_dict().items() if value is not None}
    identity = hashlib.sha256(json.dumps([version("perfmodel"), asked], sort_keys=True).encode()).hexdigest()[
        :32
    ]
    metadata = {"schema_version": COMPONENT, "cfg_id": identity}
    said = f"predicted by perfmodel {version('perfmodel')} ({answer.calibration.name}); nothing was run"
    return {
        "version": VERSION,
        "run": {"uid": identity, "description": said, "keywords": [PREDICTED]},
        "scenario": {
            "stack": [_engine(question, answer, row, metadata)],
            "load": {"metadata": metadata, "standardized": _load(question, row), "native": {"config": asked}},
        },
        "results": {"request_performance": {"aggregate": _performance(question, row, row.ttft_s, row.e2e_s)}},
    }


def _engine(q: TrafficQuery, a: Traffic, row: TrafficRow, metadata: dict[str, str]) -> dict[str, Any]:
    tool, _, number = a.calibration.stack.partition(" ")
    degrees = {"tp": a.tp, "dp": q.dp, "dp_local": q.dp, "ep": q.ep, "pp": 1, "workers": 1}
    drafted = (
        {"draft": a.draft, "draft_kv": a.draft_kv, "num_speculative_tokens": row.gamma} if row.gamma else {}
    )
    return {
        "metadata": metadata | {"label": "engine-0"},
        "standardized": {
            "kind": "inference_engine",
            "tool": tool,
            "tool_version": number or "unknown",
            "role": "replica",
            "replicas": 1,
            "model": {"name": a.model},
            "accelerator": {"model": a.hardware, "count": a.tp, "parallelism": degrees},
        },
        "native": {"args": drafted, "envars": {}},
    }


def _load(q: TrafficQuery, row: TrafficRow) -> dict[str, Any]:
    def length(mean: float, std: float) -> dict[str, Any]:
        ends = {
            "min": round(mean - 3**0.5 * std),
            "max": round(mean + 3**0.5 * std),
        }  # as the replay draws them
        return {
            "value": round(mean),
            **({"distribution": "uniform", **ends} if std else {"distribution": "fixed"}),
        }

    of = q.lengths
    return {
        "tool": "perfmodel",
        "tool_version": version("perfmodel"),
        "source": "unknown",
        "input_seq_len": length(of.input_mean, of.input_std),
        "output_seq_len": length(of.output_mean, of.output_std),
        **({"rate_qps": row.request_rate} if row.concurrency is None else {"concurrency": row.concurrency}),
    }


def _performance(q: TrafficQuery, row: TrafficRow, ttft: Percentiles, e2e: Percentiles) -> dict[str, Any]:
    def times(of: Percentiles, units: str) -> dict[str, Any]:
        return {"units": units, "mean": of.mean, "p50": of.p50, "p90": of.p90, "p99": of.p99}

    def mean(value: float, units: str) -> dict[str, Any]:
        return {"units": units, "mean": value}

    return {
        "requests": {
            "total": 0,  # none was sent
            "input_length": mean(q.lengths.input_mean, "count"),
            "output_length": mean(q.lengths.output_mean, "count"),
        },
        "throughput": {
            "request_rate": mean(row.requests_per_s, "queries/s"),
            "output_token_rate": mean(row.output_tokens_per_s, "tokens/s"),
        },
        "latency": {
            "time_to_first_token": times(ttft, "s"),
            "time_per_output_token": times(row.tpot_s, "s/token"),
            "request_latency": times(e2e, "s"),
        },
    }
