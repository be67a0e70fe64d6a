"""Compares the steps and prompts in a text with their predictions, and says whether the step time or the
acceptance differs too much.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.point.whatif_answer import WhatIf
from perfmodel.answers.question import Query, resolve_costs
from perfmodel.answers.text import seconds
from perfmodel.queueing.prompts import (
    engine_requests,
    layers_s,
    prompt_attention_s,
    prompt_draft_s,
    prompt_launches_s,
)
from perfmodel.speculation import Scenario
from perfmodel.validate.engine.expectation import is_rejected, usual_text
from perfmodel.validate.engine.pastes import PromptTiming
from perfmodel.validate.engine.signs import Half, signs_in
from perfmodel.validate.engine.timing import Timing
from perfmodel.validate.engine.where_to_look import unseen

MOST_WAIT = 2.0
"""Ratio of the time to the first token to the time of the prompts of all requests at once, above which
requests wait.
"""
WORSE = 1.5
"""If the ratio of measured to predicted time of a drafting step is at least this many times that of the
baseline, the draft is named as the reason. The value is a choice.
"""


@dataclass(frozen=True, slots=True)
class ComparedStep:
    """A measured step and its prediction.

    - low_s, high_s: the interval of the prediction.
    - usual: the smallest and the largest expected tokens per iteration; None if they are not known.
    - stack: the engine of the prediction.
    - why: the predicted reason why drafts pay off or not; empty if it is not known.
    """

    timing: Timing
    predicted_s: float
    low_s: float
    high_s: float
    usual: tuple[float, float] | None
    stack: str = ""
    why: str = ""

    @property
    def slow(self) -> bool:
        """Whether the step takes longer than the upper end of the predicted interval."""
        return self.timing.seconds > self.high_s

    @property
    def times_slower(self) -> float:
        """The measured time of the step over the predicted time."""
        return self.timing.seconds / self.predicted_s

    @property
    def rejected(self) -> bool:
        """Whether fewer tokens are accepted than expected (see `is_rejected`)."""
        return is_rejected(self.usual, self.timing.tokens_per_iteration)

    def in_words(self) -> Iterator[str]:
        """Printed lines about the step. They say whether its time or its acceptance differs too much from the
        prediction.
        """
        timing = self.timing
        words = f"{timing.name}: {seconds(timing.seconds)} per iteration"
        if timing.gamma > 0:
            words += f", {timing.tokens_per_iteration:.2f} tokens per iteration"
        ratio = self.times_slower
        if self.slow:
            verdict = f"{ratio:.1f} times as long: the iteration is off"
        elif timing.seconds >= self.low_s:
            verdict = "within it"
        else:
            verdict = f"{ratio:.2f} times as long: faster than predicted"
        interval = f"{seconds(self.low_s)} to {seconds(self.high_s)}"
        yield f"{words}; predicted {seconds(self.predicted_s)} ({interval}): {verdict}"
        if self.rejected and self.usual is not None:
            yield (
                f"the acceptance is off: {timing.tokens_per_iteration:.2f} tokens per iteration, expected "
                f"{usual_text(self.usual)}: check the draft's checkpoint, the chat template and sampling"
            )


def compared(query: Query, timing: Timing, usual: tuple[float, float] | None) -> ComparedStep:
    """Compares a measured step with its prediction.

    - usual: see `ComparedStep`.
    """
    drafting = timing.gamma > 0
    question = replace(
        query,
        batch=max(round(timing.batch), 1),
        context=max(round(timing.context), 1),
        gamma=timing.gamma,
        alpha=None if drafting else query.alpha,
        rate=None,
        acceptance=None,
        task=None,
        tokens_per_iteration=timing.tokens_per_iteration if drafting else None,
    )
    answer = whatif(question)
    why = "; remedy: ".join([answer.reason, *(remedy.text for remedy in answer.remedies[:1])])
    return ComparedStep(timing, *_predicted(answer, drafting), usual, answer.calibration.stack, why)


def reasons(steps: Sequence[ComparedStep], text: str) -> str:
    """Possible reasons, found in the text, why steps are slower than predicted; empty if no step is."""
    if not any(step.slow for step in steps):
        return ""
    seen = "; ".join(sign.meaning for sign in signs_in(text) if sign.half is not Half.ACCEPTANCE)
    of_the_draft = _slowed_by_drafts(steps)
    possible = f"; possible: {unseen(steps[0].stack, of_the_draft=of_the_draft)}"
    if of_the_draft:
        return f"most time is lost with the draft: {seen or f'nothing in the text explains it{possible}'}"
    return f"seen in the text: {seen or f'nothing that explains it{possible}'}"


def _slowed_by_drafts(steps: Sequence[ComparedStep]) -> bool:
    """Whether drafting steps are slow, and the baseline at each of their batches is as predicted or much less
    slow.
    """
    baselines = _baselines(steps)
    for step in steps:
        baseline = baselines.get(round(step.timing.batch))
        if step.slow and step.timing.gamma:
            if baseline is None:
                return False
            if baseline.slow and step.times_slower < WORSE * baseline.times_slower:
                return False
    return any(step.slow and step.timing.gamma for step in steps)


def _baselines(steps: Sequence[ComparedStep]) -> dict[int, ComparedStep]:
    """Batch, rounded -> its baseline step."""
    return {round(step.timing.batch): step for step in steps if not step.timing.gamma}


def gained_by_drafts(steps: Sequence[ComparedStep]) -> Iterator[str]:
    """The measured and the predicted speedup of each drafting step over the baseline of its batch. If drafts
    do not pay off in either, the predicted reason follows.
    """
    baselines = _baselines(steps)
    for step in steps:
        baseline = baselines.get(round(step.timing.batch))
        if baseline is None or not step.timing.gamma:
            continue
        gained = step.timing.tokens_per_iteration
        measured = gained * baseline.timing.seconds / step.timing.seconds
        predicted = gained * baseline.predicted_s / step.predicted_s
        words = f"{step.timing.name}: measured {measured:.2f} times the baseline, predicted {predicted:.2f}"
        does_not_pay = max(measured, predicted) <= 1.0 and step.why
        yield f"{words}: {step.why}" if does_not_pay else words


def waits(query: Query, timings: Sequence[Timing]) -> Iterator[str]:
    """Printed lines about times to the first token: those of single requests, and those that are much longer
    than the prompts of all requests at once take.
    """
    scenario = resolve_costs(query)
    for timing in timings:
        if timing.ttft_s is None or not timing.prompt:
            continue
        prompt = PromptTiming(timing.prompt, 0.0, 0.0)
        prompt_s = predicted_prompt_s(scenario, prompt, drafts=timing.gamma > 0)
        first = f"the first token takes {seconds(timing.ttft_s)}, a prompt alone {seconds(prompt_s)}"
        if timing.batch <= 1.0:
            yield f"{timing.name}: {first}"
        elif timing.ttft_s > MOST_WAIT * prompt_s * timing.batch:
            yield (
                f"{timing.name}: the load is off: {first}: requests wait for seats, or behind other prompts"
            )


def uncounted_draft(draft: str | None, timings: Sequence[Timing]) -> str:
    """A note for the case that the user named a draft but no step counts drafted tokens; otherwise empty."""
    if draft is None or not timings or any(timing.gamma for timing in timings):
        return ""
    return (
        f"the text counts no draft, so it is compared with decoding without one; if {draft} drafted, state "
        "its length and the tokens per iteration: --from FILE,gamma=N,accepted=X"
    )


def _predicted(answer: WhatIf, drafting: bool) -> tuple[float, float, float]:
    """The predicted seconds of an iteration, or of a baseline step, and the two ends of their interval."""
    if drafting:
        predicted_s = answer.iteration_s
        interval = answer.iteration_interval
    else:
        predicted_s = answer.ar_tpot_s
        interval = answer.ar_tpot_interval
    low_s, high_s = interval or (predicted_s, predicted_s)
    return predicted_s, low_s, high_s


def compared_prompts(query: Query, prompts: list[PromptTiming], drafts: bool) -> list[str]:
    """Printed lines that compare the times of prompts with their predictions, which have no interval."""
    scenario = resolve_costs(query)
    lines = []
    for prompt in prompts:
        words = f"prompt of {prompt.tokens:.0f} tokens"
        if prompt.cached:
            words += f" behind {prompt.cached:.0f} cached"
        predicted_s = predicted_prompt_s(scenario, prompt, drafts)
        lines.append(f"{words}: {seconds(prompt.seconds)}; predicted {seconds(predicted_s)}")
    return lines


def predicted_prompt_s(scenario: Scenario, prompt: PromptTiming, drafts: bool) -> float:
    """The predicted seconds of the prefill of one prompt alone.

    - drafts: whether a draft also reads the prompt.
    """
    of_engine = engine_requests(scenario)
    whole = prompt.cached + prompt.tokens
    attention = float(prompt_attention_s(scenario, whole))
    if prompt.cached:
        attention -= float(prompt_attention_s(scenario, prompt.cached))
    layers = float(layers_s(scenario, prompt.tokens, of_engine))
    draft = float(prompt_draft_s(scenario, prompt.tokens)) if drafts else 0.0
    launches_s = prompt_launches_s(scenario, of_engine, prompt.tokens, drafts)
    return layers + attention + draft + launches_s


def predicted_prompt_token_s(scenario: Scenario, tokens: int | float, drafts: bool) -> float:
    """The predicted seconds per token of the prefill of one prompt alone, without cached tokens.

    - drafts: whether a draft also reads the prompt.
    """
    alone = PromptTiming(tokens, cached=0.0, seconds=math.nan)
    return predicted_prompt_s(scenario, alone, drafts) / tokens
