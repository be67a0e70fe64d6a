"""Servers on loopback, one at a time, each stopped when its block ends."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

START_S = 900.0


@contextmanager
def served(engine: Path, log: Path, config: dict[str, object] | None = None) -> Iterator[str]:
    """The URL of vLLM with the tiny target, with a speculative configuration where one is given."""
    fixed = "--served-model-name tiny --max-model-len 4096 --max-num-seqs 16 --dtype bfloat16"
    drafting = ["--speculative-config", json.dumps(config)] if config else []
    model = engine / "models" / "target"
    words = [engine / "bin" / "vllm", "serve", model, *fixed.split(), "--no-enable-prefix-caching", *drafting]
    with started(words, log) as url:
        yield url


@contextmanager
def started(words: Sequence[str | Path], log: Path, more: Mapping[str, str] | None = None) -> Iterator[str]:
    """The URL of a server of these words. more: variables of its environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = ["--host", "127.0.0.1", "--port", str(port)]
    with log.open("w") as out:
        process = subprocess.Popen(
            [*words, *place],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment() | dict(more or {}),
            start_new_session=True,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(process, url, log)
            yield url
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)


def environment() -> dict[str, str]:
    """Loopback only, nothing reported home, one core for the model: the other is the client's."""
    settings = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "0",
    }
    return os.environ | settings


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5):
            return
        time.sleep(1)
    raise RuntimeError(f"the server did not start:\n{log.read_text()[-2000:]}")
