"""The shell commands of benchmark runs that are enough for a calibration: a few batches, two contexts and two
draft lengths.
"""

import shlex

from perfmodel.errors import unknown_name
from perfmodel.validate.engine.driver import ServerLoad
from perfmodel.validate.engine.servers import BenchRequest, bench_servers

GAMMAS = (2, 7)
"""Draft lengths in addition to 0. The fit covers the lengths between them."""
FIRST_PORT = 8100


def loads(batches: tuple[int, ...], prompts: tuple[int, ...], new_tokens: int) -> list[ServerLoad]:
    """The loads for one server: every batch with the first prompt length, and the first and the last batch
    with each other prompt length.
    """
    short, *longer = prompts
    points = [ServerLoad(batch, short, new_tokens) for batch in batches]
    for prompt in longer:
        for batch in dict.fromkeys((batches[0], batches[-1])):
            points.append(ServerLoad(batch, prompt, new_tokens))
    return points


def commands(request: BenchRequest) -> list[str]:
    """The shell lines. For each draft length, beginning with 0, they start a server, wait for it, measure it
    and stop it. The last line fits the calibration.
    """
    if request.engine not in bench_servers():
        raise unknown_name("--engine", "engine", request.engine, bench_servers())
    server = bench_servers()[request.engine]
    lines = server.preparations(request)
    for number, gamma in enumerate((0, *request.gammas)):
        lines += server.runs(request, gamma, FIRST_PORT + number)
    fit = shlex.join(["perfmodel", "validate", "engine", *request.question, "--engine", request.engine])
    probe = server.version_probe(request.engine)
    if probe:
        fit += f' --version "$({probe})"'
    return [*lines, f"{fit} --from {' '.join(server.results(request))}"]
