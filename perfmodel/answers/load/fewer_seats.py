"""Notes on the seats of a server: a smaller number that serves more tokens per second, and an engine's own
default with a draft.
"""

from collections.abc import Iterator

from perfmodel.answers.question.smaller_batch import better
from perfmodel.answers.text import Note
from perfmodel.queueing.load import Lengths, Limits
from perfmodel.queueing.steps import StepTimes


def of_seats(steps: StepTimes, lengths: Lengths, most_at_once: float) -> Iterator[str]:
    """A sentence if a server with fewer seats serves more tokens per second (the time of prompts included)
    than a server in which all requests run. steps: those of the baseline. most_at_once: requests that can be
    at the server.
    """
    each_s = steps.iterations(lengths) * steps.decode_s / steps.batches + steps.prompt_s
    run = steps.batches <= most_at_once
    yield from better(steps.batches[run], lengths.output_mean / each_s[run])


def of_default(limits: Limits, drafts: bool, most_at_once: float) -> Iterator[Note]:
    """A note if a server that drafts runs fewer requests at once, by default, than can be at the server."""
    seats = limits.drafting_seats
    if drafts and seats is not None and seats < most_at_once:
        yield Note(
            f"with a draft the engine runs {seats} requests at once by default, without one "
            f"{limits.max_num_seqs}: --max-num-seqs sets another limit"
        )
