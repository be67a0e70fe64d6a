"""Declares the arguments of questions: their meaning, and how their values are read.

A question is a frozen dataclass (`question`) whose fields are annotated with arguments. Those that several
questions share are in `question/arguments.py`; a field of one question only declares its own `argument`.
Making a question reads all given values once, text such as ``"32k"`` or Python's values, so each field has
one type. The command line makes its flags from the same arguments. `asks` turns a function of a question into
one of its arguments.
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
