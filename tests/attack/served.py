"""The predictor, and its server over HTTP, with arguments and requests that nobody should send."""

import contextlib
import http.client
import json
import math
from collections.abc import Iterator
from functools import cache
from random import Random
from threading import Thread
from typing import Any

import numpy as np

import perfmodel as pm
from perfmodel.adapters.http import server
from perfmodel.answers.point.predictor import Predictor
from tests.attack import hostile, watch

PREDICTORS: tuple[dict[str, Any], ...] = (
    {"model": "qwen3-8b", "hardware": "h100", "draft": "eagle3", "alpha": 0.7, "gamma": 3},
    {"model": "llama-3.1-8b", "hardware": "b200", "draft": "self", "draft_kv": "quest:512", "alpha": 0.8},
    {"model": "llama-3.1-8b", "hardware": "l40s", "engine": "llamacpp", "weights": "int4-g128"},
    {"model": "deepseek-v3", "hardware": "h200", "tp": 16, "ep": 16, "dp": 16, "nodes": "2x8"}
    | {"draft": "mtp", "alpha": 0.7, "gamma": 1},
    {"model": "llama-3.1-405b", "hardware": "h100", "tp": 8, "pp": 2, "nodes": "2x8"}
    | {"draft": "ngram", "rate": "0.4x3", "gamma": 3},
)
"""Servers on one node and on several."""
BODY = '{"new_tokens": [1, 1, 2000], "past_tokens": [4000, 900, 0], "gamma": 3}'
NUMBERS: tuple[Any, ...] = (
    *(1, 3, 64, 2.5, 0, -1, 10**7, 10**30, 10**400, 1e-300, math.nan, math.inf, True, None),
    *("4", "", [], [1, 2], [[1], [2, 3]], {}, np.arange(3), np.array(["a"]), np.zeros((0, 2))),
)
METHODS = {
    **dict.fromkeys(("verify_s", "draft_s", "iteration_s", "tpot_s", "forward_s", "interval_s"), (2, 3)),
    **dict.fromkeys(("step_s", "prefill_s"), (2, 2)),
    "tokens_per_iteration": (0, 1),
}
"""Method of a predictor -> the fewest and most arguments that it takes."""
QUESTIONS = 0.3
"""Share of the calls that are asked of a spoiled question."""
OPTIONS = ("kv_dtype", "power_limit", "acceptance", "memory_fraction", "context_std", "pp", "cpu_moe")
STATUSES = {200, 400, 404, 411, 413, 501}
TIMEOUT_S = 60.0


def attack(tally: watch.Tally, seed: int, count: int) -> None:
    """Calls of methods and HTTP requests, half of each."""
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(_serving(each)) for each in predictors()]
        for number in range(count // 2):
            rng = Random(f"{seed}:served:{number}")
            refused, fault = watch.read(lambda: called(rng))  # noqa: B023
            tally.count("pm.predictor", refused, fault and f"{fault} (seed {seed}, {number})")
            status, fault = answered(rng, rng.choice(ports))
            tally.count("perfmodel serve", status != 200, fault and f"{fault} (seed {seed}, {number})")


@contextlib.contextmanager
def _serving(predictor: Predictor) -> Iterator[int]:
    """The port of a server of a predictor."""
    endpoint = server(predictor, "127.0.0.1", 0, timeout_s=1.0)
    thread = Thread(target=endpoint.serve_forever, daemon=True)
    thread.start()
    try:
        yield endpoint.server_port
    finally:
        endpoint.shutdown()
        endpoint.server_close()
        thread.join()


@cache
def predictors() -> tuple[Predictor, ...]:
    return tuple(pm.predictor(**question) for question in PREDICTORS)


def called(rng: Random) -> None:
    """A method with odd values, or a predictor of an odd question. Raises ValueError for an answer that is no
    finite number.
    """
    if rng.random() < QUESTIONS:
        question = dict(rng.choice(PREDICTORS))
        question[rng.choice([*question, *OPTIONS])] = rng.choice((*hostile.VALUES, *hostile.TEXTS))
        predictor = pm.predictor(**question)
    else:
        predictor = rng.choice(predictors())
    method = rng.choice(list(METHODS))
    arguments = [rng.choice(NUMBERS) for _ in range(rng.randint(*METHODS[method]))]
    answer = getattr(predictor, method)(*arguments)
    figures = [answer.low, answer.high] if hasattr(answer, "low") else answer
    if answer is not None and not np.all(np.isfinite(np.asarray(figures, float))):
        raise ValueError(f"{method}{tuple(arguments)} is {answer}")


def answered(rng: Random, port: int) -> tuple[int, str | None]:
    """The status of a spoiled request, and what is wrong with its answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    body = hostile.spoiled(rng, BODY, ".json")
    method = rng.choice(("POST", "POST", "POST", "POST", "GET", "DELETE"))
    path = rng.choice(("/forward", "/forward", "/forward", "/forward", "/", "/../etc/passwd", "/%00"))
    headers = rng.choice(({}, {}, {}, {"Content-Length": "-1"}, {"Content-Length": str(10**12)}))
    try:
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        if isinstance(error, BrokenPipeError | ConnectionResetError):
            return 400, None  # it was refused while the client still sent
        return 0, f"{method} {path}: {type(error).__name__}: {error}"
    finally:
        connection.close()
    if response.status not in STATUSES or (response.status != 200 and set(answer) != {"error"}):
        return response.status, f"{method} {path}: {response.status} {answer}"
    if "seconds" in answer and not 0.0 < answer["seconds"] < math.inf:
        return response.status, f"{method} {path}: {answer}"
    return response.status, None
