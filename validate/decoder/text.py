"""Text to tokens and back, with bytes for a byte-level model or a Hugging Face folder's own tokenizer; and
prompts.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.reading import parse_json, read_text
from perfmodel.specs import ModelSpec
from perfmodel.specs.boundary.files import read_mapping

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")


class Tokenizer:
    """Both directions. In this class a token is a byte of UTF-8. bos: the token with which texts begin; None
    without one.
    """

    bos: int | None = None

    def encode(self, text: str) -> list[int]:
        """Text to tokens, special ones (such as a leading BOS) included."""
        return list(text.encode())

    def chat(self, text: str) -> list[int]:
        """A user's message as the tokens of a conversation for the model to answer."""
        raise InputError("--chat: needs a chat template, and a byte-level model has none")

    def decode(self, tokens: list[int]) -> str:
        """Tokens to text. Invalid bytes are replaced."""
        return bytes(tokens).decode(errors="replace")


class HuggingFace(Tokenizer):
    """The tokenizer of a folder, as transformers reads it; nothing is looked up on the network."""

    def __init__(self, folder: Path) -> None:
        try:
            from transformers import AutoTokenizer
        except ImportError:
            raise InputError(
                f"{folder}: its tokenizer needs transformers: pip install 'perfmodel[text]'"
            ) from None
        try:
            self._inner = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except Exception as error:  # readers of other people's files raise anything
            raise InputError(
                f"{folder}: must hold a tokenizer that transformers reads: {_brief(error)}"
            ) from None
        self.bos = self._inner.bos_token_id

    def encode(self, text: str) -> list[int]:
        return list(self._inner(text)["input_ids"])

    def chat(self, text: str) -> list[int]:
        message = [{"role": "user", "content": text}]
        try:
            whole = self._inner.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        except Exception as error:  # templates are programs
            raise InputError(f"--chat: the folder's chat template: {_brief(error)}") from None
        return list(self._inner(whole, add_special_tokens=False)["input_ids"])

    def decode(self, tokens: list[int]) -> str:
        return str(self._inner.decode(tokens))


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:160]


def tokenizer(spec: ModelSpec, folder: Path | None) -> Tokenizer | None:
    """The model's tokenizer, or None if it has none. Raises InputError if it cannot be read."""
    if folder is not None and any((folder / name).is_file() for name in TOKENIZER_FILES):
        return HuggingFace(folder)
    return Tokenizer() if spec.vocab_size == 256 else None


def end_tokens(folder: Path | None) -> tuple[int, ...]:
    """The EOS tokens of a folder, as in transformers: from generation_config.json, or without that file from
    config.json.
    """
    if folder is None:
        return ()
    path = folder / "generation_config.json"
    path = path if path.is_file() else folder / "config.json"
    given = read_mapping(path).get("eos_token_id")
    ends = given if isinstance(given, list) else [] if given is None else [given]
    if not all(type(token) is int for token in ends):
        raise refuse(str(path), "eos_token_id", "a token number, a list of them or null", given)
    return tuple(ends)


def read_prompts(
    reader: Tokenizer | None, texts: Sequence[str], file: Path | None, vocab: int, chat: bool = False
) -> list[list[int]]:
    """Prompts of `texts` and of a file, each a list of tokens. Documents are never joined.

    file: JSON lines, each ``{"text": ...}``, ``{"tokens": [...]}`` or a list of tokens; or ``.txt``, one
    document. chat: every text is a user's message, formatted by the model's chat template. Raises InputError
    naming flag and line.
    """
    given_by_place = [("--prompt", text) for text in texts]
    if file is not None:
        given_by_place += list(_documents(file))
        if not given_by_place:
            raise refuse("--prompts", str(file), "one document or more", "none")
    prompts = [_tokens(where, given, reader, vocab, chat) for where, given in given_by_place]
    for (where, _), prompt in zip(given_by_place, prompts, strict=True):
        if not prompt:
            raise refuse(where, None, "a text of one token or more", "none")
    return prompts


def _documents(file: Path) -> Iterator[tuple[str, Any]]:
    """(where, text or tokens) of every document of a file."""
    try:
        content = read_text(file)
    except InputError as error:
        raise InputError(f"--prompts: {error}") from None
    if file.suffix == ".txt":
        yield f"--prompts: {file}", content
        return
    for number, line in enumerate(content.splitlines(), 1):
        where = f"--prompts: {file}: line {number}"
        if not line.strip():
            continue
        document = parse_json(where, line)
        given = document
        if isinstance(document, dict):
            given = document.get("text", document.get("tokens"))
        if not isinstance(given, (str, list)):
            allowed = 'an object with "text" or "tokens", or a list of tokens'
            raise refuse(where, None, allowed, type(document).__name__)
        yield where, given


def _tokens(
    where: str, given: str | list[Any], reader: Tokenizer | None, vocab: int, chat: bool
) -> list[int]:
    if isinstance(given, list):
        wrong = [token for token in given if type(token) is not int or not 0 <= token < vocab]
        if wrong:
            shown = wrong[0] if type(wrong[0]) is int else type(wrong[0]).__name__
            raise refuse(where, None, f"tokens in 0 .. {vocab - 1}", shown)
        if chat:
            raise InputError(f"{where}: --chat: must be given texts, not tokens")
        return given
    if reader is None:
        raise InputError(f"{where}: must be tokens: the model has no tokenizer")
    return reader.chat(given) if chat else reader.encode(given)


def last_tokens(prompt: list[int], count: int | None, bos: int | None) -> list[int]:
    """The end of a prompt, at most `count` tokens. A leading BOS stays."""
    if count is None or len(prompt) <= count:
        return prompt
    if prompt[0] == bos:
        return [*prompt[:1], *prompt[len(prompt) - count + 1 :]]
    return prompt[-count:]
