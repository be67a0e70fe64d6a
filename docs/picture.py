"""The pictures of README and docs, each the output of one command: ``python docs/picture.py``, or ``make docs``.

A test compares `drawn` with the files, so that a picture that has gone stale fails.
"""

import shlex
import sys
from pathlib import Path

from perfmodel import cli

ROOT = Path(__file__).parents[1]
PICTURES = {
    "docs/img/speedup.svg": "perfmodel plot surface --model llama-3.1-8b --hardware a100-sxm-80gb --tp 8 "
    "--draft-kv streamingllm:512 --gamma 2 --alpha 0.81 --batch 8..320 --context 1000..128000 --measured "
    "--engine magicdec --output",
    "docs/img/engines.svg": "perfmodel validate accuracy --plot-engines",
}
"""Path in the repository -> the command that draws it, to which the path is added."""


def drawn(name: str, folder: Path) -> Path:
    """Draw one of `PICTURES` into a folder. Raises RuntimeError where its command fails."""
    where = folder / Path(name).name
    _, *arguments = shlex.split(PICTURES[name])
    if status := cli.run([*arguments, str(where)]):
        raise RuntimeError(f"{PICTURES[name]}: exit status {status}")
    return where


def main() -> None:
    """Draw all of them anew; the same numbers give the same bytes."""
    for name in PICTURES:
        drawn(name, (ROOT / name).parent)


if __name__ == "__main__":
    sys.exit(main())
