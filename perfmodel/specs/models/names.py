"""The names of bundled models: file names, aliases, and Hugging Face ids without owner and tuning suffix."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from perfmodel.specs.boundary import files
from perfmodel.specs.models.model import ModelSpec

_SIZED = re.compile(r"-\d+(?:\.\d+)?b$")
"""The end of a name that states a size."""


def other_names(data: Mapping[str, Any]) -> list[str]:
    """The aliases and the Hugging Face id of a bundled model from its file, each with and without the
    owner.
    """
    listed = (*data.get("aliases", ()), data.get("hf_id") or data["name"])
    return [*listed, *(alias.rpartition("/")[2] for alias in listed)]


@cache
def aliases() -> dict[str, str]:
    """A table from the spelling of an alias to the bundled model that has this alias."""
    return files.alias_table("models", ("name", "hf_id", "aliases"), other_names)


@cache
def load_bundled(name: str) -> ModelSpec:
    """Reads a bundled model by its exact name."""
    return files.load_bundled(ModelSpec, "models", name)


def base_name(name: str) -> str:
    """A Hugging Face id without its owner, its maker and its tuning suffix."""
    word = files.spelling(name.rpartition("/")[2])
    without_tuning = re.sub(r"-(instruct|thinking|it|chat|hf|base|bf16)(?=-|$)", "", word)
    return re.sub(r"^(meta|nvidia)-", "", without_tuning)


def thinks(name: str) -> bool:
    """Whether a repository has the thinking variant of a model, which is another model."""
    return "thinking" in name.casefold()


def is_listed(name: str) -> bool:
    """Whether a spelling is the name of a bundled model or an alias.

    The names of files are checked first. The aliases are in the files of all models, which take time to read.
    """
    return name in files.bundled_names("models") or name in aliases()


def shape_for(name: str) -> str | None:
    """The listed model that has the same shape as an unlisted Hugging Face id. The maker and the tuning
    suffix of the id are ignored. The result is None for an alias, and for an id that matches no listed name.

    ``Qwen/Qwen2.5-7B-Instruct`` has the shape of ``qwen2.5-7b``.
    """
    if name in aliases():
        return None
    plain = base_name(name)
    if is_listed(plain):
        return plain
    return with_sizes(plain)


@cache
def only_size(name: str) -> str | None:
    """The listed name that a name without any size means. The result is None for other names."""
    has_size = re.search(r"-\d+(?:\.\d+)?b\b", name) is not None
    return None if has_size or "/" in name else with_sizes(base_name(name))


@cache
def with_sizes(name: str) -> str | None:
    """The only listed name of a model that consists of this name and sizes. For ``seed-oss`` it is
    ``seed-oss-36b``. For ``nemotron-3-super`` and for ``nemotron-3-super-120b`` it is
    ``nemotron-3-super-120b-a12b``.

    The result is None if the name itself is listed, or if the names of several models consist of it and
    sizes.
    """
    if is_listed(name):
        return None
    size = "" if _SIZED.search(name) else r"(?:-\d+(?:\.\d+)?b)?"
    longer = re.compile(re.escape(name) + size + r"(?:-a\d+(?:\.\d+)?b)?")
    listed = {*aliases(), *files.bundled_names("models")}
    matches = [each for each in listed if longer.fullmatch(each)]
    models = {aliases().get(match, match) for match in matches}
    return min(matches) if len(models) == 1 else None
