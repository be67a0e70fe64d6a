"""Reads the page of metrics of a running server, or a saved one."""

from pathlib import Path

from perfmodel.errors import InputError
from perfmodel.reading import read_text
from perfmodel.validate.engine.api_key import holds_key
from perfmodel.validate.engine.client import LiveServer
from perfmodel.validate.engine.text import NamedText, plain


def read_page(place: str) -> NamedText:
    """The text of a file, or the page of metrics of the server at a URL. Raises InputError."""
    if "://" not in place and not holds_key(place):
        return NamedText(place, plain(read_text(Path(place))))
    try:
        server = LiveServer.at(place)
        text = server.get("/metrics")
    except InputError as error:
        raise InputError(error.as_flags.replace("--url:", "--watch:", 1)) from None
    if text is None:
        raise InputError(f"--watch: {server.shown} has no page /metrics")
    return NamedText(f"--watch: {server.shown}", text)


def page_of(given: NamedText) -> NamedText:
    """The page of metrics, if the text is the URL of a server; otherwise the text itself. Raises
    InputError.
    """
    address = given.text.strip()
    return read_page(address) if address.startswith(("http://", "https://")) else given
