"""Commands where no home, locale or folder is, as a user who may write nothing, with files of odd names."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.attack import watch
from tests.attack.faults import unprivileged
from tests.attack.forks import run

ROOT = Path(__file__).parents[2]
WHATIF = [
    "whatif",
    "--model",
    "llama-3.1-8b",
    "--batch",
    "8",
    "--context",
    "16k",
    "--alpha",
    "0.7",
    "--hardware",
]


def _gone() -> None:
    os.mkdir(place := f"gone-{os.getpid()}")
    os.chdir(place)
    os.rmdir(os.getcwd())


SURROUNDINGS: dict[str, Callable[[], object]] = {
    "no home folder": lambda: os.environ.pop("HOME", None),
    "another user and a read-only installation": unprivileged,
    "a deleted folder": _gone,
}
LOCALES = {
    "no locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "latin-1 output": {"PYTHONIOENCODING": "latin-1"},
}
NAMES = (
    "two words.yaml",
    "two\nlines.yaml",
    "ünï.yaml",
    os.fsdecode(b"\xff\xfe.yaml"),
    "%s{0}.yaml",
    "'.yaml",
)


def attack(tally: watch.Tally, folder: Path) -> None:
    """One answer and one refusal in all surroundings; an answer from files of all names, and of Windows line
    ends.
    """
    for hardware, status in (("h100", 0), ("hé\n100", 2)):
        for name, before in SURROUNDINGS.items():
            ended = run([*WHATIF, hardware], before=before)
            _count(tally, name, status, ended.status, ended.stderr)
        for name, env in LOCALES.items():
            command = [sys.executable, "-m", "perfmodel", *WHATIF, hardware]
            environment = os.environ | env
            done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, env=environment)
            _count(tally, name, status, done.returncode, done.stderr.decode("utf-8", "replace"))
    device = (ROOT / "hardware/gpus/h100-sxm-80gb.yaml").read_bytes()
    for kind, data, file in (
        *(("unusual file names", device, name) for name in NAMES),
        ("Windows line endings", device.replace(b"\n", b"\r\n"), "x.yaml"),
        ("a byte order mark", b"\xef\xbb\xbf" + device, "x.yaml"),
    ):
        (folder / file).write_bytes(data)
        refused, fault = watch.run([*WHATIF, str(folder / file), "--json"])
        tally.count(kind, refused, fault or ("was refused" if refused else None))


def _count(tally: watch.Tally, name: str, wanted: int, status: int, stderr: str) -> None:
    fine = status == wanted and "Traceback" not in stderr and stderr.startswith("error: ") == (wanted == 2)
    tally.count(name, status == 2, None if fine else f"status {status}: {stderr[-300:]!r}")
