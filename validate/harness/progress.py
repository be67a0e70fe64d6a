"""Progress and remaining time of a run on stderr: one changing line on a terminal, several lines in a log."""

import sys
import time

EVERY_S = 20.0
"""Seconds between two lines if stderr is no terminal."""


class RowProgress:
    """Finished rows out of all rows, and the remaining time at the pace of this run."""

    def __init__(self, total: int, done: int) -> None:
        """Starts with the number of all rows, and of those that an earlier sitting finished."""
        self.terminal = sys.stderr.isatty()
        self._total = total
        self._done = done
        self._before = done
        self._began = self._printed_s = time.monotonic()

    def show(self, what: str) -> None:
        """The row that begins."""
        line = f"[{self._done + 1}/{self._total}] {what[:80]}{self._time_left()}"
        if self.terminal:
            self._write(line)
        elif time.monotonic() - self._printed_s >= EVERY_S:
            self._printed_s = time.monotonic()
            print(f"     {line}", file=sys.stderr, flush=True)

    def step(self) -> None:
        """Counts it as finished."""
        self._done += 1

    def end(self) -> None:
        """Reports that all rows are finished."""
        if self.terminal:
            self._write("")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    def _time_left(self) -> str:
        here = self._done - self._before
        if not here:
            return ""
        seconds = (time.monotonic() - self._began) / here * (self._total - self._done)
        if seconds < 90:
            return f" · {seconds:.0f} s left"
        return f" · {seconds / 60:.0f} min left"
