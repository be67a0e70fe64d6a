"""Commands in forks of this process, so that a hundred of them take a minute; killed when, or where, one is told."""

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perfmodel import cli

LONGEST_S = 120.0
CALLS = ("fsync", "replace", "truncate", "unlink")
"""Calls of `os` after which a folder looks different."""


@dataclass(frozen=True)
class Ending:
    """How a run ended: exit status (-9 killed), what it said on stderr, how long it took, calls that changed files."""

    status: int
    said: str
    seconds: float
    calls: int


def run(
    arguments: list[str],
    *,
    stop_s: float | None = None,
    stop_call: int | None = None,
    before: Callable[[], None] | None = None,
) -> Ending:
    """A command in a fork, killed after `stop_s` or at the file call of that number; `before` prepares the fork."""
    return finish(start(arguments, stop_call, before), stop_s)


def start(
    arguments: list[str], stop_call: int | None = None, before: Callable[[], None] | None = None
) -> tuple[int, int, int, float]:
    """Fork: (process, its stderr, its count of file calls, when it began)."""
    (said, say), (counted, count) = os.pipe(), os.pipe()
    begun = time.monotonic()
    child = os.fork()
    if child:
        os.close(say)
        os.close(count)
        return child, said, counted, begun
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(say, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        _watch(stop_call, count)
        if before:
            before()
        status = cli.run(arguments)
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        status = 99
    os._exit(status)


def _watch(stop_call: int | None, count: int) -> None:
    """Tell every file call; kill the process before (odd numbers) or after (even) the one that is due."""
    done, plain = 0, {name: getattr(os, name) for name in CALLS}
    for name in CALLS:

        def call(*args: Any, name: str = name, **kwargs: Any) -> Any:
            nonlocal done
            for step in (1, 2):
                done += 1
                os.write(count, b".")
                if done == stop_call:
                    os.kill(os.getpid(), signal.SIGKILL)
                if step == 1:
                    value = plain[name](*args, **kwargs)
            return value

        setattr(os, name, call)


def finish(running: tuple[int, int, int, float], stop_s: float | None = None) -> Ending:
    """Wait for a run, or kill it when it is due."""
    child, said, counted, begun = running
    end, killed = begun + (LONGEST_S if stop_s is None else stop_s), False
    while not (done := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end and not killed:
            os.kill(child, signal.SIGKILL)
            killed = True
        time.sleep(0.001)
    with open(said, "rb") as stream:
        text = stream.read().decode("utf-8", "replace")
    with open(counted, "rb") as stream:
        calls = len(stream.read())
    return Ending(os.waitstatus_to_exitcode(done[1]), text, time.monotonic() - begun, calls)
