"""Answers of llama.cpp's server, whose ``timings`` say what prompt and answer took; one object a request.

Requests are taken as sent one after the other (``batch=N`` says otherwise). With a draft model every iteration gains
one token beside those accepted, the first token coming from the prompt.
"""

from typing import Any

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import middle, number, optional, positive
from perfmodel.validate.engine.timing import Said, Timing, speculation

TITLE = "answers of llama.cpp's server (timings)"
KEYS = ({"timings"}, {"predicted_ms"})


def read(where: str, answer: dict[str, Any], said: Said) -> list[Timing]:
    """The answer's step."""
    timings = answer.get("timings", answer)
    tokens = number(where, timings, "predicted_n") - 1
    prompt = number(where, timings, "prompt_n") + (optional(where, timings, "cache_n") or 0.0)
    accepted = optional(where, timings, "draft_n_accepted") or 0.0
    iterations = tokens - accepted
    if iterations <= 0:
        raise refuse(where, "draft_n_accepted", "below predicted_n, which counts a token of each iteration", accepted)
    drafted = optional(where, timings, "draft_n")
    length, gained = speculation(where, said, tokens / iterations if drafted else None, None)
    timing = Timing(
        where=where,
        seconds=positive(where, timings, "predicted_ms") / 1e3 / iterations,
        batch=said.batch or 1.0,
        context=middle(prompt, tokens),
        gamma=length,
        tokens_per_iteration=gained,
        prompt=prompt,
        output=tokens + 1,
        how="answer time over iterations",
    )
    return [timing]
