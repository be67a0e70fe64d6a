"""The entry point of ``python -m perfmodel`` and of the ``perfmodel`` command. It applies the settings that
the process needs before any import.
"""

import gc
import os
import sys
from collections.abc import Sequence

TIMED = [["run"], ["measure"], ["microbench"], ["generate"], ["acceptance"]]
"""Verbs of ``validate`` that run the decoder. Their measurement plan states the number of threads."""


def set_up(words: Sequence[str]) -> None:
    """Sets up the process of a command line before it loads anything."""
    # loading modules creates no garbage, and collecting it takes a tenth of the time of a short run
    gc.set_threshold(200_000)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # there are none, and the search takes 10 ms
    is_timed = words[:1] == ["validate"] and words[1:2] in TIMED
    if not is_timed:
        # no answer or fit has matrices that are large enough for more threads
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> None:
    """Runs the command line (`perfmodel.cli.main`)."""
    set_up(sys.argv[1:])
    try:
        from perfmodel.cli import main

        main()
    except KeyboardInterrupt:  # before a command starts; commands handle the interrupt themselves
        os._exit(130)


if __name__ == "__main__":
    main()
