"""Checks the URL of a running server (`--url`)."""

import re
from urllib.parse import SplitResult, urlsplit

from perfmodel.errors import refuse
from perfmodel.validate.engine.api_key import HIDDEN, KEY, holds_key


def server_url(text: str) -> str:
    """The URL without ``/v1``. Raises InputError unless it is an http(s) URL with a host, without a user name
    and without a key. The message leaves out path, query and user name, which can contain a key.
    """
    allowed = f"http://HOST:PORT (a key goes into {KEY})"
    if holds_key(text):
        raise refuse("--url", None, allowed, HIDDEN)
    split = _split(text)
    if split is None:
        host = re.findall(r"^(?:\w+://)?[^/?#:]*(?::\d+)?", text.rpartition("@")[2])
        raise refuse("--url", None, allowed, host[0])
    path = split.path.rstrip("/").removesuffix("/v1")
    return f"{split.scheme}://{split.netloc}{path}"


def without_path(url: str) -> str:
    """A URL without its path, for messages."""
    return "/".join(url.split("/")[:3])


def _split(text: str) -> SplitResult | None:
    """The parts of an http(s) URL with a host and without a user name or query; None for any other text."""
    try:
        split = urlsplit(text if "//" in text else f"http://{text}")
        host = (split.hostname or "").encode("idna")  # raises ValueError for a name that no resolver accepts
        _ = split.port  # raises ValueError for a port that is not a number from 0 to 65535
    except ValueError:
        return None
    if split.scheme not in ("http", "https") or not host:
        return None
    return None if split.username or split.password or split.query else split
