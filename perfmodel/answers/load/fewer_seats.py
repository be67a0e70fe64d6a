"""Whether a server with fewer seats serves more tokens per second, once all are taken."""

from collections.abc import Iterator

from perfmodel.answers.question.smaller_batch import better
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.steps import StepTimes


def of_seats(steps: StepTimes, lengths: Lengths, most_at_once: float) -> Iterator[str]:
    """A sentence if fewer requests at once, with their prompts, serve more than all that can run. steps: of
    the baseline. most_at_once: requests that can be at the server.
    """
    each_s = steps.iterations(lengths) * steps.decode_s / steps.batches + steps.prompt_s
    run = steps.batches <= most_at_once
    yield from better(steps.batches[run], lengths.output_mean / each_s[run])
