"""Stand-ins for SGLang's simulator and for vLLM without forward passes: their contracts with a predictor, and
plain schedulers on a logical clock.

A closed loop: a client sends its next request when the one before is answered.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Request:
    """What a predictor sees of a request: the tokens of this pass, and those already cached."""

    extend_length: int
    past_kv_length: int
    unread: int = 0
    left: float = 0.0
    first_s: float = 0.0
    ended_s: float = 0.0
    output: int = 0


@dataclass
class Batch:
    requests: list[Request] = field(default_factory=list)


def simulate(predictor, inputs, outputs, clients: int, gained: float, budget: int) -> tuple[float, float]:
    """Mean TPOT in seconds, and output tokens per second, where prompts run in passes of their own, before
    anything decodes, as in SGLang. gained: tokens of a request per decoding pass. budget: prompt tokens of a
    pass.
    """
    waiting = deque(
        Request(0, 0, unread=int(p), left=float(d - 1), output=int(d))
        for p, d in zip(inputs, outputs, strict=True)
    )
    served = list(waiting)
    reading: list[Request] = []
    running: list[Request] = []
    time = 0.0
    while waiting or reading or running:
        seats = clients - len(running) - len(reading)
        reading += [waiting.popleft() for _ in range(min(seats, len(waiting)))]
        if reading:
            time += infer(predictor, part_of(reading, budget))
            for request in reading:
                request.past_kv_length += request.extend_length
                request.first_s = time
            running += [request for request in reading if not request.unread]
            reading = [request for request in reading if request.unread]
            continue
        for request in running:
            request.extend_length = 1
        time += infer(predictor, running)
        for request in running:
            request.past_kv_length += round(gained)
            request.left -= gained
            request.ended_s = time
        running = [request for request in running if request.left > 1e-9]
    tpot = [(r.ended_s - r.first_s) / (r.output - 1) for r in served]
    return float(np.mean(tpot)), float(np.sum(outputs)) / time


def part_of(reading: list[Request], budget: int) -> list[Request]:
    """The requests whose prompts, or parts of them, a pass reads."""
    for request in reading:
        request.extend_length = min(request.unread, budget)
        request.unread -= request.extend_length
        budget -= request.extend_length
    return [request for request in reading if request.extend_length]


def infer(predictor, requests: list[Request]) -> float:
    seconds = predictor.predict_infer_time(Batch(requests))
    assert seconds > 0
    return seconds


@dataclass
class Served:
    """A request in vLLM's scheduler: its prompt, the tokens that are computed, and those still to answer."""

    name: str
    prompt: int
    output: int
    computed: float = 0.0
    left: float = 0.0
    first_s: float | None = None
    ended_s: float = 0.0

    @property
    def reads(self) -> bool:
        return self.computed < self.prompt


def simulate_mixed(
    seconds, inputs, outputs, clients: int, gained: float, drafted: int, budget: int
) -> tuple[float, float]:
    """The same where chunks of prompts share passes with decoding requests, as in vLLM. seconds: of a pass,
    by the mappings of its scheduler's output. budget: tokens of a pass.
    """
    lengths = enumerate(zip(inputs, outputs, strict=True))
    waiting = deque(Served(f"request {n}", int(p), int(d), left=float(d - 1)) for n, (p, d) in lengths)
    served = list(waiting)
    running: list[Served] = []
    time = 0.0
    while waiting or running:
        running += [waiting.popleft() for _ in range(min(clients - len(running), len(waiting)))]
        decoding = [request for request in running if not request.reads]
        free = budget - len(decoding) * (1 + drafted)
        scheduled = {request.name: 1 + drafted for request in decoding}
        chunks: list[tuple[Served, int]] = []
        for request in running:
            if request.reads and free > 0:
                chunks.append((request, min(free, request.prompt - int(request.computed))))
                free -= chunks[-1][1]
        scheduled |= {request.name: tokens for request, tokens in chunks}
        computed = {request.name: int(request.computed) for request in running}
        drafts = {request.name: [0] * drafted for request in decoding if drafted}
        time += seconds(scheduled, computed, drafts)
        for request, tokens in chunks:
            request.computed += tokens
            if not request.reads:
                request.first_s = time
        for request in decoding:
            request.computed += gained
            request.left -= gained
            request.ended_s = time
        running = [request for request in running if request.reads or request.left > 1e-9]
    tpot = [(r.ended_s - r.first_s) / (r.output - 1) for r in served if r.first_s is not None]
    return float(np.mean(tpot)), float(np.sum(outputs)) / time
