"""Two processes that share a model, as torchrun would start them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*words: str) -> list[str]:
    """Standard output of either rank of ``python WORDS``; fails where one of them does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
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
