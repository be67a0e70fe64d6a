"""Answers stay as they are: commands of every verb, with every option, and their answers in tests/pinned/."""

import pytest

from tests import pinned
from tests.attack import verbs

ANSWERS = pinned.read()
DRAWING = ("plot", "explore", "validate", "mcp", "serve")
"""Verbs that draw, measure or serve."""


@pytest.mark.parametrize("command", ANSWERS, ids=str)
def test_an_answer_is_what_it_was(command: str) -> None:
    if command.startswith(("validate generate", "validate acceptance")):
        pytest.importorskip("torch")
    _unchanged(command, ANSWERS[command], pinned.ask(command))


def _unchanged(command: str, before: str, answer: str) -> None:
    changes = pinned.changes(before, answer)
    if changes:
        lines = "\n  ".join(changes)
        pytest.fail(f"{command}\n  {lines}\nif that is meant: {pinned.REWRITE}", pytrace=False)


def test_a_change_is_reported_with_its_place_and_size() -> None:
    before = '{"a": {"b": 2.0, "c": "of 4"}, "d": [1, 2]}'
    after = '{"a": {"b": 2.00001, "c": "of 5"}, "d": [1, 3, 4], "e": null}'
    assert pinned.changes(before, before) == []
    assert pinned.changes(before, after) == [
        'a.c: "of 4" -> "of 5"  (+25 %)',
        "d.1: 2 -> 3  (+50 %)",
        "d.2: (absent) -> 4",
        "e: (absent) -> null",
    ]
    assert pinned.changes("yes  1,000 ms\nb", "no 1,000 ms\nb") == ["line 1: yes  1,000 ms -> no 1,000 ms"]
    assert pinned.changes("1,000 ms\nb", "1,500  ms\nb") == ["line 1: 1,000 ms -> 1,500  ms  (+50 %)"]


def test_every_verb_that_answers_and_every_option_is_asked() -> None:
    asking = [
        v
        for v in verbs.verbs()
        if v.words[0] not in DRAWING and v.words[-1] not in ("check", "import", "list")
    ]
    assert not [v.name for v in asking if not any(f"{c} ".startswith(f"{v.name} ") for c in ANSWERS)]
    options_used = {word for command in ANSWERS for word in command.split() if word.startswith("--")}
    assert {flag for v in asking for flag in v.options} - verbs.NEVER - verbs.PLACES <= options_used


def test_the_files_stay_small_enough_to_be_read() -> None:
    assert sum(path.stat().st_size for path in pinned.FOLDER.glob("*.txt")) <= 245_000
