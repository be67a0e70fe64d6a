"""Reads prompts from texts and files, and converts them to tokens."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.reading import parse_json, read_text
from perfmodel.validate.decoder.text import Tokenizer


def read_prompts(
    reader: Tokenizer | None, texts: Sequence[str], file: Path | None, vocab: int, chat: bool = False
) -> list[list[int]]:
    """The prompts in `texts` and in a file, each a list of tokens. Raises InputError with the flag and the
    line of an invalid prompt.

    - reader: the tokenizer of the model; None if it has none.
    - file: a file of JSON lines, or a ``.txt`` file with one prompt. A JSON line is ``{"text": ...}``,
      ``{"tokens": [...]}`` or a list of tokens.
    - vocab: the number of tokens in the vocabulary.
    - chat: whether each text is a user message to which the model's chat template is applied.
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
    """The prompts of a file as pairs: the place for error messages, and the text or the tokens."""
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
    """The last `count` tokens of a prompt. A leading BOS token is kept and counts as one of these tokens.

    - count: None for the whole prompt.
    """
    if count is None or len(prompt) <= count:
        return prompt
    if prompt[0] == bos:
        return [*prompt[:1], *prompt[len(prompt) - count + 1 :]]
    return prompt[-count:]
