"""Prints the progress and the remaining time of a run on stderr: one changing line on a terminal, and several
lines in a log.
"""

import sys
import time
from collections.abc import Callable
from typing import TextIO

EVERY_S = 20.0
"""Seconds between two lines if stderr is not a terminal."""


class RowProgress:
    """Shows the number of finished rows, and the remaining time at the speed of this run."""

    def __init__(
        self,
        total: int,
        done: int,
        stream: TextIO | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begins to measure the time of this session.

        - total: the number of all rows.
        - done: the number of rows that an earlier session finished.
        - stream: the stream for the output; stderr by default.
        """
        self._stream = stream or sys.stderr
        self.terminal = self._stream.isatty()
        self._now_s = now_s
        self._total = total
        self._done = done
        self._before = done
        self._began_s = now_s()
        self._printed_s = self._began_s

    def show(self, what: str) -> None:
        """Shows the row that begins."""
        line = f"[{self._done + 1}/{self._total}] {what[:80]}{self._time_left()}"
        if self.terminal:
            self._write(line)
        elif self._now_s() - self._printed_s >= EVERY_S:
            self._printed_s = self._now_s()
            print(f"     {line}", file=self._stream, flush=True)

    def step(self) -> None:
        """Counts the current row as finished."""
        self._done += 1

    def end(self) -> None:
        """Clears the line when all rows are finished."""
        if self.terminal:
            self._write("")

    def _write(self, text: str) -> None:
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()

    def _time_left(self) -> str:
        finished = self._done - self._before
        if not finished:
            return ""
        seconds_per_row = (self._now_s() - self._began_s) / finished
        seconds = seconds_per_row * (self._total - self._done)
        if seconds < 90:
            return f" · {seconds:.0f} s left"
        return f" · {seconds / 60:.0f} min left"
