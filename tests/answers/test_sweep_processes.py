"""Two processes that sweep into one file: one writes it whole, the other says by whom it is being written."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perfmodel.answers.frames import read_frame

ROWS = 4 * 2 * 8 * 64 * 4
ASKED = (
    *("--model", "llama-3.1-8b", "--hardware", "h100", "--draft-kv", "full,quest:512,snapkv:512,tova:512"),
    *("--alpha", "0.6,0.8", "--batch", "1..8", "--context", "1000..64000+1000", "--gamma", "1..4"),
)


def start(out: Path, *flags: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "perfmodel", "sweep", *ASKED, "-o", str(out), *flags]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def halted(process: "subprocess.Popen[str]", when: Callable[[], bool]) -> None:
    """Stop a process, to go on later, as soon as the folder is as told."""
    end = time.monotonic() + 60
    while not when():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.001)
    process.send_signal(signal.SIGSTOP)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("how", ["--overwrite", "--resume"])
def test_the_second_of_two_is_refused_and_the_first_finishes(how: str, suffix: str, tmp_path: Path) -> None:
    out = tmp_path / f"grid{suffix}"
    lock, record = tmp_path / f"grid{suffix}.lock", tmp_path / f"grid{suffix}.part.json"
    if how == "--resume":
        with start(out) as killed:
            halted(killed, record.exists)
            killed.kill()
        assert not out.exists()
    else:
        out.write_text("what was there")
    with start(out, how) as first:
        held = f"process {first.pid} since "
        halted(first, lambda: lock.exists() and held in lock.read_text())
        with start(out, how) as second:
            said = second.communicate(timeout=60)[1]
        first.send_signal(signal.SIGCONT)
        assert first.wait(timeout=60) == 0
    assert second.returncode == 2
    assert re.fullmatch(rf"error: --output: {re.escape(str(out))} is being written by {held}.*\n", said)
    assert len(read_frame(out)) == ROWS
    assert os.listdir(tmp_path) == [out.name]
