"""`perfmodel plot`: it writes pictures, and a mistake is one line."""

from pathlib import Path

import pytest

from perfmodel import cli
from tests.commands import refused

MODEL = "--model llama-3.1-8b --hardware a100 --tp 8 --draft-kv streamingllm:512"
SERVER = "--model llama-3.1-8b --hardware a100 --input-len 2k --output-len 200 --draft eagle --alpha 0.6"
COMMANDS = (
    f"ratios {MODEL} --gamma 3 --over batch --no-ideal",
    f"breakdown {MODEL} --batch 1,64 --context 32k",
    f"traffic {SERVER} --max-concurrency 1,64 --gamma 0",
)
"""What the commands of the documentation's pictures (docs/picture.py) leave out."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_picture_is_written(command: str, tmp_path: Path) -> None:
    where = tmp_path / "picture.png"
    assert cli.run(["plot", *command.split(), "-o", str(where)]) == 0
    assert where.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("arguments", "said"), [
    ("rooflin -o x.png", "no command named 'rooflin'; did you mean roofline"),
    (f"surface {MODEL} -o x.png", "--alpha: must be given here"),
    (f"surface {MODEL} --alpha 0.8 -o x.pdf", "--output: must be a file name ending in .png or .svg"),
    (f"surface {MODEL} --alpha 0.8 -o none/x.png",
     "--output: must be a file that can be written, in a folder that exists, given 'none/x.png'"),
    (f"surface {MODEL} --alpha 0.8 --batch 4 -o x.png", "--batch: must be a span such as 1..256 here, given '4'"),
    (f"surface {MODEL} --alpha 0.8 --gamma 0 -o x.png", "--gamma: must be 1 or more, or auto"),
    (f"surface {MODEL} --alpha 0.8,0.9 -o x.png", "--alpha: must be one value here"),
    (f"surface {MODEL} --alpha 0.8 --gamma 2 --measured -o x.png", "and --gamma with --engine vllm; leave it out"),
    (f"gamma {MODEL} --alpha 0.8 --context 1..50 -o x.png", "--context: must be at most 8 values here"),
    (f"gamma {MODEL} --alpha 0.8 --batch 1,2,3 -o x.png", "at most 8 lines together, or --map"),
    (f"ratios {MODEL} --gamma auto -o x.png", "--gamma: must be a whole number from 1 on"),
    (f"ratios {MODEL} --gamma 2 --over time -o x.png", "--over: no axis named 'time'"),
    (f"breakdown {MODEL} --batch 1..7 --context 1k --alpha 0.5 -o x.png", "at most 6 points together"),
    (f"breakdown {MODEL} --batch 1 --context 1k --alpha 0.5 -o x.png", "no draft pays at any of these points"),
    (f"breakdown {MODEL} --batch 1 --context 8k,32k -o x.png", "--alpha: must be given here"),
    ("pareto --model llama-3.1-8b --hardware a100 --context 32k --batch 300..301 --rate eagle=0.1 -o x.png",
     "pareto: no batch asked for fits"),
    (f"traffic {SERVER} --request-rate 1 -o x.png", "--request-rate: must be two loads or more here"),
    ("residuals --set nope -o x.png", "--set: no set of times named 'nope'"),
    ("residuals -o", "requires an argument"),
])  # fmt: skip
def test_bad_input_is_one_line(arguments, said, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, "plot", *arguments.split())
    assert not list(tmp_path.iterdir())
