"""Checks whether a server is as fast as predicted, and if not, whether the acceptance, the step time or the
load is the reason.

The measured times come from the server's own log or page of metrics. The prediction is the answer of `whatif`
for the same number of running requests, context and draft length, and for the acceptance that the server
counts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfmodel.answers.text import seconds
from perfmodel.validate.engine.expectation import Expectation, usual_text
from perfmodel.validate.engine.pace import Pace
from perfmodel.validate.engine.prefix_hits import prefix_hits
from perfmodel.validate.engine.signs import Half, Sign, signs_in
from perfmodel.validate.engine.unlike_predicted import unlike_predicted
from perfmodel.validate.engine.where_to_look import unseen

MOST_OF_IT = 2 / 3
"""If prompts take at least this share of the excess over the prediction, they explain it."""
LEAST_SHARE = 0.05
"""Smallest share of the time at which the output mentions prompts."""
OFF_SHARE = 0.25
"""Smallest share of the time at which prompts count as too much load. The value is a choice: a healthy vLLM
on a CPU spent 15 % on them.
"""


@dataclass(frozen=True, slots=True)
class Health:
    """The result of the check.

    - half: the part that differs from the prediction: the acceptance, the iteration or the load.
    - lines: the printed lines.
    """

    half: Half
    lines: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        """Whether no part of the server is known to differ from the prediction."""
        return self.half in (Half.NONE, Half.OPEN)

    @property
    def assumed(self) -> str:
        """The assumption on which the advice about the draft length is based, if the server differs from the
        prediction.
        """
        return "the counted acceptance" if self.half is Half.ACCEPTANCE else "a server as fast as predicted"


@dataclass(frozen=True, slots=True)
class _Measured:
    """The measured time of an iteration, and its prediction with the ends of the interval, in seconds.

    - prompt_share: share of the time that prompts take, 0 to 1.
    """

    iteration_s: float
    predicted_s: float
    low_s: float
    high_s: float
    prompt_share: float

    @classmethod
    def of(cls, pace: Pace, expectation: Expectation) -> "_Measured":
        low_s, high_s = expectation.interval
        return cls(
            iteration_s=pace.tpot_s * expectation.gained,
            predicted_s=expectation.predicted.iteration_s,
            low_s=low_s,
            high_s=high_s,
            prompt_share=min(pace.prompt_tokens_per_s * expectation.prompt_token_s, 1.0),
        )

    @property
    def times_slower(self) -> float:
        """The measured time of an iteration over the predicted time."""
        return self.iteration_s / self.predicted_s

    @property
    def too_slow(self) -> bool:
        """Whether an iteration takes longer than the upper end of the predicted interval."""
        return self.iteration_s > self.high_s

    @property
    def as_predicted_without_prompts(self) -> bool:
        """Whether an iteration without the time of prompts is below the upper end of the predicted
        interval.
        """
        return self.iteration_s * (1.0 - self.prompt_share) <= self.high_s

    @property
    def explained_by_prompts(self) -> bool:
        """Whether prompts take all or most of the time above the prediction."""
        prompts_s = self.iteration_s * self.prompt_share
        excess_s = self.iteration_s - self.predicted_s
        return self.as_predicted_without_prompts or prompts_s >= MOST_OF_IT * excess_s

    @property
    def slowed_by_usual_prompts(self) -> bool:
        """Whether prompts explain all of the excess and take no larger share of the time than on a healthy
        server.
        """
        return self.as_predicted_without_prompts and self.prompt_share < OFF_SHARE


def health(pace: Pace, expectation: Expectation, text: str) -> Health:
    """Compares the speed of a server with the prediction.

    - text: the log of the server.
    """
    measured = _Measured.of(pace, expectation)
    signs = [*signs_in(text), *unlike_predicted(text, expectation.predicted)]
    slow = measured.too_slow and not (measured.slowed_by_usual_prompts and _is_unhindered(pace, signs))
    half = _half_off(slow, measured, expectation, pace, signs)
    lines = [
        _verdict_line(half, pace, measured),
        *_rejection_lines(expectation),
        *_time_lines(measured, slow),
        *_waiting_lines(half, pace),
        *_cause_lines(half, _load_in_words(pace, measured, text), signs, _possible(expectation)),
    ]
    return Health(half, tuple(lines))


def _half_off(
    slow: bool, measured: _Measured, expectation: Expectation, pace: Pace, signs: Sequence[Sign]
) -> Half:
    """The part that differs from the prediction. If both differ, the iteration is named before the
    acceptance, unless the rejected tokens cost more time.

    - slow: whether an iteration takes too long.
    """
    if not slow:
        return Half.ACCEPTANCE if expectation.rejected else Half.NONE
    if _is_loaded(measured, pace, signs) and not _decided(signs, Half.STEP):
        return Half.LOAD
    if expectation.times_fewer > measured.times_slower:
        return Half.ACCEPTANCE
    if pace.partly_idle and not any(sign.decides for sign in signs):
        return Half.OPEN
    return Half.STEP


def _is_loaded(measured: _Measured, pace: Pace, signs: Sequence[Sign]) -> bool:
    """Whether prompts explain the excess over the prediction, or requests wait or are preempted."""
    return measured.explained_by_prompts or pace.waiting >= 1 or _decided(signs, Half.LOAD)


def _is_unhindered(pace: Pace, signs: Sequence[Sign]) -> bool:
    """Whether no request waits, and the log has no sign of a slow step or a full cache."""
    return pace.waiting < 1 and not any(sign.decides for sign in signs)


def _decided(signs: Sequence[Sign], half: Half) -> bool:
    """Whether a single sign in the log shows that this part differs from the prediction."""
    return any(sign.half is half and sign.decides for sign in signs)


def _verdict_line(half: Half, pace: Pace, m: _Measured) -> str:
    """The first line: the part that differs from the prediction, and the times."""
    taken = f"measured {seconds(pace.tpot_s)} per token, {seconds(m.iteration_s)} per iteration"
    interval = f"{seconds(m.low_s)} to {seconds(m.high_s)}"
    return f"health: {half.value}: {taken}; predicted {seconds(m.predicted_s)} per iteration ({interval})"


def _rejection_lines(expectation: Expectation) -> Iterator[str]:
    """A line about what to check if fewer tokens are accepted than expected."""
    if expectation.rejected and expectation.usual is not None:
        usual = usual_text(expectation.usual)
        yield (
            f"{expectation.gained:.2f} tokens per iteration, below the expected {usual}: "
            "check the draft's checkpoint, the chat template, sampling and context"
        )


def _time_lines(m: _Measured, slow: bool) -> Iterator[str]:
    """Lines about an iteration whose time is outside the predicted interval.

    - slow: whether the iteration takes longer than the usual prompts explain.
    """
    if m.too_slow:
        yield f"an iteration takes {m.times_slower:.1f} times as long as predicted"
        if not slow:
            prompts_s = m.iteration_s * m.prompt_share
            yield f"prompts take {seconds(prompts_s)} of it; the rest is as long as predicted"
    if m.iteration_s < m.low_s:
        yield (
            f"faster than predicted: an iteration takes {m.times_slower:.2f} times as long; are the model, "
            "its format and the device those of the server?"
        )


def _possible(expectation: Expectation) -> str:
    """The causes that can slow the server without a line in its log, in words."""
    answer = expectation.predicted
    words = unseen(answer.calibration.stack, of_the_draft=False)
    return f"a draft launched by the host, {words}" if answer.query.gamma else words


def _waiting_lines(half: Half, pace: Pace) -> Iterator[str]:
    """A line about waiting requests if the running ones are as fast as predicted."""
    if half is Half.NONE and pace.waiting >= 1:
        yield f"{pace.waiting:.0f} requests wait: this server takes no more of them at once"


def _cause_lines(half: Half, load: Sequence[str], signs: Sequence[Sign], possible: str) -> Iterator[str]:
    """Lines about the causes that the log shows, and about the possible causes that it does not show.

    - load: what the load shows, in words.
    - possible: the possible causes that the log does not show, in words.
    """
    named = [sign.meaning for sign in signs if sign.half is not Half.ACCEPTANCE]
    rejecting = [sign.meaning for sign in signs if sign.half is Half.ACCEPTANCE]
    if half is Half.ACCEPTANCE and rejecting:
        yield f"seen in the log: {'; '.join(rejecting)}"
    if half in (Half.STEP, Half.LOAD):
        seen = [*named, *load] if half is Half.LOAD else named
        yield f"seen in the log: {'; '.join(seen) or 'nothing that explains it'}"
    if half is Half.STEP and not named:
        yield f"not seen, but possible: {possible}"
    if half is Half.OPEN:
        yield (
            "the log has no interval inside a load, only its first and last ones: these are partly idle "
            "and look slow; let a load run for three lines of the log and ask again"
        )


def _load_in_words(pace: Pace, m: _Measured, text: str) -> list[str]:
    """The number of waiting requests, the load by prompts, and the hits of the prefix cache, in words."""
    words = []
    if pace.waiting:
        words.append(f"{pace.waiting:.0f} requests wait")
    if m.prompt_share >= LEAST_SHARE:
        words.append(
            f"{pace.prompt_tokens_per_s:.0f} prompt tokens per second take {m.prompt_share:.0%} of the time: "
            "smaller chunks of prompts, or another server for them"
        )
        if (hits := prefix_hits("", text)) is not None:
            words.append(f"{hits:.0%} of the prompt tokens were in the prefix cache")
    return words
