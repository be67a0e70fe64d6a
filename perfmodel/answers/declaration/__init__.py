"""Declares the arguments of questions: their help, and how their values are read.

A question is a frozen dataclass (`question`) whose fields are declared arguments. `question/arguments.py` has
the arguments that several questions share. A field of only one question declares its own `argument`. When a
question is made, each value is read once, from a text such as ``"32k"`` or from a Python value. Each field of
a question therefore has one type. The command line makes its flags from the same arguments. `asks` turns a
function that takes a question into a function that takes the arguments of the question.
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
