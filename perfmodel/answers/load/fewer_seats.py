"""Whether a server with fewer seats serves more tokens per second, once all are taken."""

from collections.abc import Iterator

from perfmodel.answers.question.smaller_batch import better
from perfmodel.queueing.load import Lengths
from perfmodel.queueing.steps import StepTimes


def of_seats(steps: StepTimes, lengths: Lengths) -> Iterator[str]:
    """A sentence if fewer requests at once, with their prompts, serve more than all seats. steps: of the
    baseline.
    """
    each_s = steps.iterations(lengths) * steps.decode_s / steps.batches + steps.prompt_s
    yield from better(steps.batches, lengths.output_mean / each_s)
