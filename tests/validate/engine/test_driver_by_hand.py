"""What the chunks and counters of a live server come to, by hand."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from perfmodel.errors import InputError
from perfmodel.validate.engine import driver
from perfmodel.validate.engine.acceptance.counters import Counters
from perfmodel.validate.engine.streamed_answer import Chunk, StreamedAnswer
from tests.refusals import refused

LOAD = driver.ServerLoad(batch=2, prompt=100, tokens=50)
EVEN = (0.01,) * 20
LATE = (0.0, 0.02) * 10


@pytest.mark.parametrize(
    ("gamma", "tokens", "gaps", "counted", "seconds", "gained", "how"),
    [
        # of 100 chunks in a second of two answers
        (0, 100, EVEN, None, 0.01, 1.0, "median time"),
        (0, 105, EVEN, None, 0.01, 1.0, "median time"),
        (0, 106, EVEN, None, 2 / 106, 1.0, "stretch over tokens"),
        (0, 100, LATE, None, 0.02, 1.0, "stretch over its chunks"),
        (3, 250, LATE, None, 0.02, 2.5, "stretch over its chunks"),
        (3, 404, EVEN, None, 0.01, 4.0, "median time"),
        (3, 406, EVEN, None, 0.0, 0.0, "chunks of 4.06 tokens at K = 3 and no counters"),
        (3, 90, EVEN, None, 0.01, 1.0, "median time"),
        (3, 272, EVEN, 2.5, 0.01, 2.72, "median time"),
        (3, 278, EVEN, 2.5, 2.5 * 2 / 278, 2.5, "Omega of the counters"),
        (3, 222, EVEN, 2.5, 2.5 * 2 / 222, 2.5, "Omega of the counters"),
        (3, 500, EVEN, 2.5, 2.5 * 2 / 500, 2.5, "Omega of the counters"),
        (0, 100, EVEN, 2.5, 0.01, 1.0, "median time"),
    ],
)
def test_what_chunks_and_counters_come_to(gamma, tokens, gaps, counted, seconds, gained, how) -> None:
    first = driver.Stretch(gaps, 60, 0.5, 0.6 * tokens, 10.0)
    second = driver.Stretch(gaps, 40, 0.5, 0.4 * tokens, 20.0)
    stretches = [first, second]
    counters = Counters(10.0, (10.0 * (counted - 1.0),)) if counted else None
    if not seconds:
        refused(how, driver.timing_of, "u", LOAD, gamma, stretches, counters)
        return
    t = driver.timing_of("u", LOAD, gamma, stretches, counters)
    assert (t.seconds, t.tokens_per_iteration) == pytest.approx((seconds, gained))
    assert t.how.startswith(how)
    assert t.batch == 2.0
    assert t.context == 115.0
    assert t.prompt == 100.0
    assert t.output == 50.0
    assert len(t.samples) == 40


def test_rounds_that_another_process_slowed_do_not_count() -> None:
    first = driver.Stretch(EVEN, 60, 0.5, 60.0, 10.0)
    second = driver.Stretch(EVEN, 40, 0.5, 40.0, 20.0)
    calm = [first, second]
    slower = tuple(1.2 * gap for gap in EVEN)
    slow = driver.Stretch(slower, 50, 0.6, 50.0, 15.0)
    quiet = driver.timing_of("u", LOAD, 0, calm, None)
    busy = driver.timing_of("u", LOAD, 0, [first, slow, second], None)
    assert busy == structs.replace(quiet, how=quiet.how + "; 1 disturbed rounds left out")
    read_together = (0.0001,) * 30 + (0.05,) * 18
    late = driver.Stretch(read_together, 48, 0.9, 48.0, 15.0)
    assert driver.timing_of("u", LOAD, 0, [*calm, late], None) == busy


def answer(total: int | None, *chunks: tuple[float, int | None]) -> StreamedAnswer:
    return StreamedAnswer([Chunk(*chunk) for chunk in chunks], total)


@pytest.mark.parametrize(
    ("events", "tokens", "grown"),
    [
        ((2, 3, 1), 2 + 3 + 1 + 4, (1 + 2.5 + 2 + 2.5) / 2),  # 1 and 2 before, half of the others
        ((None, None, None), 2 * 2 + 2 * 2, (2 + 2 + 2 + 2) / 2),  # totals of 6 and 8, pieces of 2
    ],
)
def test_a_stretch_lies_between_the_last_beginning_and_the_first_end(events, tokens, grown) -> None:
    """From 2 to 4 s: of the first answer two pieces behind the one at 2 s, of the second two behind its
    first.
    """
    counted = bool(events[0])
    one = answer(6, (1.0, 1 if counted else None), (2.5, events[0]), (4.0, events[1]))
    begins = (2.0, 2 if counted else None)
    goes_on = (4.0, 4 if counted else None)
    two = answer(8, begins, (3.0, events[2]), goes_on, (6.0, 1))
    stretch = driver.stretch_of([one, two], LOAD)
    assert stretch.chunks == 4
    assert stretch.seconds == 2.0
    assert stretch.gaps == (1.5, 1.0, 1.0)
    assert stretch.tokens == tokens
    assert stretch.grown == grown
    uncounted = answer(None, (1.0, None), (2.0, None), (3.0, None))
    assert driver.stretch_of([uncounted], LOAD) == driver.Stretch((1.0, 1.0), 2, 2.0, 2.0, 2.0)
    late = answer(3, (10.0, 1), (11.0, 1), (12.0, 1))
    refused(
        "--new-tokens: B2-P100-N50: the first output ended before the last began",
        driver.stretch_of,
        [one, late],
        LOAD,
    )


class Staggered:
    """A server whose second answer begins 3 s after the first, in chunks every half second; three chunks more
    in each round.
    """

    shown = "u"

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def get(self, path: str) -> None:
        """No counters."""

    def answers(self, model: str, prompts: list[list[int]], tokens: int) -> list[StreamedAnswer]:
        self.lengths.append(tokens)
        count = 3 * len(self.lengths)
        return [self.chunks(begin_s, count) for begin_s in (0.0, 3.0)]

    def chunks(self, begin_s: float, count: int) -> StreamedAnswer:
        times_s = [begin_s + i / 2 for i in range(count)]
        return answer(None, *((time_s, None) for time_s in times_s))


class Apart(Staggered):
    """A server whose second answer begins when the first has ended, however long they are."""

    def answers(self, model: str, prompts: list[list[int]], tokens: int) -> list[StreamedAnswer]:
        self.lengths.append(tokens)
        return [answer(3, (at_s, 1), (at_s + 1, 1)) for at_s in (0.0, 10.0)]


def test_answers_that_do_not_meet_are_asked_to_be_longer() -> None:
    """After a round for warm-up they meet in the third."""
    server = Staggered()
    assert driver.measure(server, "m", 320, LOAD, 0, 1, rounds=1).batch == 2.0
    assert server.lengths == [16, 50, 100]


def test_answers_that_never_meet_are_refused() -> None:
    server = Apart()
    late = replace(LOAD, tokens=1000)
    refused("the first output ended before the last began", driver.measure, server, "m", 320, late, 0, 1)
    assert server.lengths == [16, 1000, 2000, 4000]


@pytest.mark.parametrize(
    ("before", "event", "chunks", "total"),
    [
        (2, {"choices": [{"text": "x"}], "usage": {"completion_tokens": 3}}, [1], 3),
        (2, {"choices": [{"text": ""}], "usage": {"completion_tokens": 3}}, [1], 3),
        (2, {"choices": [{"text": ""}], "usage": {"completion_tokens": 2}}, [], 2),
        (2, {"choices": [], "usage": {"completion_tokens": 4}}, [], 4),
        (2, {"usage": {"completion_tokens": 4}}, [], 4),
        (2, {"choices": {"text": "x"}}, [None], 2),
        (2, {"choices": [{"text": ""}]}, [], 2),
        (None, {"choices": [{"text": "x"}], "usage": {"completion_tokens": 1}}, [1], 1),
        (None, {"choices": [{"text": ""}], "usage": {"completion_tokens": 0}}, [], 0),
    ],
)
def test_an_event_of_a_stream(before, event, chunks, total) -> None:
    """Of four tokens that were asked for, some of which may have come before."""
    answer = StreamedAnswer([], before)
    answer.add(event, 1.0, 4)
    assert [chunk.tokens for chunk in answer.chunks] == chunks
    assert answer.total == total


class OneRound:
    """A server that takes one round of prompts and refuses the next one."""

    def __init__(self) -> None:
        self.rounds: list[tuple[list[list[int]], int]] = []

    def answers(self, model: str, prompts: list[list[int]], tokens: int) -> list[StreamedAnswer]:
        if self.rounds:
            raise InputError("--url: one round is enough")
        self.rounds.append((prompts, tokens))
        return []

    def get(self, path: str) -> None:
        """No page."""


@pytest.mark.parametrize(("tokens", "warm"), [(100, 16), (12, 12)])
def test_the_first_round_is_short_and_without_special_tokens(tokens: int, warm: int) -> None:
    """A sixteenth of 240 tokens is left out at either end."""
    server: Any = OneRound()
    load = driver.ServerLoad(batch=50, prompt=50, tokens=tokens)
    refused("one round is enough", driver.measure, server, "m", 240, load, gamma=0, seed=1)
    ((prompts, first_tokens),) = server.rounds
    drawn = {token for prompt in prompts for token in prompt}
    assert (min(drawn), max(drawn), first_tokens) == (15, 224, warm)
