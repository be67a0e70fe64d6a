"""Writes the steps of a formula as the source code of a Python function."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "power": "**",
    "greater": ">",
    "greater_equal": ">=",
    "less": "<",
    "less_equal": "<=",
    "equal": "==",
}
"""Functions of numpy that have an operator."""


class Step(NamedTuple):
    """A step of a program: the name of a numpy function, and the names of its arguments."""

    function: str
    inputs: tuple[str, ...]


def function_source(
    names: Sequence[str], steps: Mapping[Step, str], results: Sequence[str], several: bool = False
) -> str:
    """The source code of a Python function that runs the steps. Its arguments are `names`. Steps whose result
    is not used are left out.

    - several: whether the function returns a tuple.

    A variable is reused once its value is no longer needed, so few arrays exist at the same time.
    """
    last_use = _last_uses(steps, results)
    variables: dict[str, str] = {}
    free: list[str] = []
    lines = []
    for number, (step, name) in enumerate(steps.items()):
        if name not in last_use:
            continue
        written = _expression(step.function, [variables.get(each, each) for each in step.inputs])
        ending = {each for each in step.inputs if each in variables and last_use[each] == number}
        free.extend(variables[each] for each in sorted(ending))
        variables[name] = free.pop() if free else f"x{len(set(variables.values()))}"
        lines.append(f"    {variables[name]} = {written}\n")
    result = ", ".join(variables.get(each, each) for each in results)
    returned = f"({result},)" if several and result else result or "()"
    return f"def program({', '.join(names)}):\n{''.join(lines)}    return {returned}\n"


def _last_uses(steps: Mapping[Step, str], results: Sequence[str]) -> dict[str, int]:
    """For the name of each value that a result needs: the number of the last step that uses the value. The
    results themselves are used after the last step.
    """
    last_use = dict.fromkeys(results, len(steps))
    for number, (step, name) in reversed([*enumerate(steps.items())]):
        if name in last_use:
            for each in step.inputs:
                last_use.setdefault(each, number)
    return last_use


def _expression(function: str, inputs: Sequence[str]) -> str:
    """The expression that runs a step."""
    if function in INFIX:
        return f" {INFIX[function]} ".join(inputs)
    if function == "negative":
        return f"-{inputs[0]}"
    return f"{function}({', '.join(inputs)})"
