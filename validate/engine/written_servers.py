"""Rewrites servers that people declare in YAML (Docker Compose, Kubernetes) or start in Python as
commands.
"""

import ast
import json
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress

IMAGES = ("vllm/vllm-openai", "llama.cpp:server")
"""Names of container images that start a server. The options of the server are its arguments."""
LONGEST_CALL = 4000
"""Largest number of characters in a call of Python."""
_LIST = re.compile(
    r"^(?P<key>[ \t-]*(?:command|args|cmd|CMD|ENTRYPOINT):?)[ \t]*(?P<items>\[.*?\])[ \t]*$", re.M | re.S
)
"""A list in brackets with the words of a command, in YAML or in a Dockerfile."""
_KEY = re.compile(
    r"^(?:[ \t]*(?:- )?(?:command|args|cmd):(?:[ \t]*[>|][-+]?)?|(?:CMD|ENTRYPOINT))(?=\s)", re.M
)
"""The key of the command in YAML, or its instruction in a Dockerfile."""
_COMMENT = re.compile(r"^[ \t]*#.*\n", re.M)
"""A line of YAML that is a comment."""
_ITEM = re.compile(r"^[ \t]*- (?=\S)", re.M)
"""The beginning of an item of a list in YAML."""
_SERVE = re.compile(r"^(?:vllm serve|python3? -m vllm\.entrypoints\.openai\.api_server)\s")
"""The beginning of a command that an image adds by itself."""
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
    command = _of_python(text) or _of_yaml(text)
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


def _of_yaml(text: str) -> str:
    """The text with the words of a declared command in one line."""
    if _KEY.search(text) is None and _LIST.search(text) is None:
        return text
    text = _COMMENT.sub("", text)
    text = _LIST.sub(lambda found: f"{found['key']} {_joined(found['items'])}", text)
    image = next((found for name in IMAGES if (found := re.search(re.escape(name) + r"\S*", text))), None)
    keys = [key for key in _KEY.finditer(text) if image is None or key.start() > image.end()]
    if not keys:
        return text
    command = _ITEM.sub("", _KEY.sub("", text[keys[0].start() :]))
    return f"{image[0]} {_SERVE.sub('', command.lstrip())}" if image else command


def _joined(items: str) -> str:
    """The words of a list in brackets. An item with spaces is a whole command."""
    with suppress(*_NOT_READ):
        words = ast.literal_eval(items)
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            return " ".join(shlex.quote(word) if word.startswith("{") else word for word in words)
    return items


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
