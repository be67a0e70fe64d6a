"""How much one page and one picture can show."""

from pathlib import Path

import pytest

from perfmodel.cli import run

LLAMA = ["--model", "llama-3.1-8b", "--hardware", "h100"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (
            ["explore", "--batch", "1..17", "--context", "1001..1241"],
            "--batch, --context: must be at most 4096 points a surface, given 4097",
        ),
        (
            [
                "explore",
                "--tp",
                "1,2,4,8",
                "--batch",
                "1..64",
                "--context",
                "1001..1064",
                "--max-gamma",
                "61",
            ],
            "must be at most 5000000 points of all surfaces, given 5079040",
        ),
        (
            ["plot", "ratios", "--gamma", "3", "--batch", "1,2,3,4,5,6,7,8,9", "--context", "1k..8k"],
            "--batch: must be at most 8 values here, one line each, given 9",
        ),
    ],
)
def test_more_than_a_page_or_picture_can_show_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], says: str
) -> None:
    suffix = "html" if flags[0] == "explore" else "svg"
    assert run([*flags, *LLAMA, "--output", str(tmp_path / f"out.{suffix}")]) == 2
    assert says in capsys.readouterr().err
