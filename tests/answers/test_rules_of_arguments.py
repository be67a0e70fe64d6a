"""Which arguments a question needs together, and which exclude each other."""

import pytest

import perfmodel as pm
from perfmodel.answers.declaration.questions import Question, argument, arguments, question
from perfmodel.errors import InputError

ONE_OF = ("rate", "clients", "trace")
"""Arguments of which a question accepts one. `Load` has no trace."""


@question
class Load(Question):
    """A question with both rules."""

    rate: float | None = argument("Requests per second.", default=None, without=ONE_OF, why="one load")
    clients: float | None = argument("Clients.", default=None, without=ONE_OF)
    think: float = argument("Pause in seconds.", default=1.0, needs=("clients",), why="who think")


@pytest.mark.parametrize(
    "given", [{}, {"rate": 2}, {"clients": 3}, {"clients": 3, "think": 2}, {"rate": 2, "clients": None}]
)
def test_what_keeps_the_rules_is_accepted(given) -> None:
    """An argument that names itself in `without` may be given, and so may an explicit None."""
    assert Load(**given).as_dict() == {"rate": None, "clients": None, "think": 1.0} | given


def test_a_default_that_is_given_explicitly_needs_nothing() -> None:
    assert Load(think=1) == Load()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"think": 2}, "think: needs clients, who think"),
        ({"think": 2, "rate": 3}, "think: needs clients, who think"),
        ({"clients": 3, "rate": 2}, "rate: must be left out with clients, one load"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_its_reason(given, message) -> None:
    """The first argument in the order of help is named, and an argument that the question lacks is not."""
    with pytest.raises(InputError) as refused:
        Load(**given)
    assert str(refused.value) == message


@pytest.mark.parametrize("verb", [pm.whatif, pm.advise, pm.compare, pm.traffic, pm.schedule, pm.tree])
def test_what_an_argument_needs_is_an_argument_of_the_same_question(verb) -> None:
    known = arguments(verb.question)
    assert {name for each in known.values() for name in each.needs} <= known.keys()
