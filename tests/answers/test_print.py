"""``print(answer)`` is the text of the command; ``repr`` is one line."""

from pathlib import Path

import pytest

import perfmodel as pm
from perfmodel.answers.point.not_modelled import NOT_MODELLED
from perfmodel.answers.text import request_rate
from perfmodel.cli import run

ASK = {"batch": 8, "context": 4096}
WORDS = ["--model", "llama-3.1-8b", "--hardware", "h100", "--batch", "8", "--context", "4096"]


@pytest.mark.parametrize(
    ("verb", "named", "words"),
    [
        ("whatif", {"draft": "eagle3", "gamma": 3}, ["--draft", "eagle3", "--gamma", "3"]),
        ("ops", {"gamma": 3}, ["--gamma", "3"]),
        ("tree", {"rates": "0.7,0.1"}, ["--rates", "0.7,0.1"]),
        ("advise", {"draft": "eagle3"}, ["--draft", "eagle3"]),
    ],
)
def test_an_answer_prints_what_the_command_prints(capsys, verb, named, words) -> None:
    answer = getattr(pm, verb)("llama-3.1-8b", "h100", **ASK, **named)
    run([verb, *WORDS, *words])
    assert str(answer) == capsys.readouterr().out.strip("\n")
    assert "\n" not in repr(answer)


def test_what_is_not_modelled_is_named_in_the_full_answer_and_among_the_limits(capsys) -> None:
    run(["whatif", *WORDS, "--draft", "eagle3", "--gamma", "3", "--verbose"])
    full = " ".join(capsys.readouterr().out.split())
    limits = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")
    for effect in NOT_MODELLED:
        assert effect in full
        assert effect.lower() in limits.lower()


@pytest.mark.parametrize(
    ("rate", "words"), [(1.0, "1 request/s"), (0.999, "0.999 requests/s"), (2, "2 requests/s")]
)
def test_one_request_per_second_is_singular(rate: float, words: str) -> None:
    assert request_rate(rate) == words
