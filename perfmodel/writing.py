"""All files are written through this module. The destination is checked before the content is computed. A
file is written completely or not at all.
"""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from perfmodel.errors import InputError, refuse

Content = str | bytes | Callable[[Path], object]
"""The content of a file: text, bytes, or a function that writes the content to a given path with the same
suffix.
"""
STEM_CHARACTERS = 100
"""Number of characters of a file's name that the name of its unfinished file repeats. The whole name could
exceed the limit of a file system, which is usually 255 bytes.
"""


def destination(path: str | Path, *suffixes: str, flag: str = "--output") -> Path:
    """Checks the path of a file that will be written, and returns it. Raises InputError, which names `flag`,
    if the file cannot be written there.

    If no suffixes are given, any suffix is allowed. A pipe or a device is refused, because a file would
    replace it.
    """
    where = Path(path)
    if suffixes and where.suffix.lower() not in suffixes:
        raise refuse(flag, None, f"a file name ending in {' or '.join(suffixes)}", where.name)
    try:
        real = Path(os.path.realpath(where))
        regular = real.is_file() or not os.path.lexists(where)
        good = real.parent.is_dir() and all(os.access(p, os.W_OK) for p in (real.parent, real) if p.exists())
    except (OSError, ValueError):  # the name is too long, or contains a zero byte
        regular = True
        good = False
    if not regular:
        raise refuse(flag, None, "a file that can be written, not a folder, pipe or device", str(where))
    if not good:
        raise refuse(flag, None, "a file that can be written, in a folder that exists", str(where))
    return where


def write(where: Path, content: Content, flag: str = "--output") -> None:
    """Writes a file completely or not at all. Raises InputError if it cannot be written."""
    write_all({where: content}, flag)


def write_all(contents: Mapping[Path, Content], flag: str = "--output") -> None:
    """Writes several files. Each file replaces its target only after all files are on the disk. Raises
    InputError if a file cannot be written.

    If the target is a link, it remains a link. An existing file keeps its permissions.
    """
    fresh: list[tuple[Path, Path]] = []
    try:
        for where, content in contents.items():
            real = Path(os.path.realpath(destination(where, flag=flag)))
            _remove_left_over(real, where.suffix)
            beside = _unfinished(real, where.suffix)
            fresh.append((beside, real))
            _fill(beside, content)
        for beside, real in fresh:
            if real.exists():
                shutil.copymode(real, beside)
            os.replace(beside, real)
    except OSError as error:
        raise InputError(f"{flag}: {where}: cannot be written: {error.strerror or error}") from None
    finally:
        for beside, _ in fresh:
            with suppress(OSError):
                beside.unlink(missing_ok=True)


def _unfinished(real: Path, suffix: str) -> Path:
    """A new, empty file next to `real` for its content, with an unpredictable name and the suffix of
    `real`, or of a link to it.
    """
    fresh = real.with_name(f".{real.stem[:STEM_CHARACTERS]}.{os.getpid()}-{os.urandom(8).hex()}.new{suffix}")
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    return fresh


def _remove_left_over(real: Path, suffix: str) -> None:
    """Removes the unfinished files for this path whose process has ended. A killed process cannot remove its
    own files.
    """
    if os.name != "posix":  # elsewhere, signal 0 does not test whether a process exists
        return
    stem = re.escape(real.stem[:STEM_CHARACTERS])
    name = re.compile(rf"\.{stem}\.(\d{{1,9}})-[0-9a-f]{{16}}\.new{re.escape(suffix)}")  # of `_unfinished`
    with suppress(OSError):
        for entry in os.scandir(real.parent):
            if (match := name.fullmatch(entry.name)) and not _is_running(int(match[1])):
                os.unlink(entry.path)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:  # any other error means that the process belongs to another user
        return not isinstance(error, ProcessLookupError)
    return True


def _fill(path: Path, content: Content) -> None:
    if callable(content):
        content(path)
    else:
        path.write_bytes(content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)
    with path.open("r+b") as stream:
        os.fsync(stream.fileno())


def no_formula(text: str) -> str:
    """A table cell that no spreadsheet executes. If the text begins like a formula, an apostrophe is put
    before it.
    """
    if text.lstrip()[:1] not in tuple("=+-@"):
        return text
    try:
        float(text)
    except ValueError:
        return "'" + text
    return text
