"""Results of InferenceX (the processed JSON of its runs): times in seconds, one run an object.

`conc` requests at a time; ten times as many are sent. Acceptance is not in it.
The keys are from memory, not yet held against a file of InferenceX itself.
"""

from typing import Any

from perfmodel.validate.engine.formats.fields import number, of_client, optional, positive
from perfmodel.validate.engine.timing import Said, Timing, needed, speculation

TITLE = "InferenceX result JSON"
PROMPTS_EACH = 10


def is_format(data: list[dict[str, Any]]) -> bool:
    """Whether every object is a run."""
    return all("conc" in run and "median_tpot" in run for run in data)


def read(where: str, data: list[dict[str, Any]], said: Said) -> list[Timing]:
    """One step a run; prompt and answer lengths stand in it or behind the file's name."""
    many = len(data) > 1
    return [_run(f"{where}: run {n}" if many else where, run, said) for n, run in enumerate(data, 1)]


def _run(where: str, run: dict[str, Any], said: Said) -> Timing:
    prompt = needed(where, "input", optional(where, run, "isl") or said.input)
    output = needed(where, "output", optional(where, run, "osl") or said.output)
    tpot, batch = positive(where, "median_tpot", number(where, run, "median_tpot")), number(where, run, "conc")
    drafted, ttft = speculation(where, said, None, None), optional(where, run, "median_ttft")
    return of_client(where, tpot, drafted, batch, (prompt, output), ttft, PROMPTS_EACH * batch)
