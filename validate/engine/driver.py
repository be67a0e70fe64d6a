"""Measures one point of a running server: several answers at once, timed while all of them decode.

The prompts are new random tokens each time, so no prefix is cached. Only the window between the latest first
token and the earliest last token counts. In this window, the server decodes the whole batch and does nothing
else.
"""

import random
import statistics
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from perfmodel.errors import InputError
from perfmodel.validate.engine.acceptance import vllm
from perfmodel.validate.engine.acceptance.counters import Counters
from perfmodel.validate.engine.api_key import without_words
from perfmodel.validate.engine.client import LiveServer
from perfmodel.validate.engine.formats.fields import bunched, thinned
from perfmodel.validate.engine.formats.vllm import ONE_CHUNK
from perfmodel.validate.engine.streamed_answer import StreamedAnswer
from perfmodel.validate.engine.timing import Timing

TIMED_ROUNDS = 4
"""Timed rounds of a point, after one warm-up round."""
CALM = 1.1
"""A round does not count if its mean gap between chunks is above the shortest mean gap times this factor,
because other processes disturbed it. Chunks that are read late and together do not change the mean gap.
"""
WARM_TOKENS = 16
"""Largest number of tokens per answer in the warm-up round."""
SPECIAL = 16
"""One part in this many of the vocabulary is left out at either end, because special tokens are there."""
LONGER = (1, 2, 4)
"""Factors on the length of answers, which are tried in turn until all answers overlap in time."""


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """The load of one point: `batch` answers of `tokens` tokens at once, each to a prompt of `prompt`
    tokens.
    """

    batch: int
    prompt: int
    tokens: int

    @property
    def key(self) -> str:
        """The name of the point in a journal."""
        return f"B{self.batch}-P{self.prompt}-N{self.tokens}"


TRIAL = ServerLoad(batch=1, prompt=8, tokens=12)
"""The request of the trial answer."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Measurements in the decoding window of a round, over all answers.

    - gaps: seconds between chunks.
    - chunks, tokens: the total numbers of chunks and tokens in the window.
    - seconds: the length of the window.
    """

    gaps: tuple[float, ...]
    chunks: int
    seconds: float
    tokens: float
    grown: float
    """Mean number of tokens of an answer in the middle of the window."""


def measure(
    server: LiveServer,
    model: str,
    vocabulary: int,
    load: ServerLoad,
    gamma: int,
    seed: int,
    rounds: int = TIMED_ROUNDS,
) -> Timing:
    """Times one point. Raises InputError if it cannot be timed.

    - gamma: the served draft length.
    - seed: with the load, it determines the random prompts.
    """
    draw = random.Random(f"{seed} {load.key}")
    _answers(server, model, vocabulary, replace(load, tokens=min(load.tokens, WARM_TOKENS)), draw)
    before = counters(server)
    stretches = [_stretch(server, model, vocabulary, load, draw) for _ in range(rounds)]
    after = counters(server)
    counted = after.since(before) if before and after else None
    if counted and (gamma or counted.drafts):
        counted.check(f"--url: {server.shown}/metrics, {load.key} at K = {gamma}")
    return timing_of(server.shown, load, gamma, stretches, counted)


def _stretch(
    server: LiveServer, model: str, vocabulary: int, load: ServerLoad, draw: random.Random
) -> Stretch:
    """Runs one round. If the answers do not overlap in time, the round is repeated with longer answers
    (`LONGER`).
    """
    for times in LONGER:
        answers = _answers(server, model, vocabulary, replace(load, tokens=times * load.tokens), draw)
        start, end = decoding_window(answers)
        if start < end:
            break
    return stretch_of(answers, load)


def counters(server: LiveServer) -> Counters | None:
    """The acceptance counters on the ``/metrics`` page of a vLLM server; None if it has none."""
    text = server.get("/metrics")
    if text is None or "vllm:spec_decode_num_drafts" not in text:
        return None
    try:
        return vllm.read_counters(f"--url: {server.shown}/metrics", text)
    except InputError as error:
        raise without_words(error) from None


def served_gamma(server: LiveServer) -> int | None:
    """The served draft length, which is the number of positions that the metrics count; None if they count
    none.
    """
    counted = counters(server)
    return len(counted.accepted) if counted else None


def check(server: LiveServer, model: str, vocabulary: int) -> None:
    """Requests one short answer before a record is begun. Raises InputError, which names the server's
    fault.
    """
    _answers(server, model, vocabulary, TRIAL, random.Random())


def _answers(
    server: LiveServer, model: str, vocabulary: int, load: ServerLoad, draw: random.Random
) -> list[StreamedAnswer]:
    """Requests a whole batch of answers at the same time. Raises InputError if one fails."""
    low = vocabulary // SPECIAL
    high = vocabulary - low
    prompts = []
    for _ in range(load.batch):
        prompts.append([draw.randrange(low, high) for _ in range(load.prompt)])
    return server.answers(model, prompts, load.tokens)


class DecodingWindow(NamedTuple):
    """The time in which all streams of a round decode, in seconds of the client's clock."""

    start_s: float
    end_s: float


