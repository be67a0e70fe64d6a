"""A stand-in for SGLang's simulator: its contract with a predictor, and a plain scheduler on a logical clock.

Prompts run in passes of their own, then all requests decode. A closed loop: a client sends its next request
when the one before is answered.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Request:
    """What a predictor sees of a request: the tokens of this pass, and those already cached."""

    extend_length: int
    past_kv_length: int
    left: float = 0.0
    first_s: float = 0.0
    ended_s: float = 0.0
    output: int = 0


@dataclass
class Batch:
    requests: list[Request] = field(default_factory=list)


def simulate(predictor, inputs, outputs, clients: int, gained: float) -> tuple[float, float]:
    """Mean TPOT in seconds, and output tokens per second. gained: tokens of a request per decoding pass."""
    waiting = deque(
        Request(int(p), 0, left=float(d - 1), output=int(d)) for p, d in zip(inputs, outputs, strict=True)
    )
    served = list(waiting)
    running: list[Request] = []
    time = 0.0
    while waiting or running:
        prompts = [waiting.popleft() for _ in range(min(clients - len(running), len(waiting)))]
        if prompts:
            time += infer(predictor, prompts)
            for request in prompts:
                request.past_kv_length = request.extend_length
                request.extend_length = 1
                request.first_s = time
            running += prompts
        time += infer(predictor, running)
        for request in running:
            request.past_kv_length += round(gained)
            request.left -= gained
            request.ended_s = time
        running = [request for request in running if request.left > 1e-9]
    tpot = [(r.ended_s - r.first_s) / (r.output - 1) for r in served]
    return float(np.mean(tpot)), float(np.sum(outputs)) / time


def infer(predictor, requests: list[Request]) -> float:
    seconds = predictor.predict_infer_time(Batch(requests))
    assert seconds > 0
    return seconds
