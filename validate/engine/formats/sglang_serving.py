"""``python -m sglang.bench_serving --output-file`` (0.5): one JSON object a run.

`accept_length` is tokens per iteration, bonus token included; the draft length is in the server's own arguments.
"""

from typing import Any

from perfmodel.errors import InputError
from perfmodel.validate.engine.formats.fields import number, of_client, optional, positive
from perfmodel.validate.engine.timing import Said, Timing, speculation

TITLE = "sglang.bench_serving --output-file"


def is_format(data: list[dict[str, Any]]) -> bool:
    """Whether every object is a run."""
    return all("accept_length" in run and "median_tpot_ms" in run for run in data)


def read(where: str, data: list[dict[str, Any]], said: Said) -> list[Timing]:
    """One step a run."""
    many = len(data) > 1
    return [_run(f"{where}: line {n}" if many else where, run, said) for n, run in enumerate(data, 1)]


def _run(where: str, run: dict[str, Any], said: Said) -> Timing:
    accepted, info = optional(where, run, "accept_length"), run.get("server_info")
    served = info if isinstance(info, dict) else {}
    if served.get("speculative_adaptive"):
        raise InputError(f"{where}: speculative_adaptive is on: the draft length changed during the run; serve one")
    steps = optional(where, served, "speculative_num_draft_tokens") if accepted else None
    drafted = speculation(where, said, accepted or None, int(steps) - 1 if steps else None)
    completed = positive(where, "completed", number(where, run, "completed"))
    prompt = number(where, run, "total_input_tokens") / completed
    output = number(where, run, "total_output_tokens") / completed
    tpot = positive(where, "median_tpot_ms", number(where, run, "median_tpot_ms")) / 1e3
    batch = optional(where, run, "max_concurrency") or said.batch or number(where, run, "concurrency")
    ttft = number(where, run, "median_ttft_ms") / 1e3
    return of_client(where, tpot, drafted, min(batch, completed), (prompt, output), ttft, completed)
