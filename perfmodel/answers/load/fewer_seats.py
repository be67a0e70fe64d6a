"""Notes on the largest number of requests that a server runs at once (its *seats*). Fewer seats may give more
tokens per second. The default number of seats of an engine may be smaller with a draft.
"""

from collections.abc import Iterator

from perfmodel.answers.question.smaller_batch import better, clearly_best
from perfmodel.answers.text import Note
from perfmodel.operations import Array
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.steps import StepTimes


def of_seats(steps: StepTimes, lengths: Lengths, most_at_once: float) -> Iterator[str]:
    """A sentence if a server with fewer seats has a higher throughput than a server with a seat for every
    request.

    - steps: the passes of the baseline.
    - most_at_once: the largest number of requests that can be at the server.
    """
    yield from better(*_throughputs(steps, lengths, most_at_once))


def better_seats(steps: StepTimes, lengths: Lengths, most_at_once: float) -> int | None:
    """The number of seats that the sentence of `of_seats` names, with the same arguments; None without a
    sentence.
    """
    batches, tokens_per_s = _throughputs(steps, lengths, most_at_once)
    best = clearly_best(tokens_per_s)
    return None if best is None else int(batches[best])


def _throughputs(steps: StepTimes, lengths: Lengths, most_at_once: float) -> tuple[Array, Array]:
    """The numbers of seats, and the throughput with each of them. The throughput includes the time of
    prompts.
    """
    decode_s = steps.iterations(lengths) * steps.decode_s / steps.batches
    request_s = decode_s + steps.prompt_s  # a request's share of the server's time
    can_run = steps.batches <= most_at_once
    return steps.batches[can_run], lengths.output_mean / request_s[can_run]


def of_default(limits: Limits, drafts: bool, most_at_once: float) -> Iterator[Note]:
    """A note if a server with a draft has fewer seats by default than requests can be at the server."""
    seats = limits.drafting_seats
    if drafts and seats is not None and seats < most_at_once:
        yield Note(
            f"with a draft the engine runs {seats} requests at once by default, without one "
            f"{limits.max_num_seqs}: --max-num-seqs sets another limit"
        )
