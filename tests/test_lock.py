"""A lock is held by one process, says by which, and does not outlive it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perfmodel.errors import InputError
from perfmodel.lock import Lock

HOLD = """
import sys, time
from pathlib import Path
from perfmodel.lock import Lock
Lock(Path(sys.argv[1]))
kept = Lock(Path(sys.argv[1] + "2"))
print("held", flush=True)
time.sleep(600)
"""


def test_another_process_is_named_and_its_end_frees_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "x.csv2"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "x.csv")], stdout=subprocess.PIPE) as other:
        assert other.stdout
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match=rf"x\.csv2 is being written by process {other.pid} since \d{{4}}-"):
            Lock(path)
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
    held = Lock(path)
    held.release()
    held.release()
    assert not (tmp_path / "x.csv2.lock").exists()


def test_a_lock_in_one_process_holds_too(tmp_path: Path) -> None:
    held = Lock(tmp_path / "a")
    with pytest.raises(InputError, match="is being written by process"):
        Lock(tmp_path / "a")
    Lock(tmp_path / "b").release()
    held.release()
    Lock(tmp_path / "a").release()
    assert not list(tmp_path.iterdir())


def test_a_place_where_no_lock_can_be(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.lock")
    (tmp_path / "b.lock").mkdir()
    for name in ("a", "b", "none/c", "n" * 255):
        with pytest.raises(InputError, match="--output: "):
            Lock(tmp_path / name)
