"""One writer at a time: a lock beside a file, which says who holds it and ends with its process."""

import datetime
import os
import stat
from contextlib import suppress
from pathlib import Path

from perfmodel.errors import InputError, refuse


class Lock:
    """``FILE.lock``, held from here to `release` or to the end of the process, however that comes.

    Raises InputError where another process holds it, saying which. Systems without flock (Windows) hold nothing.
    """

    def __init__(self, path: Path, flag: str = "--output") -> None:
        self.path = path.with_name(path.name + ".lock")
        try:
            self._file: int | None = self._held(path, flag)
        except OSError as error:
            raise InputError(f"{flag}: {self.path}: {error.strerror or error}") from None

    def _held(self, path: Path, flag: str) -> int:
        while True:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o644)
            try:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise refuse(flag, None, "beside no pipe or device", str(self.path))
                _flock(file)
            except BlockingIOError:
                holder = os.read(file, 200).decode("utf-8", "replace") or "another process"
                os.close(file)
                raise InputError(f"{flag}: {path} is being written by {holder}; wait for it, or end it") from None
            except BaseException:
                os.close(file)
                raise
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), self.path.stat()):
                    os.truncate(file, 0)
                    os.write(file, f"process {os.getpid()} since {datetime.datetime.now():%Y-%m-%d %H:%M:%S}".encode())
                    return file
            os.close(file)  # its last holder has removed it meanwhile

    def release(self) -> None:
        """Let go, once."""
        if self._file is not None:
            self.path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None


def _flock(file: int) -> None:
    try:
        import fcntl
    except ModuleNotFoundError:
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
