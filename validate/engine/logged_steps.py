"""The steps without a draft that the log of a server times one by one (llama.cpp, TensorRT-LLM)."""

from dataclasses import dataclass
from statistics import fmean, median

from perfmodel.errors import InputError
from perfmodel.validate.engine.pastes import form_of
from perfmodel.validate.engine.timing import GivenFacts


@dataclass(frozen=True, slots=True)
class LoggedSteps:
    """The steps of a log with the most running requests.

    - running: number of running requests.
    - context: mean number of cached tokens of a request.
    - step_s: median time of a step, in seconds.
    """

    running: float
    context: float
    step_s: float

    @classmethod
    def of(cls, where: str, text: str, context: float | None) -> "LoggedSteps | None":
        """The steps of a log; None for any other text. Raises InputError if the log does not state the
        contexts, or if its steps verify drafts.

        - context: cached tokens of a request, for a log that does not state them.
        """
        form = form_of(text)
        if form is None or not form.of_server:
            return None
        steps = form.read(where, text, GivenFacts(input=context, accepted=1.0))
        if any(step.gamma for step in steps):
            raise InputError(f"{where}: has steps with drafts, and no counts of them; use --from")
        if not steps:
            return None
        running = max(step.batch for step in steps)
        loaded = [step for step in steps if step.batch == running]
        return cls(
            running,
            context or fmean(step.context for step in loaded),
            median(step.seconds for step in loaded),
        )
