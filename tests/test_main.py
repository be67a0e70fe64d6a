"""What a process of the command line sets up before it loads anything, and how it ends."""

import subprocess
import sys

SET_UP = """
import gc, os
from perfmodel.__main__ import set_up

timed = ("run", "measure", "microbench", "generate", "acceptance")
for line in ("", "run", *(f"validate {verb}" for verb in timed), "validate accuracy"):
    os.environ.pop("OPENBLAS_NUM_THREADS", None)
    set_up(line.split())
    print(f"{line}: {os.environ.get('OPENBLAS_NUM_THREADS')}")
os.environ["OPENBLAS_NUM_THREADS"] = "7"
set_up(["whatif"])
print("stated:", os.environ["OPENBLAS_NUM_THREADS"])
print(gc.get_threshold()[0])
"""
ENDS = """
import atexit, os, sys
from perfmodel.__main__ import main


def seen(event, values):
    if event == "import" and values[0] == "perfmodel.cli":
        print("threads of a timed run:", os.environ.get("OPENBLAS_NUM_THREADS"))


os.environ.pop("OPENBLAS_NUM_THREADS", None)
sys.addaudithook(seen)
atexit.register(print, "modules are taken apart")
sys.argv = ["perfmodel", "validate", "run", "nonsense"]
main()
"""


def process(script: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_a_process_gets_one_thread_for_matrices_unless_it_is_timed_or_the_user_says_more() -> None:
    *threads, threshold = process(SET_UP).stdout.splitlines()
    timed = [f"validate {verb}: None" for verb in ("run", "measure", "microbench", "generate", "acceptance")]
    assert threads == [": 1", "run: 1", *timed, "validate accuracy: 1", "stated: 7"]
    assert int(threshold) >= 50_000, "the garbage collector comes seldom"


def test_a_process_has_the_threads_of_its_own_command_line_and_ends_at_once_with_the_status() -> None:
    ended = process(ENDS)
    assert ended.returncode == 2
    assert ended.stdout == "threads of a timed run: None\n"
    assert ended.stderr.startswith("error: ")
