"""``python -m sglang.bench_serving --output-file`` (0.5): one JSON object a run.

`accept_length` is tokens per iteration, bonus token included; the draft length is in the server's own arguments.
"""

from typing import Any

from perfmodel.errors import InputError
from perfmodel.validate.engine.formats.fields import number, of_client, optional, positive
from perfmodel.validate.engine.timing import Said, Timing, speculation

TITLE = "sglang.bench_serving --output-file"
KEYS = ({"accept_length", "median_tpot_ms"},)


def read(where: str, run: dict[str, Any], said: Said) -> list[Timing]:
    """The run's step."""
    accepted, info = optional(where, run, "accept_length"), run.get("server_info")
    served = info if isinstance(info, dict) else {}
    if served.get("speculative_adaptive"):
        raise InputError(f"{where}: speculative_adaptive is on: the draft length changed during the run; serve one")
    steps = optional(where, served, "speculative_num_draft_tokens") if accepted else None
    drafted = speculation(where, said, accepted or None, int(steps) - 1 if steps else None)
    completed = positive(where, run, "completed")
    prompt = number(where, run, "total_input_tokens") / completed
    output = number(where, run, "total_output_tokens") / completed
    tpot, ttft = positive(where, run, "median_tpot_ms") / 1e3, number(where, run, "median_ttft_ms") / 1e3
    batch = optional(where, run, "max_concurrency") or said.batch or number(where, run, "concurrency")
    return [of_client(where, tpot, drafted, min(batch, completed), (prompt, output), ttft, completed)]
