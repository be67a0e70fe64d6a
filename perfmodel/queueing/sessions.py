"""Draws random requests that share parts of their prompts. Some prompts begin with a common prefix, and the
requests of a session reuse its context.
"""

from dataclasses import replace

import numpy as np

from perfmodel.queueing.arrivals import Arrivals, arrivals
from perfmodel.queueing.blocks import Path, Shared
from perfmodel.queueing.prefix import Reuse


def draw(reuse: Reuse, count: int, rate: float | None, burstiness: float, seed: int) -> Arrivals:
    """Draws at least `count` requests in whole sessions. The requests of a session are in the order of its
    turns.

    - rate: requests per second. It is None if all sessions begin at the same time.

    The times between an answer and the next prompt of a session are exponentially distributed.
    """
    turns = reuse.turns
    sessions = -(-count // turns)
    session_rate = None if rate is None else rate / turns
    begin = arrivals(reuse.first, sessions, session_rate, burstiness, seed)
    random = np.random.default_rng([seed, 3])
    later = arrivals(reuse.first, sessions * (turns - 1), None, burstiness, seed + 1)
    later_tokens = later.output_tokens.reshape(sessions, turns - 1)
    outputs = np.concatenate([begin.output_tokens[:, None], later_tokens], 1)
    follow = outputs[:, :-1] + int(reuse.turn_tokens)
    added = np.concatenate([begin.input_tokens[:, None], follow], 1)
    prompts = np.cumsum(added, 1)
    begins = random.random(sessions) < reuse.share
    paths: list[Path] = []
    for session, (own, out) in enumerate(zip(prompts.tolist(), outputs.tolist(), strict=True)):
        prefix = min(int(reuse.prefix), own[0]) if begins[session] else 0
        common: Path = ((0, prefix),) if prefix else ()
        paths.append(common)
        context = [prompt + decoded - 1 - prefix for prompt, decoded in zip(own, out, strict=True)]
        paths += [(*common, (session + 1, before)) for before in context[:-1]]
    requests = np.arange(sessions * turns)
    session_of, turn = np.divmod(requests, turns)
    think_s = random.exponential(reuse.think_s, requests.size)
    before = [None if first else request - 1 for request, first in enumerate(turn == 0)]
    shared = Shared(paths, (session_of + 1).tolist(), before, think_s.tolist())
    return Arrivals(np.repeat(begin.at_s, turns), prompts.ravel(), outputs.ravel(), shared)


def sharing(requests: Arrivals, reuse: Reuse, seed: int) -> Arrivals:
    """A copy of the requests in which a random share of the prompts begins with the common prefix. A prompt
    that is shorter than the prefix contains only the start of the prefix.
    """
    begins = np.random.default_rng([seed, 3]).random(requests.at_s.size) < reuse.share
    common = np.minimum(requests.input_tokens, int(reuse.prefix))
    tokens = np.where(begins, common, 0).tolist()
    paths = [((0, each),) if each else () for each in tokens]
    return replace(requests, shared=Shared(paths, [None] * len(paths)))
