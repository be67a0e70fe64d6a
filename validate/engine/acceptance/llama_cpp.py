"""llama.cpp's acceptance figures: the ``timings`` of its server's answers (`draft_n`, `draft_n_accepted`).

The first token of an answer comes from the prompt. Every later iteration gains one token and the accepted
ones.
"""

from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.speculation import alpha_from_tokens_per_iteration
from perfmodel.validate.engine.acceptance.contexts import Contexts
from perfmodel.validate.engine.acceptance.counters import AcceptanceSubject, Counted
from perfmodel.validate.engine.formats.fields import found
from perfmodel.validate.engine.text import is_count, parse_objects

EARLY = 0.08
"""Share by which the mean draft may be shorter, or longer, than its full length."""
WORDS = ('"draft_n_accepted"',)
CONVENTION = "llama.cpp timings: predicted_n and draft_n_accepted, iterations being what is left"


def read(where: str, text: str, subject: AcceptanceSubject) -> tuple[list[Counted], str]:
    """The rate of an acceptance file's row. Raises InputError, also for drafts that stop early
    (``--draft-p-min``).
    """
    gamma = subject.gamma
    counts = list[list[float]]()
    prompts = list[Any]()
    for answer in parse_objects(where, text):
        timings = answer.get("timings", answer)
        values = [found(timings, key) for key in ("predicted_n", "draft_n", "draft_n_accepted")]
        if not all(map(is_count, values)):
            raise refuse(where, "timings", "with counts predicted_n, draft_n and draft_n_accepted", values)
        counts.append([values[0] - 1, *values[1:]])
        prompt, cached = (found(timings, key) for key in ("prompt_n", "cache_n"))
        prompts.append(prompt + cached if is_count(prompt) and is_count(cached) else prompt)
    tokens, drafted, accepted = map(sum, zip(*counts, strict=True))
    iterations = tokens - accepted
    if iterations < 1 or accepted > drafted:
        raise refuse(where, "draft_n_accepted", "at most draft_n, and below predicted_n", accepted)
    if abs(drafted / iterations - gamma) > EARLY * gamma:
        raise InputError(
            f"{where}: drafts of {drafted / iterations:.3g} tokens on average where --gamma is {gamma}: "
            "they stop early or the length is another; measure with --spec-draft-p-min 0 and "
            "--spec-draft-n-min equal to --spec-draft-n-max"
        )
    alpha = float(alpha_from_tokens_per_iteration(min(tokens / iterations, gamma + 1.0), float(gamma)))
    return [({"alpha": alpha}, Contexts.of_requests(prompts, [count for count, *_ in counts]))], CONVENTION
