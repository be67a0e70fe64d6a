"""Run one hostile input in this process and say what is wrong with how it ended."""

import contextlib
import io
import json
import re
import resource
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from perfmodel import cli
from perfmodel.errors import InputError

CPU_S = 60.0
"""The most processor time that one input may take."""
WALL_S = 180.0
"""The most time at all that it may take: waiting for a pipe takes no other."""
MEMORY_BYTES = 2**30
"""The most that one input may add to the memory of the process."""
LONGEST = 500
"""Characters of a line on stderr."""
NOT_FINITE = re.compile(
    r"(?<![\w./:-])[-+]?(?:nan|inf|infinity)(?:[x%]|\b)(?![\w./-]|  \[by definition)", re.IGNORECASE
)
"""The ideal calibration's blend power is infinite by definition."""
PROMPT = re.compile(r"^--- prompt .*?(?=^--- continuation )", re.DOTALL | re.MULTILINE)
"""The end of a prompt, whose own word may be nan."""


class OverrunError(BaseException):
    """An input took longer than it may; no handler of the program catches it."""


@dataclass
class Tally:
    """Inputs tried and refused, and what was wrong, by name of the attack."""

    tried: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def count(self, name: str, refused: bool, fault: str | None, times: int = 1) -> None:
        """Add one input, or some at once."""
        self.tried[name] = self.tried.get(name, 0) + times
        self.refused[name] = self.refused.get(name, 0) + refused
        if fault:
            self.faults.append(f"{name}: {fault}")


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Raise OverrunError beyond `CPU_S` of processor time, as time at all would count what others do, or
    `WALL_S`.
    """

    def over(*_: object) -> None:
        raise OverrunError

    timers = ((signal.ITIMER_PROF, signal.SIGPROF, CPU_S), (signal.ITIMER_REAL, signal.SIGALRM, WALL_S))
    before = [signal.signal(number, over) for _, number, _ in timers]
    for timer, _, seconds in timers:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (timer, number, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def peak_bytes() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def read(call: Callable[[], object], names: str = "") -> tuple[bool, str | None]:
    """(refused, fault) of a reader: it returns, or raises InputError with one printable line that names the
    file.
    """
    before = peak_bytes()
    try:
        with bounded():
            call()
    except InputError as error:
        text = str(error)
        fine = text.isprintable() and len(text) <= LONGEST and names in text
        return True, None if fine else f"not one line that names {names}: {text[:200]!r}"
    except OverrunError:
        return False, f"took more than {CPU_S:g} s"
    except BaseException as error:
        return False, _named(error)
    grown = peak_bytes() - before
    return False, f"took {grown / 2**20:.0f} MiB" if grown > MEMORY_BYTES else None


def run(arguments: Sequence[str], names: str = "") -> tuple[bool, str | None]:
    """(refused, fault) of a command: status 0 or 1 with finite numbers, or status 2 with one line that names
    a file.
    """
    out = io.StringIO()
    err = io.StringIO()
    status = -1

    def call() -> None:
        nonlocal status
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("always")
            status = cli.run(arguments)

    _, fault = read(call)
    fault = fault or _printed(status, out.getvalue(), err.getvalue())
    if status == 2 and names not in err.getvalue():
        fault = fault or f"{names} is not named: {err.getvalue()[-200:]!r}"
    return status == 2, fault and f"{fault}: {shown(arguments)}"


def _printed(status: int, out: str, err: str) -> str | None:
    if "Warning: " in err:  # of Python or numpy; those of an answer are on stdout
        return f"a warning of Python's: {err[:300]!r}"
    if max(map(len, err.splitlines()), default=0) > LONGEST + len("error: "):
        return f"a line of {max(map(len, err.splitlines()))} characters: {err[:200]!r}"
    if status == 2:
        last = err.rstrip("\n").rpartition("\n")[2]
        if not last.startswith("error: ") or not last.isprintable() or "Traceback" in err:
            return f"status 2 without one line: {err[-200:]!r}"
        return "out of memory" if "out of memory" in last else None
    if status not in (0, 1):
        return f"status {status}"
    if "Traceback" in err:
        return f"a traceback: {err[-200:]!r}"
    if out.startswith(("{", "[")):
        try:
            json.loads(out, parse_constant=_refuse)
        except ValueError as error:
            return f"not JSON: {error}"
        return None
    printed = PROMPT.sub("", out)
    if not_finite := NOT_FINITE.search(printed):
        return f"not finite: {printed[max(0, not_finite.start() - 60) : not_finite.end() + 20]!r}"
    return None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is printed")


def _named(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"{type(error).__name__} at {last.filename.rpartition('perfmodel/')[2]}:{last.lineno}: "
        f"{str(error)[:150]!r}"
    )


def shown(arguments: Sequence[str]) -> str:
    """A command for a report; long values are cut."""
    return " ".join(repr(a if len(a) < 60 else a[:57] + "...") if not a.isalnum() else a for a in arguments)