def decoding_window(answers: list[StreamedAnswer]) -> DecodingWindow:
    """The window from the latest first chunk to the earliest last chunk."""
    latest_first_s = max(answer.chunks[0].at_s for answer in answers)
    earliest_last_s = min(answer.chunks[-1].at_s for answer in answers)
    return DecodingWindow(latest_first_s, earliest_last_s)


def stretch_of(answers: list[StreamedAnswer], load: ServerLoad) -> Stretch:
    """The part of a round in which all answers decode. Raises InputError if it is empty."""
    start, end = decoding_window(answers)
    gaps: list[float] = []
    chunks = 0
    tokens = 0.0
    grown = 0.0
    for answer in answers:
        before = 0.0
        inside = 0.0
        for at_s, chunk_tokens in _timed_tokens(answer):
            if at_s <= start:
                before += chunk_tokens
            elif at_s <= end:
                inside += chunk_tokens
                chunks += 1
        for earlier, later in pairwise(answer.chunks):
            if start <= earlier.at_s and later.at_s <= end:
                gaps.append(later.at_s - earlier.at_s)
        tokens += inside
        grown += before + inside / 2
    if len(gaps) < len(answers) or not tokens:
        raise InputError(
            f"--new-tokens: {load.key}: the first output ended before the last began; more tokens are "
            f"needed, given {load.tokens}"
        )
    return Stretch(tuple(gaps), chunks, end - start, tokens, grown / len(answers))


def _timed_tokens(answer: StreamedAnswer) -> list[tuple[float, float]]:
    """The arrival time and the number of tokens of each chunk. If the server does not report the tokens of
    each chunk, the total is spread evenly over the chunks.
    """
    count = len(answer.chunks)
    mean = (answer.total or count) / count
    is_stated = all(chunk.tokens is not None for chunk in answer.chunks)
    timed = []
    for chunk in answer.chunks:
        tokens = chunk.tokens if is_stated and chunk.tokens is not None else mean
        timed.append((chunk.at_s, tokens))
    return timed


def timing_of(
    url: str, load: ServerLoad, gamma: int, stretches: list[Stretch], counted: Counters | None
) -> Timing:
    """The time of a step, from the rounds of a point.

    - counted: the acceptance counts of the same rounds; None if the server does not count.

    Raises InputError if neither chunks nor counters determine the number of iterations.
    """
    least_gap_s = min(statistics.fmean(s.gaps) for s in stretches)
    calm = [s for s in stretches if statistics.fmean(s.gaps) <= CALM * least_gap_s]
    counted_gain = counted.tokens_per_iteration if counted and counted.drafts and gamma else None
    step = _step_of(f"--url: {load.key}", load.batch, gamma, calm, counted_gain)
    how = step.how
    if disturbed := len(stretches) - len(calm):
        how += f"; {disturbed} disturbed rounds left out"
    return Timing.checked(
        where=f"{url}: {load.key}",
        seconds=step.seconds,
        batch=float(load.batch),
        context=load.prompt + statistics.fmean(stretch.grown for stretch in calm),
        gamma=gamma,
        tokens_per_iteration=min(max(step.gained, 1.0), gamma + 1.0),
        prompt=float(load.prompt),
        output=float(load.tokens),
        how=how,
        samples=thinned(_gaps(calm)),
    )


class _Step(NamedTuple):
    """The time of an iteration, and the tokens that a sequence gains in it.

    - how: how the time was computed.
    """

    seconds: float
    gained: float
    how: str


def _step_of(
    where: str, batch: int, gamma: int, stretches: list[Stretch], counted_gain: float | None
) -> _Step:
    """The iteration of some rounds. Usually, each chunk is one iteration, which takes the median gap.

    The time per token is used instead if chunks have several tokens without a draft, if the client read
    chunks late, or if the counters contradict the chunks.

    - counted_gain: the tokens per iteration by the server's counters; None without counters.

    Raises InputError if a chunk has more tokens than an iteration can gain and there are no counters.
    """
    gaps = _gaps(stretches)
    tokens = sum(stretch.tokens for stretch in stretches)
    chunk_tokens = tokens / sum(s.chunks for s in stretches)
    token_s = sum(s.seconds for s in stretches) * batch / tokens
    if counted_gain is not None and abs(chunk_tokens / counted_gain - 1) > 2 * ONE_CHUNK:
        return _Step(counted_gain * token_s, counted_gain, "Omega of the counters x time of a token")
    if gamma and counted_gain is None and chunk_tokens > gamma + 1 + ONE_CHUNK:
        raise InputError(f"{where}: chunks of {chunk_tokens:.2f} tokens at K = {gamma} and no counters")
    if not gamma and chunk_tokens > 1 + ONE_CHUNK:
        return _Step(token_s, 1.0, "stretch over tokens (chunks of several tokens)")
    gained = chunk_tokens if gamma else 1.0
    if bunched(gaps):
        return _Step(chunk_tokens * token_s, gained, "stretch over its chunks (read late, several at once)")
    return _Step(statistics.median(gaps), gained, "median time between chunks, one an iteration")


def _gaps(stretches: list[Stretch]) -> list[float]:
    """The seconds between chunks of all rounds."""
    return [gap for stretch in stretches for gap in stretch.gaps]
