"""llama.cpp's acceptance figures: the ``timings`` of its server's answers (`draft_n`, `draft_n_accepted`), or
the lines of its log (`pastes.llama_server_log`).

The first token of an answer comes from the prompt. Every later iteration gains one token and the accepted
ones.
"""

import itertools
from collections.abc import Sequence
from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.speculation import alpha_from_tokens_per_iteration
from perfmodel.validate.engine.acceptance.contexts import Contexts
from perfmodel.validate.engine.acceptance.counters import AcceptanceSubject, Counted, Counters
from perfmodel.validate.engine.formats.fields import value_at
from perfmodel.validate.engine.pastes.llama_server_log import LoggedAnswer, logged
from perfmodel.validate.engine.text import is_count, is_json, parse_objects
from perfmodel.validate.engine.timing import drafted_length

EARLY = 0.08
"""Share by which the mean draft may be shorter, or longer, than its full length."""
WORDS = ('"draft_n_accepted"', "draft acceptance")
CONVENTION = "llama.cpp timings: predicted_n and draft_n_accepted, iterations being what is left"
POSITIONS = "llama.cpp log: acceptance rate per position over all drafts (survival)"
LOGGED = "llama.cpp log: accepted tokens, and tokens of outputs; iterations are the rest"


def read(where: str, text: str, subject: AcceptanceSubject) -> tuple[list[Counted], str]:
    """The rate of an acceptance file's row. Raises InputError, also for drafts that stop early
    (``--draft-p-min``).
    """
    if not is_json(text):
        return _of_log(where, logged(where, text), subject)
    counts = list[list[float]]()
    prompts = list[Any]()
    for answer in parse_objects(where, text):
        timings = answer.get("timings", answer)
        values = [value_at(timings, key) for key in ("predicted_n", "draft_n", "draft_n_accepted")]
        if not all(map(is_count, values)):
            raise refuse(where, "timings", "with counts predicted_n, draft_n and draft_n_accepted", values)
        predicted, drafted, accepted = values
        counts.append([predicted - 1, drafted, accepted])
        prompt = value_at(timings, "prompt_n")
        cached = value_at(timings, "cache_n")
        prompts.append(prompt + cached if is_count(prompt) and is_count(cached) else prompt)
    rates = _alpha(where, subject.gamma, *map(sum, zip(*counts, strict=True)))
    outputs = [tokens for tokens, *_ in counts]
    return [(rates, Contexts.of_requests(prompts, outputs))], CONVENTION


def draft_length(text: str) -> int | None:
    """The draft length that follows from a log's counts; None if it has none."""
    answers = [answer for answer in logged("log", text) if answer.drafts and answer.iterations]
    if not answers:
        return None
    if any(answer.rates for answer in answers):
        return max(len(answer.rates) for answer in answers)
    drafted = sum(answer.drafts[1] for answer in answers if answer.drafts)
    return drafted_length(drafted / sum(answer.iterations or 0.0 for answer in answers))


def _of_log(
    where: str, answers: Sequence[LoggedAnswer], subject: AcceptanceSubject
) -> tuple[list[Counted], str]:
    """By position if the log has them, else one rate."""
    drafting = [answer for answer in answers if answer.drafts and answer.drafts[1]]
    if not drafting:
        raise InputError(f"{where}: counts no draft: nothing was drafted")
    contexts = Contexts.of_requests(
        [answer.prompt[1] if answer.prompt else None for answer in drafting],
        [answer.decoding[1] - 1 if answer.decoding else None for answer in drafting],
    )
    if all(answer.rates for answer in drafting):
        return [(_by_position(where, drafting), contexts)], POSITIONS
    missing = next((answer for answer in drafting if answer.decoding is None), None)
    if missing is not None:
        raise InputError(f"{where}: eval time: must stand beside the acceptance: add the lines before it")
    tokens = sum(answer.decoding[1] - 1 for answer in drafting if answer.decoding)
    drafted = sum(answer.drafts[1] for answer in drafting if answer.drafts)
    accepted = sum(answer.drafts[0] for answer in drafting if answer.drafts)
    return [(_alpha(where, subject.gamma, tokens, drafted, accepted), contexts)], LOGGED


def _by_position(where: str, answers: Sequence[LoggedAnswer]) -> dict[str, Any]:
    """Accepted tokens of each position, over the drafts of all answers."""
    drafts = 0.0
    reached = []
    for answer in answers:
        iterations = answer.iterations or 0.0
        drafts += iterations
        reached.append([iterations * rate for rate in answer.rates])
    columns = itertools.zip_longest(*reached, fillvalue=0.0)
    return Counters(drafts, tuple(map(sum, columns))).rates(where)


def _alpha(where: str, gamma: int, tokens: float, drafted: float, accepted: float) -> dict[str, Any]:
    """The constant rate that gives the counted tokens per iteration."""
    iterations = tokens - accepted
    if iterations < 1 or accepted > drafted:
        raise refuse(where, "draft_n_accepted", "at most draft_n, and below predicted_n", accepted)
    if abs(drafted / iterations - gamma) > EARLY * gamma:
        raise InputError(
            f"{where}: drafts of {drafted / iterations:.3g} tokens on average where --gamma is {gamma}: "
            "they stop early or the length is another; measure with --spec-draft-p-min 0 and "
            "--spec-draft-n-min equal to --spec-draft-n-max"
        )
    gained = min(tokens / iterations, gamma + 1.0)
    return {"alpha": float(alpha_from_tokens_per_iteration(gained, float(gamma)))}
