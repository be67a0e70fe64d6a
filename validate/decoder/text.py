"""Converts text to tokens and back. A byte-level model uses bytes, and other models use the tokenizer of a
Hugging Face folder.
"""

from pathlib import Path

from perfmodel.errors import InputError, refuse
from perfmodel.specs import ModelSpec
from perfmodel.specs.boundary.files import read_mapping

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")
"""Files of which a folder with a tokenizer has at least one."""


class Tokenizer:
    """Converts text to tokens and back. In this class, a token is a byte of UTF-8.

    - bos: the BOS token; None if there is none.
    """

    bos: int | None = None

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, including special tokens such as a leading BOS."""
        return list(text.encode())

    def chat(self, text: str) -> list[int]:
        """The tokens of a conversation that ends with one user message. Raises InputError without a chat
        template.
        """
        raise InputError("--chat: needs a chat template, and a byte-level model has none")

    def decode(self, tokens: list[int]) -> str:
        """The text of some tokens. Invalid bytes become replacement characters."""
        return bytes(tokens).decode(errors="replace")


class HuggingFace(Tokenizer):
    """The tokenizer of a folder, read by transformers without the network."""

    def __init__(self, folder: Path) -> None:
        try:
            from transformers import AutoTokenizer
        except ImportError:
            raise InputError(
                f"{folder}: its tokenizer needs transformers: pip install 'perfmodel[text]'"
            ) from None
        try:
            self._inner = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except Exception as error:  # transformers raises many kinds of errors for malformed files
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
        except Exception as error:  # a template is a program and can raise any error
            raise InputError(f"--chat: the folder's chat template: {_brief(error)}") from None
        return list(self._inner(whole, add_special_tokens=False)["input_ids"])

    def decode(self, tokens: list[int]) -> str:
        return str(self._inner.decode(tokens))


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:160]


def tokenizer(spec: ModelSpec, folder: Path | None) -> Tokenizer | None:
    """The tokenizer of a model; None if it has none. Raises InputError if the tokenizer cannot be read.

    - folder: the checkpoint of the model; None for a bundled model.
    """
    if folder is not None and any((folder / name).is_file() for name in TOKENIZER_FILES):
        return HuggingFace(folder)
    return Tokenizer() if spec.vocab_size == 256 else None


def end_tokens(folder: Path | None) -> tuple[int, ...]:
    """The EOS tokens of a checkpoint folder. As in transformers, they come from generation_config.json, or
    from config.json if that file does not exist.
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
