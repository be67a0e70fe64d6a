"""Rewrites servers that people start in Python, in a container or in a shell as commands."""

import ast
import json
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress

from perfmodel.validate.engine.containers import of_container
from perfmodel.validate.engine.programs import COMMAND

LONGEST_CALL = 4000
"""Largest number of characters in a call of Python."""
_SHELL = re.compile(r"\s-l?c\s+(?P<quote>[\"'])(?P<command>.*?)(?<!\\)(?P=quote)", re.S)
"""The command in quotes that a shell runs, as in ``sh -c "..."``."""
_CALL = re.compile(r"\b(?P<name>LLM|AsyncEngineArgs|EngineArgs|Engine|ServerArgs)\(")
_COMMANDS = {
    "LLM": "vllm serve",
    "AsyncEngineArgs": "vllm serve",
    "EngineArgs": "vllm serve",
    "Engine": "sglang serve",
    "ServerArgs": "sglang serve",
}
"""Name of a Python class -> the command that starts the same server."""
_NOT_READ = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError)
"""Errors of Python for a text that is no expression of literals."""
_TENSORRT = re.compile(r"\btensorrt_llm\b")
"""The package of TensorRT-LLM, whose class `LLM` has the same name as that of vLLM."""
_DRAFT = re.compile(r"\bdecoding_type[\"']?: *[\"']?(?P<kind>\w+)|\b(?P<named>\w+)DecodingConfig\(")
"""The kind of draft in TensorRT-LLM's YAML or Python."""
_LENGTH = re.compile(r"\b(?:max_draft_len|num_nextn_predict_layers)[\"']? *[:=] *(\d{1,4})\b")
_MODEL = re.compile(r"\bspeculative_model(?:_dir)?[\"']? *[:=] *[\"']?([^\s\"',)]+)")
_KINDS = {"eagle": "eagle3", "drafttarget": "draft_model", "draft_target": "draft_model"}
"""TensorRT-LLM's name for a kind of draft -> vLLM's name, where they differ."""


def as_command(text: str) -> str:
    """The text, with a server that is declared in YAML or started in Python as a command. Any other text is
    returned unchanged.
    """
    command = _of_python(text) or _of_shell(of_container(text) or text)
    return f"{command} {_draft_of(text)}" if "trtllm-serve" in command else command


def _draft_of(text: str) -> str:
    """The draft in TensorRT-LLM's YAML or Python, as vLLM's flag; empty without one."""
    found = _DRAFT.search(text)
    if found is None:
        return ""
    kind = (found["kind"] or found["named"]).lower()
    config: dict[str, object] = {"method": _KINDS.get(kind, kind)}
    if model := _MODEL.search(text):
        config["model"] = model[1]
    if length := _LENGTH.search(text):
        config["num_speculative_tokens"] = int(length[1])
    return shlex.quote(f"--speculative-config={json.dumps(config)}")


def _of_shell(text: str) -> str:
    """The text, with the command of a server that a shell runs without its quotes."""

    def opened(found: re.Match[str]) -> str:
        is_server = COMMAND.search(found["command"])
        return " " + found["command"].replace('\\"', '"') if is_server else found[0]

    return _SHELL.sub(opened, text)


def _of_python(text: str) -> str | None:
    """The command of the server that a Python program starts; None for any other text."""
    found = _CALL.search(text)
    if found is None:
        return None
    call = _parsed(text[found.start() :])
    if call is None:
        return None
    words = [word for argument in call.keywords for word in _option(argument)]
    if call.args and (model := _value(call.args[0])):
        words = [f"--model={model}", *words]
    command = _COMMANDS[found["name"]]
    if command.startswith("vllm") and _TENSORRT.search(text):
        command = "trtllm-serve"
    return f"{command} {shlex.join(words)}" if words else None


def _parsed(text: str) -> ast.Call | None:
    """The call at the beginning of a text; None if its parentheses are not closed."""
    for end in (n + 1 for n, sign in enumerate(text[:LONGEST_CALL]) if sign == ")"):
        with suppress(*_NOT_READ):
            parsed = ast.parse(text[:end], mode="eval").body
            return parsed if isinstance(parsed, ast.Call) else None
    return None


def _option(argument: ast.keyword) -> Iterator[str]:
    """The flag with the same meaning as a keyword of the call, and its value. It is left out if the value is
    not a literal.
    """
    if argument.arg is None:
        return
    with suppress(*_NOT_READ):
        value = ast.literal_eval(argument.value)
        flag = f"--{argument.arg.replace('_', '-')}"
        if value is True:
            yield flag
        elif isinstance(value, dict):
            yield f"{flag}={json.dumps(value)}"
        elif value is not False and value is not None:
            yield f"{flag}={value}"


def _value(node: ast.expr) -> object:
    """The value of a literal; empty for any other expression."""
    with suppress(*_NOT_READ):
        return ast.literal_eval(node)
    return ""
