"""Two processes that share a model, as torchrun would start them."""

import os
import socket
import subprocess
import sys

from tests.scripts import ROOT

COMMANDS = """
import os
from perfmodel.cli import run
for port, words in {work!r}:
    os.environ["MASTER_PORT"] = port
    assert run(words) == 0, words
"""


def port() -> str:
    """A free one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def commands(*work: list[str]) -> None:
    """Runs each command of perfmodel on both ranks, one after another."""
    run("-c", COMMANDS.format(work=[(port(), words) for words in work]))


def run(*words: str) -> list[str]:
    """Standard output of either rank of ``python WORDS``; fails where one of them does."""
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port(), "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
    started = []
    for rank in ("0", "1"):
        environment = os.environ | shared | {"RANK": rank}
        started.append(subprocess.Popen([sys.executable, *words], env=environment, **pipes))
    try:
        done = [process.communicate(timeout=300) for process in started]
    finally:
        for process in started:
            process.kill()
    for process, (_, errors) in zip(started, done, strict=True):
        assert process.returncode == 0, errors[-2000:]
    return [out for out, _ in done]
