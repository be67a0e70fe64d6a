"""How far a run is and how long it still takes: one line on stderr, on a terminal only."""

import sys
import time


class Progress:
    """Rows done of rows in all; time left by the pace of this sitting."""

    def __init__(self, total: int, done: int) -> None:
        """So many rows in all, so many finished in an earlier sitting."""
        self.shown = sys.stderr.isatty()
        self._total, self._done, self._before, self._began = total, done, done, time.monotonic()

    def show(self, what: str) -> None:
        """The row that begins now."""
        self._write(f"[{self._done + 1}/{self._total}] {what[:80]}{self._left()}")

    def step(self) -> None:
        """It is finished."""
        self._done += 1

    def end(self) -> None:
        """All of them are."""
        self._write("")

    def _write(self, text: str) -> None:
        if self.shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def _left(self) -> str:
        here = self._done - self._before
        if not here:
            return ""
        seconds = (time.monotonic() - self._began) / here * (self._total - self._done)
        return f" · {seconds:.0f} s left" if seconds < 90 else f" · {seconds / 60:.0f} min left"
