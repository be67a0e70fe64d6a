"""Lines of concurrent requests and a TPOT: which lines count, and whose draft length they have."""

import pytest

from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.pastes import form_of
from perfmodel.validate.engine.pastes.concurrency_lines import ConcurrencyLines
from perfmodel.validate.engine.timing import GivenFacts
from tests.validate.engine.pasting import sample

ONE = "concurrency=1: TPOT 8.3ms"


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("concurrency=8: TPOT 9.9ms", True),
        ("concurrency=1: TPOT 9.9ms", False),
        ("concurrency=8: TPOT 17.1ms without MTP, TPOT 9.9ms with MTP", False),
        ("| concurrency=8 | TPOT 9.9ms |", False),
        ("TPOT 9.9ms", False),
    ],
)
def test_lines_of_two_loads_with_one_time_each_are_steps(line: str, counts: bool) -> None:
    form = form_of(f"{ONE}\n{line}\n")
    assert isinstance(form, ConcurrencyLines) is counts


def test_a_line_with_a_draft_length_of_its_own() -> None:
    text = f"{ONE}, n=3, AL 2.31\nconcurrency=8: TPOT 9.9ms, n=2, AL 1.9\n"
    steps = read_pasted("-", text, GivenFacts(input=1000))
    assert [(step.batch, step.gamma, step.tokens_per_iteration) for step in steps] == [
        (1, 3, 2.31),
        (8, 2, 1.9),
    ]


def test_a_given_draft_length_is_that_of_lines_which_state_an_accepted_length() -> None:
    drafting, _, _ = sample("concurrency_lines").partition("\n")[2].partition("Baseline")
    steps = read_pasted("-", drafting, GivenFacts(input=1000, gamma=4))
    assert [(step.gamma, step.tokens_per_iteration) for step in steps] == [(4, 2.31), (4, 2.29)]
