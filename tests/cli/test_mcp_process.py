"""The process of the MCP server: interrupts, malformed input, and calls that wait or are cancelled."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.test_front_door import ASKED

pytest.importorskip("mcp")


def test_malformed_json_has_an_answer_and_the_first_interrupt_ends_an_idle_server() -> None:
    command = [sys.executable, "-m", "perfmodel", "mcp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        print("{not json", file=process.stdin, flush=True)
        answer = json.loads(process.stdout.readline())
        assert answer["id"] is None
        assert answer["error"]["code"] == -32700
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == -signal.SIGINT


START: dict[str, Any] = {
    "method": "initialize",
    "id": "start",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a test", "version": "1"},
    },
}
PATIENCE_S = 60.0
"""A server that takes longer to begin or to stop its calls does neither."""
SLOW = ASKED["traffic"] | {"request_rate": "0.1..40+0.1", "replay": True}


def waited_for(calls: Callable[[], int], count: int) -> int:
    """The number of running calls, once it is `count`."""
    deadline = time.monotonic() + PATIENCE_S
    while calls() != count:
        assert time.monotonic() < deadline, f"{calls()} calls run, not {count}"
        time.sleep(0.05)
    return count


def test_four_calls_run_at_once_others_wait_and_all_stop_when_they_are_cancelled() -> None:
    command = [sys.executable, "-m", "perfmodel", "mcp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def send(message: dict[str, Any]) -> None:
            print(json.dumps({"jsonrpc": "2.0"} | message), file=process.stdin, flush=True)

        def calls() -> int:
            return len(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())

        send(START)
        assert json.loads(process.stdout.readline())["id"] == "start"
        send({"method": "notifications/initialized"})
        for number in range(6):
            call = {"name": "traffic", "arguments": SLOW}
            send({"method": "tools/call", "id": number, "params": call})
        most = waited_for(calls, 4)
        for number in range(6):
            most = max(most, calls())
            send({"method": "notifications/cancelled", "params": {"requestId": number}})
        assert most == 4
        waited_for(calls, 0)
        process.stdin.close()
        assert process.wait(timeout=60) == 0
