"""Results of InferenceX (the processed JSON of its runs): times in seconds, one run an object.

`conc` requests at a time; ten times as many are sent. Acceptance is not in it.
The keys are from memory, not yet held against a file of InferenceX itself.
"""

from typing import Any

from perfmodel.validate.engine.formats.fields import number, of_client, optional, positive
from perfmodel.validate.engine.timing import Said, Timing, needed, speculation

TITLE = "InferenceX result JSON"
KEYS = ({"conc", "median_tpot"},)
PROMPTS_EACH = 10


def read(where: str, run: dict[str, Any], said: Said) -> list[Timing]:
    """The run's step; prompt and answer lengths stand in it or behind the file's name."""
    prompt = needed(where, "input", optional(where, run, "isl") or said.input)
    output = needed(where, "output", optional(where, run, "osl") or said.output)
    tpot, batch = positive(where, run, "median_tpot"), number(where, run, "conc")
    drafted, ttft = speculation(where, said, None, None), optional(where, run, "median_ttft")
    return [of_client(where, tpot, drafted, batch, (prompt, output), ttft, PROMPTS_EACH * batch)]
