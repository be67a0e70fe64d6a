"""The pictures of README and docs, each the output of one command and drawn for a light and for a dark page:
``python docs/picture.py [NAME ...]``, or ``make docs``.

A test compares `drawn` with the files, so that a picture that has gone stale fails.
"""

import re
import shlex
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from perfmodel import cli
from perfmodel.plots.palette import PALETTES

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "img"
EIGHT = "--model llama-3.1-8b --hardware a100-sxm-80gb --tp 8 --draft-kv streamingllm:512 --engine magicdec"
PICTURES = {
    "speedup": f"plot surface {EIGHT} --alpha 0.8 --batch 1..256 --context 1k..128k",
    "magicdec": f"plot surface {EIGHT} --gamma 2 --alpha 0.81 --batch 8..200 --context 2000..128000 "
    "--measured",
    "roofline": "plot roofline --model llama-3.1-8b --hardware h100 --batch 8 --context 32k --gamma 3 "
    "--draft-kv snapkv:2k --alpha 0.8",
    "ratios": "plot ratios --model llama-3.1-8b --hardware h100 --draft eagle --gamma 3 --context 1k..64k",
    "breakdown": "plot breakdown --model qwen3.5-35b-a3b --hardware h200 --batch 1,32 --context 16k "
    "--draft mtp --gamma 2 --alpha 0.8",
    "pareto": "plot pareto --model llama-3.1-8b --hardware a100 --context 32k --tp 8 --batch 1..128 "
    "--rate self@streamingllm:512=0.8 --rate eagle=0.75/0.65/0.5 --rate ngram=0.3x3 --any-draft",
    "best": "plot surface --model llama-3.1-8b --hardware h100 --draft-kv snapkv:2k --alpha 0.85 "
    "--batch 1..64",
    "eagle3": "plot surface --model llama-3.1-70b --hardware h100 --tp 4 --draft eagle3 --alpha 0.73 "
    "--batch 1..256",
    "traffic": "plot traffic --model gpt-oss-120b --hardware h200 --input-len 8k --output-len 1k "
    "--request-rate 0.1,1.9 --draft eagle:features=3 --gamma 1,3 --alpha 0.6 --slo ttft:2000,tpot:30",
    "residuals": "validate compare --set magicdec --plot",
    "sparse": "plot breakdown --model deepseek-v3.2 --hardware b200 --tp 8 --kv-dtype fp8 --batch 8 "
    "--context 16k,128k --draft-kv streamingllm:512 --gamma 1 --alpha 0.8",
}
"""Name of a picture in docs/img/ -> the command that draws it, to which the path is added (`plot`: as
``--output``).
"""
SUFFIXES = {"light": "", "dark": "-dark"}
"""Theme -> what its file names end with."""
BY_HAND = ("iteration",)
"""Pictures that were written by hand, in the colours of the light theme."""


def drawn(name: str, folder: Path, theme: str = "light") -> Path:
    """Draw one of `PICTURES` into a folder. Raises RuntimeError where its command fails."""
    where = folder / f"{name}{SUFFIXES[theme]}.svg"
    command = shlex.split(PICTURES[name])
    if status := cli.run([*command, *["--output"] * (command[0] == "plot"), str(where), "--theme", theme]):
        raise RuntimeError(f"perfmodel {PICTURES[name]}: exit status {status}")
    return where


def main(names: Iterable[str] = ()) -> None:
    """Draw these or all of them anew; the same numbers give the same bytes."""
    for name in names or PICTURES:
        for theme in SUFFIXES:
            drawn(name, IMAGES, theme)
    for name in BY_HAND:
        light = (IMAGES / f"{name}.svg").read_text(encoding="utf-8")
        (IMAGES / f"{name}{SUFFIXES['dark']}.svg").write_text(darkened(light), encoding="utf-8")


def darkened(svg: str) -> str:
    """A picture by hand for a dark page: each colour of the light theme becomes that of the dark one."""
    light, dark = (_flat(asdict(PALETTES[theme])) for theme in SUFFIXES)
    changed = dict(zip(light, dark, strict=True))
    return re.sub("#[0-9a-f]{6}", lambda found: changed[found[0]], svg)


def _flat(value: Any) -> list[str]:
    """All colours of a palette, in order."""
    if isinstance(value, str):
        return [value]
    return [
        colour for part in (value.values() if isinstance(value, dict) else value) for colour in _flat(part)
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
