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
    started = [
        subprocess.Popen([sys.executable, *words], env=os.environ | shared | {"RANK": str(rank)}, **pipes)
        for rank in range(2)
    ]
    try:
        done = [process.communicate(timeout=300) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0], done[0][1][-2000:] + done[1][1][-2000:]
    return [out for out, _ in done]
