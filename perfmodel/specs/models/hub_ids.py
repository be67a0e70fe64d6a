"""Finds the Hugging Face id of the model that a user means."""

import re
from functools import cache

from perfmodel.reading import exists, is_folder
from perfmodel.specs.boundary import files
from perfmodel.specs.models.gguf_names import gguf_repository
from perfmodel.specs.models.loading import load_model
from perfmodel.specs.models.model import ModelSpec
from perfmodel.specs.models.names import aliases, base_name, thinks, with_sizes

_TUNED = re.compile(r"-(instruct|it)(?=-|\.|$)", re.IGNORECASE)
"""The part of an id that marks an instruction-tuned model."""
_SIZE = re.compile(r"-\d+(?:\.\d+)?[bm](?![a-z0-9])")
"""A number of parameters in a name, such as -27b, -1.5b or -270m."""


def hub_id(name: str, flag: str = "--model") -> str | None:
    """The Hugging Face id of the model that a name means, and not of another model with the same bundled
    shape. It is the typed id, or the most similar listed id.

    Several models may have the same bundled shape (``llama-3.3-70b`` has the shape of ``llama-3.1-70b``), so
    the id is not simply that of the shape. If the name is a file, the id is the one in the file. If the name
    is a folder, the folder is returned. The result is None if no id is known. Raises InputError as
    `load_model` does.
    """
    if exists(name):
        stated = load_model(name, flag).hf_id
        return name if is_folder(name) else stated
    return _named_id(name, flag)


@cache
def _named_id(name: str, flag: str) -> str | None:
    """`hub_id` for a name that is not a file."""
    repository = gguf_repository(name)
    if repository is not None:
        return hub_id(repository.model, flag)
    longer = None if "/" in name else with_sizes(base_name(name))
    if longer is not None:
        return hub_id(longer, flag)
    spec = load_model(name, flag)
    if files.spelling(name) == spec.name:
        return spec.hf_id
    if "/" in name:
        return _listed_spelling(name, spec)
    return _most_similar(files.spelling(name), spec)


def _ids(spec: ModelSpec) -> list[str]:
    """The ids in the file of a bundled model. The id of the model itself comes first."""
    return [name for name in (spec.hf_id, *spec.aliases) if name is not None and "/" in name]


def _listed_spelling(name: str, spec: ModelSpec) -> str:
    """An id with the upper and lower case of the model's file. If the file does not list the id, the typed id
    is returned.
    """
    key = files.spelling(name)
    return next((listed for listed in _ids(spec) if files.spelling(listed) == key), name)


def _most_similar(key: str, spec: ModelSpec) -> str | None:
    """The listed id that is most similar to a name without owner.

    The following ids are tried in this order: the same name, the same name without its tuning suffix, and a
    name that begins with it. If the name is an alias, an id with the same letters or words is also tried.
    """
    by_word = {files.spelling(listed.rpartition("/")[2]): listed for listed in _ids(spec)}
    if key in by_word:
        return by_word[key]
    by_base_name = {base_name(listed): listed for listed in reversed(by_word.values())}
    if key in by_base_name:
        return by_base_name[key]
    longer = [listed for base, listed in by_base_name.items() if base.startswith(f"{key}-")]
    if longer:
        return longer[0]
    if key not in aliases():
        return None
    if spec.hf_id and _letters(key) in _letters(spec.hf_id):
        return spec.hf_id
    return next((listed for base, listed in by_base_name.items() if _words(key) <= _words(base)), None)


def _letters(name: str) -> str:
    """A name without its number of parameters and without separators: ``gemma3`` for ``gemma-3-27b``."""
    return re.sub(r"[-_./ ]", "", _SIZE.sub("", files.spelling(name)))


def _words(name: str) -> set[str]:
    """The words of a name, without its number of parameters."""
    return {*re.split("[-_.]", _SIZE.sub("", name))} - {""}


def served_id(name: str, flag: str = "--model") -> str | None:
    """The Hugging Face id with which an engine serves the model (see `hub_id`).

    A short name means the instruction-tuned model, if the bundled model has such an alias. ``llama-3.1-8b``
    is served as ``meta-llama/Llama-3.1-8B-Instruct``, although its config is that of the base model. Servers
    usually run instruction-tuned models, and draft heads are trained for the output of such models. The
    thinking variant of a model is another model and keeps its id.
    """
    hub = hub_id(name, flag)
    if hub is None or "/" in name or _TUNED.search(hub) or thinks(hub) or exists(name):
        return hub
    tuned = [listed for listed in _ids(load_model(name)) if _TUNED.search(listed)]
    return next((listed for listed in tuned if base_name(listed) == base_name(hub)), hub)
