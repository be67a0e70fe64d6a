"""Connections to the host of a URL, without redirects and proxies and within a time limit."""

import asyncio
import ssl
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from perfmodel.errors import InputError, one_line
from perfmodel.validate.engine.api_key import api_key
from perfmodel.validate.engine.server_url import without_path

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")


def http_client(url: str) -> "httpx.AsyncClient":
    """A client for a server. It follows no redirects and uses no proxy. `run_within` limits its time."""
    import httpx

    headers = {"Accept-Encoding": "identity"}
    if key := api_key():
        headers["Authorization"] = f"Bearer {key}"
    return httpx.AsyncClient(
        headers=headers,
        verify=ssl.create_default_context() if url.startswith("https") else False,
        trust_env=False,
        timeout=None,
        limits=httpx.Limits(max_connections=None),
    )


def run_within(limit_s: float, url: str, path: str, request: Coroutine[Any, Any, T]) -> T:
    """Runs a request. Raises InputError of one line if it takes more than `limit_s` seconds or if the
    connection fails.

    - url, path: the server and the path of the request, for messages.
    """

    async def limited() -> T:
        async with asyncio.timeout(limit_s):
            return await request

    try:
        return asyncio.run(limited())
    except TimeoutError:
        raise InputError(f"--url: {path}: is not whole after {limit_s:g} s") from None
    except InputError:
        raise
    except Exception as error:
        if not _is_of_connection(error):
            raise
        words = "" if api_key() else one_line(str(error)[:200])
        fault = words or type(error).__name__
        raise InputError(
            f"--url: {without_path(url)} cannot be reached or breaks off at {path}: {fault}"
        ) from None


def _is_of_connection(error: Exception) -> bool:
    """Whether an error comes from httpx, its transport or the resolver, which have several families of
    errors.
    """
    return type(error).__module__.startswith("httpx") or isinstance(error, OSError | ValueError)
