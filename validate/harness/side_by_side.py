"""Compares baseline and speculative decoding of the same prompts: speed, acceptance, phases, and whether the
outputs are equal.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

import torch

from perfmodel.validate.decoder import (
    Decoder,
    Generation,
    Model,
    Request,
    State,
    captured,
    collect,
    make_decoder,
    start_random,
    watched,
)
from perfmodel.validate.decoder.graphs import capture
from perfmodel.validate.harness.clock import Clock, clock_for, free_memory, keep_busy

PHASE_REPEATS = 5
"""Number of timed calls of a phase. The median counts."""


@dataclass(frozen=True)
class Difference:
    """The first token that differs from the baseline's: its sequence and position, and how strongly the model
    prefers one of the two tokens.

    - margin: the difference between the scores of the two tokens, in units of the rounding error of a score.
      In a near-tie it is a few units.
    """

    sequence: int
    position: int
    margin: float


@dataclass(frozen=True)
class TimedRun:
    """One timed run of decoding.

    - seconds: the time of the loop of `timed_iterations` iterations, in which the batch gained `timed_tokens`
      tokens. It excludes prefill and iterations after the last sequence was finished.
    - draft_s: one draft step (the time of all drafting divided by gamma).
    - verify_s: one verification. Both are timed alone, with the caches after prefill.
    - counts: see `factory.watched`.
    """

    request: Request
    generation: Generation
    seconds: float
    timed_tokens: int
    timed_iterations: int
    prefill_s: float
    draft_s: float
    verify_s: float
    difference: Difference | None = None
    counts: object = None

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second of the batch; 0 if the first token ended every sequence."""
        return self.timed_tokens / self.seconds if self.timed_tokens else 0.0

    @property
    def outside_s(self) -> float:
        """Seconds of an iteration outside its passes, which are the cost of the loop."""
        return self.seconds / self.timed_iterations - self._passes_s()

    def speedup_from_parts(self, plain: "TimedRun") -> float:
        """The speedup that follows from separately measured acceptance and phases: Omega T_T / (gamma T_D +
        T_V). Omega is the number of tokens per iteration.

        - plain: the run without a draft.
        """
        return self.generation.tokens_per_iteration * plain.verify_s / self._passes_s()

    def _passes_s(self) -> float:
        return self.request.gamma * self.draft_s + self.verify_s


def run(
    model: Model,
    request: Request,
    prompts: list[list[int]],
    draft: Model | None = None,
    seed: int = 0,
    graphs: bool = False,
    clock: Clock | None = None,
) -> TimedRun:
    """Decodes the prompts once and times the prefill, the phases alone, and then the whole loop.

    With scripted acceptance there is no prefill, and the caches have random values.

    - graphs: whether iterations are replayed as CUDA graphs; iterations before the capture are not timed.
    - clock: the device's own by default.
    """
    free_memory(model.device)  # of the caches of an earlier run
    decoder = make_decoder(model, request, draft)
    clock = clock or clock_for(model.device)
    counter = watched(decoder)
    clock.mark()
    if request.script is None:
        state = decoder.start(prompts, request.new_tokens, seed)
    else:
        state = start_random(decoder, len(prompts[0]), request.new_tokens, seed)
    clock.mark()
    (prefill_s,) = clock.laps()
    if graphs:
        capture(decoder, state)
    alone = phases(decoder, state, clock, graphs)
    draft_s = alone.propose_s / max(1, request.gamma)
    had = int(state.length.sum())
    before = int(state.histogram.sum(1).max())
    clock.mark()
    decoder.finish(state, clock.mark)
    laps = clock.laps()
    generation = collect(state, prompts)
    iterations = generation.iterations - before
    gained = int(state.length.sum()) - had
    return TimedRun(
        request,
        generation,
        seconds=sum(laps[:iterations]),
        timed_tokens=gained,
        timed_iterations=iterations,
        prefill_s=prefill_s,
        draft_s=draft_s,
        verify_s=alone.verify_s,
        counts=counter.counts if counter else None,
    )


