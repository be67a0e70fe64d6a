"""Text to tokens and back: bytes for a byte-level model, else the folder's own ``tokenizer.json``."""

from pathlib import Path
from typing import Any, Protocol

from perfmodel.errors import InputError, refuse
from perfmodel.specs.model import ModelSpec


class Tokenizer(Protocol):
    """Both directions."""

    def encode(self, text: str) -> list[int]:
        """Text to tokens."""
        ...

    def decode(self, tokens: list[int]) -> str:
        """Tokens to text; what is no text is replaced."""
        ...


class Bytes:
    """One token is one byte of UTF-8."""

    def encode(self, text: str) -> list[int]:
        """Text to bytes."""
        return list(text.encode())

    def decode(self, tokens: list[int]) -> str:
        """Bytes to text."""
        return bytes(tokens).decode(errors="replace")


class FromFile:
    """A Hugging Face ``tokenizer.json``."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def encode(self, text: str) -> list[int]:
        """Text to tokens, special ones (such as a leading BOS) included."""
        return list(self._inner.encode(text).ids)

    def decode(self, tokens: list[int]) -> str:
        """Tokens to text."""
        return str(self._inner.decode(tokens))


def tokenizer(spec: ModelSpec, folder: Path | None) -> Tokenizer | None:
    """The model's tokenizer, None where there is none. Raises InputError where reading it needs a missing package."""
    if spec.vocab_size == 256:
        return Bytes()
    path = folder / "tokenizer.json" if folder else None
    if path is None or not path.is_file():
        return None
    try:
        from tokenizers import Tokenizer as Reader
    except ImportError:
        raise InputError(f"{path}: reading it needs the package tokenizers, which is not installed") from None
    try:
        return FromFile(Reader.from_file(str(path)))
    except Exception as error:  # the reader raises bare Exception
        raise InputError(f"{path}: must be a tokenizer.json: {' '.join(str(error).split())[:120]}") from None


def end_tokens(folder: Path | None) -> tuple[int, ...]:
    """The EOS tokens that a folder's config.json names, none without a folder."""
    if folder is None:
        return ()
    from perfmodel.specs.files import read_mapping

    path = folder / "config.json"
    given = read_mapping(path).get("eos_token_id")
    ends = given if isinstance(given, list) else [] if given is None else [given]
    if not all(type(token) is int for token in ends):
        raise refuse(str(path), "eos_token_id", "a token number, a list of them or null", given)
    return tuple(ends)
