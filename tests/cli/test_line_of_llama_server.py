"""The command line of llama-server below the answer of ``whatif``."""

import pytest

from perfmodel.cli import run

POINT = ["--batch", "1", "--context", "4k"]
ASK = ["whatif", "--model", "qwen3.6-27b", "--weights", "q4_k_m", "--draft", "mtp", *POINT, "--hardware"]
NO_LINE = "no command line, because not one sequence fits"


@pytest.mark.parametrize(
    ("served", "fits"),
    [
        (["rtx-3090"], True),
        (["rtx-3060"], False),
        (["rtx-3060", "--gpu-layers", "30", "--host-bandwidth", "60"], True),
    ],
)
def test_a_server_that_does_not_fit_has_no_line(capsys, served: list[str], fits: bool) -> None:
    assert run([*ASK, *served]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert ("llama-server -m" in out) == fits
    assert (NO_LINE in out) == (not fits)


def test_a_server_without_a_known_acceptance_says_so_too(capsys) -> None:
    run(["whatif", "--model", "deepseek-v4-flash", "--hardware", "m5-max", "--draft", "dspark", *POINT])
    assert NO_LINE in " ".join(capsys.readouterr().out.split())
