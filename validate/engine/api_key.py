"""The API key of the user's server.

The key is read from the environment variable `KEY` and is sent only in the header of a request. A server
might repeat the key in any spelling. While a key is set, no text from the server is therefore kept or shown
(`quoted`, `without_words`).
"""

import os
from urllib.parse import unquote

from perfmodel.errors import InputError, one_line

KEY = "PERFMODEL_API_KEY"
HIDDEN = f"[not shown while {KEY} is set]"
"""Replaces text of the server in messages."""
VERSION = r"b?\d{1,5}(\.\d{1,4}){0,2}"
"""The part of a version that is kept while a key is set. It has too few digits to contain the key."""


def api_key() -> str:
    """The API key for the server; empty if none is set. Raises InputError if it cannot be sent in a
    header.
    """
    key = os.environ.get(KEY, "")
    if not (key.isascii() and key.isprintable()):
        raise InputError(f"{KEY}: must be printable ASCII")
    return key


def holds_key(text: str) -> bool:
    """Whether an argument of the user contains the API key."""
    return bool(api_key()) and api_key().lower() in unquote(text).lower()


def quoted(text: str, most: int = 200) -> str:
    """The start of a server's text as one line for a message; `HIDDEN` if a key is set."""
    return HIDDEN if api_key() and text else one_line(text[:most])


def without_words(error: InputError) -> InputError:
    """The same error. If a key is set, the text of the server is removed from it."""
    return InputError(error.as_flags.partition(", given ")[0] if api_key() else error.as_flags)
