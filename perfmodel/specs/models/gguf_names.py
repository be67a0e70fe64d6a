"""Recognises names of GGUF files, of repositories for ``llama-server -hf``, and of tags in Ollama's
library.
"""

import re

from perfmodel.immutable import Immutable
from perfmodel.specs.models.ggml import MEANT

_REPOSITORY = re.compile(
    r"""
    (?:[^/]+/                                          # owner of the repository
        (?:[a-z-]+_)?                                  # maker of the model, as bartowski writes it
    )?
    (?P<model>[^/:]+?)
    (?:-(?:mtp|qat|i1))*                               # MTP layers, training for quantisation, imatrix
    (?:-(?P<mix_in_name>(?:ud-)?(?:i?q\d|mxfp4)\w*))?
    -gguf
    (?::(?P<mix_after_colon>[\w-]+))?
    """,
    re.IGNORECASE | re.VERBOSE,
)
_TAG = re.compile(
    r"""
    (?P<family>[a-z][\w.-]*)
    :
    (?P<size>\d+(?:\.\d+)?[bm](?:-a\d+b)?)            # 8b, 1.5b, 270m or 30b-a3b
    (?:-(?:it|instruct|chat|text|thinking|qat))*       # tuning
    (?:-(?P<mix>q\d\w*|fp16|bf16|mxfp4))?
    """,
    re.IGNORECASE | re.VERBOSE,
)
_MIX_IN_NAME = MEANT | {"mxfp4": "mxfp4_moe"}
"""The word in this package for a word in the name of a file, if the two differ."""


class GGUFRepository(Immutable):
    """The name of a repository with GGUF files, ``OWNER/NAME-GGUF[:MIX]``.

    - model: the part NAME.
    - mix: the part MIX. It is None if the name has no mix.
    """

    model: str
    mix: str | None


class OllamaTag(Immutable):
    """A tag in Ollama's library, ``NAME:SIZE[-MIX]``, such as ``qwen3:30b-a3b-q4_K_M``.

    - mix: the part MIX. It is None if the name has no mix.
    """

    family: str
    size: str
    mix: str | None


def gguf_repository(name: str) -> GGUFRepository | None:
    """The repository of GGUF files that a name means. The result is None for any other name. A mix after a
    colon (``:MIX``) takes precedence over a mix in the name.
    """
    repository = _REPOSITORY.fullmatch(name)
    if repository is None:
        return None
    return GGUFRepository(
        repository["model"], _mix(repository["mix_after_colon"] or repository["mix_in_name"])
    )


def ollama_tag(name: str) -> OllamaTag | None:
    """The tag of Ollama's library that a name means. The result is None for any other name."""
    tag = _TAG.fullmatch(name)
    if tag is None:
        return None
    return OllamaTag(tag["family"], tag["size"], _mix(tag["mix"]))


def is_gguf(model: str) -> bool:
    """Whether the name of a model is a GGUF file, or a repository of GGUF files."""
    return model.endswith((".gguf", ".GGUF")) or gguf_repository(model) is not None


def _mix(word: str | None) -> str | None:
    """The mix that a word in a name means. The result is None without a word."""
    if word is None:
        return None
    return _MIX_IN_NAME.get(word.lower(), word.lower())