class PhaseTimes(NamedTuple):
    """Median seconds of all draft steps of an iteration, and of one verification. Each is timed alone."""

    propose_s: float
    verify_s: float


@torch.inference_mode()
def phases(decoder: Decoder, state: State, clock: Clock, graphs: bool = False) -> PhaseTimes:
    """Times drafting and verification of an iteration alone. No tokens are committed."""
    draft_tokens = decoder.propose(state).tokens.clone()
    decoder.verify(state, draft_tokens)

    def seconds(work: Callable[[], object]) -> float:
        ready = captured(work, state.generator) if graphs else work
        keep_busy(decoder.target.model.device)
        for _ in range(PHASE_REPEATS):
            clock.mark()
            ready()
        clock.mark()
        return median(clock.laps())

    propose_s = seconds(lambda: decoder.propose(state)) if decoder.gamma else 0.0
    return PhaseTimes(propose_s, seconds(lambda: decoder.verify(state, draft_tokens)))


class PlainAndDrafted(NamedTuple):
    """The run without a draft, and the runs of all requests, on the same prompts."""

    plain: TimedRun
    drafted: list[TimedRun]


def compare(
    model: Model,
    requests: list[Request],
    prompts: list[list[int]],
    draft: Model | None = None,
    seed: int = 0,
    graphs: bool = False,
) -> PlainAndDrafted:
    """Decodes the prompts without a draft and with each request. Outputs of greedy runs are compared with
    those of the run without a draft.
    """
    plain = run(model, requests[0].plain(), prompts, None, seed, graphs)
    runs = []
    for request in requests:
        of_request = draft if request.draft == "model" else None
        timed = run(model, request, prompts, of_request, seed, graphs)
        if request.sampling.greedy and request.script is None:
            first = difference(model, request, prompts, plain.generation, timed.generation)
            timed = replace(timed, difference=first)
        runs.append(timed)
    return PlainAndDrafted(plain, runs)


@torch.inference_mode()
def difference(
    model: Model, request: Request, prompts: list[list[int]], plain: Generation, other: Generation
) -> Difference | None:
    """The first difference of the sequence in which it has the largest margin; None if all tokens are
    equal.
    """
    differences = []
    for row, prompt in enumerate(prompts):
        plain_tokens = plain.tokens[row]
        other_tokens = other.tokens[row]
        position = _first_difference(plain_tokens, other_tokens)
        if position is None:
            continue
        margin = math.inf  # if one text ended, no tie of scores explains the difference
        if position < min(len(plain_tokens), len(other_tokens)):
            scores = _scores(model, request, prompt + plain_tokens[:position])
            rounding = torch.finfo(model.dtype).eps * scores.abs().max().item()
            gap = scores[plain_tokens[position]] - scores[other_tokens[position]]
            margin = abs(gap.item()) / rounding
        differences.append(Difference(row, position, margin))
    return max(differences, key=lambda d: d.margin, default=None)


def _first_difference(tokens: list[int], other_tokens: list[int]) -> int | None:
    """The first position at which two texts differ, or at which one of them ends; None for equal texts."""
    for position, (token, other_token) in enumerate(zip(tokens, other_tokens, strict=False)):
        if token != other_token:
            return position
    if len(tokens) == len(other_tokens):
        return None
    return min(len(tokens), len(other_tokens))


def _scores(model: Model, request: Request, text: list[int]) -> torch.Tensor:
    """The scores of the token after a text, [vocabulary], in double precision."""
    room = request.context + request.new_tokens  # the length that rope was made for
    alone = Request(
        1,
        len(text),
        room - len(text),
        attention=request.attention,
        kv_dtype=request.kv_dtype,
    )
    decoder = make_decoder(model, alone)
    tokens = torch.tensor([text], device=model.device)
    length = torch.tensor([len(text)], device=model.device)
    hidden, _ = decoder.target.prefill(tokens, length, 0)
    return model.logits(hidden)[0].double()
