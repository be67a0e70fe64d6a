"""Commands in forks of this process, so that a hundred of them take a minute; killed when, or where, one is
told.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

from perfmodel import cli

LONGEST_S = 120.0
CALLS = ("fsync", "replace", "truncate", "unlink")
"""Calls of `os` after which a folder looks different."""
FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Ending:
    """How a run ended: exit status (-9 killed), what it said on stderr, how long it took, calls that changed
    files.
    """

    status: int
    stderr: str
    seconds: float
    calls: int


@dataclass(frozen=True)
class Running:
    """A fork, its end of stderr here, its count of file calls, and when it began."""

    child: BaseProcess
    stderr: int
    calls: Any
    begun: float

    def finish(self, stop_s: float = LONGEST_S) -> Ending:
        """Wait for it, or kill it when it is due."""
        self.child.join(max(0.0, self.begun + stop_s - time.monotonic()))
        self.child.kill()
        with open(self.stderr, "rb") as stream:
            text = stream.read().decode("utf-8", "replace")
        self.child.join()
        assert self.child.exitcode is not None
        return Ending(self.child.exitcode, text, time.monotonic() - self.begun, self.calls.value)


def start(arguments: list[str], stop_call: int = 0, before: Callable[[], object] = bool) -> Running:
    """Begin a command in a fork, to be killed at the file call of that number; `before` prepares the fork."""
    stderr, say = os.pipe()
    calls = FORK.Value("i", 0, lock=False)
    begun = time.monotonic()
    child = FORK.Process(target=_command, args=(arguments, say, calls, stop_call, before))
    child.start()
    os.close(say)
    return Running(child, stderr, calls, begun)


def run(arguments: list[str], *, stop_s: float = LONGEST_S, **how: Any) -> Ending:
    """A command in a fork, killed after `stop_s` where it has not ended; `how` as in `start`."""
    return start(arguments, **how).finish(stop_s)


def _command(
    arguments: list[str], say: int, calls: Any, stop_call: int, before: Callable[[], object]
) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(say, 2)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    _watch(stop_call, calls)
    before()
    sys.exit(cli.run(arguments))


def _watch(stop_call: int, calls: Any) -> None:
    """Tell every file call; kill the process before (odd numbers) or after (even) the one that is due."""

    def counting(call: Callable[..., Any]) -> Callable[..., Any]:
        def one_more() -> None:
            calls.value += 1
            if calls.value == stop_call:
                os.kill(os.getpid(), signal.SIGKILL)

        def counted(*args: Any, **kwargs: Any) -> Any:
            one_more()
            value = call(*args, **kwargs)
            one_more()
            return value

        return counted

    for name in CALLS:
        setattr(os, name, counting(getattr(os, name)))
