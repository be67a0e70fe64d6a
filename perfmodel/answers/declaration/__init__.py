"""Declares the arguments of questions: their help, and how their values are read.

A question is a frozen dataclass (`question`) whose fields are declared arguments. Arguments that several
questions share are in `question/arguments.py`; a field that only one question has declares its own
`argument`. When a question is made, each value is read once, from text such as ``"32k"`` or from a Python
value, so each field has one type. The command line makes its flags from the same arguments. `asks` turns a
function that takes a question into one that takes the arguments of the question.
"""

from perfmodel.answers.declaration.arguments import (
    MAX_LISTED,
    POSITIVE,
    SHARE,
    TINY,
    Argument,
    declared_by,
    flag,
    listed,
    within,
)
from perfmodel.answers.declaration.questions import (
    Question,
    argument,
    arguments,
    options,
    question,
    same_as,
)
from perfmodel.answers.declaration.verbs import Verb, asks

__all__ = [
    "MAX_LISTED",
    "POSITIVE",
    "SHARE",
    "TINY",
    "Argument",
    "Question",
    "Verb",
    "argument",
    "arguments",
    "asks",
    "declared_by",
    "flag",
    "listed",
    "options",
    "question",
    "same_as",
    "within",
]
