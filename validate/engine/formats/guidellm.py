"""``guidellm benchmark run`` reports (0.8, JSON): one benchmark a concurrency.

Its inter-token latency is (last - first token) / (tokens - 1): the TPOT of the other clients. Acceptance is not in it.
"""

from typing import Any

from perfmodel.errors import InputError
from perfmodel.validate.engine.formats.fields import number, of_client, optional
from perfmodel.validate.engine.timing import Said, Timing, speculation

TITLE = "guidellm benchmark run (JSON)"
KEYS = ({"benchmarks", "metadata"},)
_OK = "metrics.{}.successful.{}"


def read(where: str, report: dict[str, Any], said: Said) -> list[Timing]:
    """One step a benchmark."""
    runs = report["benchmarks"]
    if not isinstance(runs, list) or not runs or not all(isinstance(run, dict) for run in runs):
        raise InputError(f"{where}: benchmarks: must be a list of one or more benchmarks")
    return [_run(f"{where}: benchmark {n}", run, said) for n, run in enumerate(runs, 1)]


def _run(where: str, run: dict[str, Any], said: Said) -> Timing:
    def of(metric: str, figure: str = "median") -> float:
        return number(where, run, _OK.format(metric, figure))

    prompt, output = of("prompt_token_count", "mean"), of("output_token_count", "mean")
    tpot, ttft = of("inter_token_latency_ms") / 1e3, of("time_to_first_token_ms") / 1e3
    streams, prompts = optional(where, run, "config.strategy.streams"), of("prompt_token_count", "count")
    batch = streams or said.batch or of("request_concurrency", "mean")
    return of_client(where, tpot, speculation(where, said, None, None), batch, (prompt, output), ttft, prompts)
