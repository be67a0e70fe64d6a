"""Functions such as `whatif`, which answer a question and take its arguments (*verbs*)."""

from collections.abc import Callable
from functools import wraps
from inspect import Signature, getdoc, signature
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from perfmodel.answers.declaration.arguments import type_of_field
from perfmodel.answers.declaration.questions import Question, arguments
from perfmodel.errors import as_names, in_names, unknown_name

P = ParamSpec("P")
Q = TypeVar("Q", bound=Question)
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class Verb(Protocol[P, A_co]):
    """A function that takes the arguments of a question. Alternatively, the function takes an existing
    question and new values for some of the arguments.
    """

    question: type[Any]
    __name__: str

    @overload
    def __call__(self, question: Question, /, **changes: Any) -> A_co: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> A_co: ...


def asks(question_class: Callable[P, Q]) -> Callable[[Callable[[Q], A]], Verb[P, A]]:
    """Turns a function that takes a question into a function that takes the arguments of the question. The
    attribute `question` of the result is the class of the question.
    """
    assert isinstance(question_class, type)

    def decorate(answer: Callable[[Q], A]) -> Verb[P, A]:
        """The function that takes values, a question, or a question and new values for some of its
        arguments.
        """

        @in_names
        @wraps(answer)
        def verb(*args: Any, **changes: Any) -> A:
            values = changes
            if args and isinstance(args[0], Question):
                question, *more = args
                if more:
                    raise TypeError(f"{answer.__name__}() takes one question, and changes to it by name")
                if type(question) is question_class and not changes:
                    return answer(cast(Q, question))
                values = _shared(question, question_class) | changes
                args = ()
            known = arguments(question_class)
            for name in values.keys() - known.keys():
                raise unknown_name(f"{answer.__name__}()", "argument", name, known)
            asked: Any = question_class(*args, **values)
            return answer(asked)

        return _described(verb, answer, question_class)

    return decorate


def _shared(question: Question, question_class: Any) -> dict[str, Any]:
    """The values of a question that another class of questions can have too."""
    values = {}
    for name, argument in arguments(question_class).items():
        value = getattr(question, name, None)
        if value is not None or (argument.optional and hasattr(question, name)):
            values[name] = value
    return values


def _described(verb: Any, answer: Callable[..., Any], question_class: Any) -> Any:
    """A verb with the signature of its question, whose arguments its docstring explains."""
    known = arguments(question_class)
    lines = [f"    {name}: {as_names(argument.help)}" for name, argument in known.items()]
    verb.__doc__ = "\n".join([as_names(getdoc(answer) or ""), "", "Arguments:", *lines])
    parameters = signature(question_class).parameters.values()
    plain = [each.replace(annotation=type_of_field(each.annotation)) for each in parameters]
    verb.__signature__ = Signature(plain, return_annotation=signature(answer).return_annotation)
    verb.question = question_class
    return verb
