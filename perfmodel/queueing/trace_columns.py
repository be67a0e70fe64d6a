"""The columns of a trace of requests, and the names that they have in public traces."""

from collections.abc import Container
from pathlib import Path
from typing import Any, NamedTuple

from perfmodel.errors import InputError

NAMES = {
    "at": ("timestamp", "arrival_s", "arrival", "arrival_time", "TIMESTAMP"),
    "input": ("input_length", "input_tokens", "prompt_tokens", "prompt_len", "input_len", "ContextTokens"),
    "output": ("output_length", "output_tokens", "completion_tokens", "output_len", "GeneratedTokens"),
}
"""The accepted names of each column: those of Mooncake, of this project, of OpenAI and vLLM, and of the Azure
trace.
"""
SESSION = ("session_id", "conversation_id", "session")
"""Columns that name a session. The requests of a session share parts of their prompts."""
HASHES = "hash_ids"
"""Column with hashes of shared prompt parts, in JSON only. It is preferred to a column of sessions."""


class Block(NamedTuple):
    """Some requests of a trace, one after another, as columns of numbers or text.

    - names: the name of each column in the file, by the key in `NAMES`.
    - at, input, output: arrival times, prompt tokens and output tokens.
    - mark: the name of the column `marks`. It is empty if the trace has no such column.
    - marks: the session of each request, or the hashes of its prompt parts. It is empty if the trace has
      neither.
    """

    names: dict[str, str]
    at: list[Any]
    input: list[Any]
    output: list[Any]
    mark: str
    marks: list[Any]


def column_names(head: Container[str], where: Path) -> dict[str, str]:
    """The names that a file uses for the columns of `NAMES`. Raises InputError if it lacks one of them.

    - head: the names of all columns of the file.
    """
    names = {}
    for key, accepted in NAMES.items():
        known = [name for name in accepted if name in head]
        if not known:
            raise InputError(f"{where}: must be requests with {' or '.join(accepted)}")
        names[key] = known[0]
    return names
