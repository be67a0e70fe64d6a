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
    stated = read_mapping(path).get("eos_token_id")
    if stated is None:
        return ()
    ends = stated if isinstance(stated, list) else [stated]
    if not all(type(token) is int for token in ends):
        raise refuse(str(path), "eos_token_id", "a token number, a list of them or null", stated)
    return tuple(ends)


def read_prompts(
    reader: Tokenizer | None, texts: Sequence[str], file: Path | None, vocab: int, chat: bool = False
) -> list[list[int]]:
    """Prompts of `texts` and of a file, each a list of tokens. Documents are never joined.

    file: JSON lines, each ``{"text": ...}``, ``{"tokens": [...]}`` or a list of tokens; or ``.txt``, one
    document. chat: every text is a user's message, formatted by the model's chat template. Raises InputError
    naming flag and line.
    """
    documents: list[tuple[str, Any]] = [("--prompt", text) for text in texts]
    if file is not None:
        documents += _documents(file)
        if not documents:
            raise refuse("--prompts", str(file), "one document or more", "none")
    prompts = [_tokens(where, document, reader, vocab, chat) for where, document in documents]
    for (where, _), prompt in zip(documents, prompts, strict=True):
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
        parsed = parse_json(where, line)
        document = parsed
        if isinstance(parsed, dict):
            document = parsed.get("text", parsed.get("tokens"))
        if not isinstance(document, (str, list)):
            allowed = 'an object with "text" or "tokens", or a list of tokens'
            raise refuse(where, None, allowed, type(parsed).__name__)
        yield where, document


def _tokens(
    where: str, document: str | list[Any], reader: Tokenizer | None, vocab: int, chat: bool
) -> list[int]:
    if isinstance(document, list):
        wrong = [token for token in document if type(token) is not int or not 0 <= token < vocab]
        if wrong:
            shown = wrong[0] if type(wrong[0]) is int else type(wrong[0]).__name__
            raise refuse(where, None, f"tokens in 0 .. {vocab - 1}", shown)
        if chat:
            raise InputError(f"{where}: --chat: must be given texts, not tokens")
        return document
    if reader is None:
        raise InputError(f"{where}: must be tokens: the model has no tokenizer")
    return reader.chat(document) if chat else reader.encode(document)


def last_tokens(prompt: list[int], count: int | None, bos: int | None) -> list[int]:
    """The end of a prompt, at most `count` tokens. A leading BOS stays."""
    if count is None or len(prompt) <= count:
        return prompt
    if prompt[0] == bos:
        return [*prompt[:1], *prompt[len(prompt) - count + 1 :]]
    return prompt[-count:]
