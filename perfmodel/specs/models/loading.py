"""Loads a model from the text that the user typed: a name, an id, a checkpoint, a repository, a tag or a
file.
"""

from contextlib import suppress
from functools import cache
from pathlib import Path

from perfmodel.errors import InputError
from perfmodel.parse import parse_text
from perfmodel.reading import exists, is_file, is_folder
from perfmodel.specs.boundary import files
from perfmodel.specs.models.checkpoint_rows import listed_checkpoints
from perfmodel.specs.models.format_in_name import format_in_name
from perfmodel.specs.models.ggml import CONVERTED, USUAL_MIX
from perfmodel.specs.models.gguf_names import OllamaTag, gguf_repository, ollama_tag
from perfmodel.specs.models.model import ModelSpec
from perfmodel.specs.models.model_files import read_model
from perfmodel.specs.models.names import aliases, load_bundled, shape_for
from perfmodel.specs.models.variants import variant


def load_model(name: str, flag: str = "--model") -> ModelSpec:
    """Loads a model by its bundled name, an alias, a Hugging Face id or a path. The path is a YAML file, a
    ``config.json``, a ``.gguf`` file, or a folder with a ``config.json``. ``OWNER/NAME-GGUF:MIX`` means the
    model NAME with the weights of llama.cpp's mix MIX.

    Raises InputError, which names the unknown name or the missing key.
    """
    name = parse_text(name, flag)
    key = files.spelling(name)
    if key in files.bundled_names("models"):
        return load_bundled(key)
    path = Path(name)
    if is_folder(name):
        return read_model(path / "config.json")
    if name.endswith(files.SUFFIXES) or (files.looks_like_path(name) and is_file(name)):
        return read_model(path)
    return _named(name.rstrip("/"), flag)


@cache
def _named(name: str, flag: str) -> ModelSpec:
    """The bundled model that a name means. The name is not a file. It may be the name of a repository, a tag,
    a checkpoint, an alias or a variant.

    Raises InputError with the most similar names.
    """
    repository = gguf_repository(name)
    if repository is not None:
        return _in_mix(load_model(repository.model, flag), repository.mix)
    tag = ollama_tag(name)
    if tag is not None:
        return _of_ollama(tag, flag)
    key = files.spelling(name)
    spec = _checkpoint(key) or load_bundled(_bundled_name(shape_for(key) or name, flag))
    other = variant(name)
    if other is None:
        return spec
    return spec.replace(max_position_embeddings=other.max_position_embeddings)


def named_format(name: str) -> str | None:
    """The weight format of an unlisted checkpoint, if only its name states the format, as in
    ``nvidia/Llama-3.3-70B-Instruct-FP8``. The result is None for any other name.
    """
    key = files.spelling(name)
    if format_in_name(key) is None or exists(name):
        return None
    model = load_model(name)
    listed = files.spelling(model.hf_id or "")
    if key in (listed, listed.rpartition("/")[2]):
        return None
    return model.weights


def _bundled_name(name: str, flag: str) -> str:
    """The name of the bundled file that a name means. Raises InputError for an unknown name. If the name is
    the path of no file, or if a similar model is known but not modelled, the message says this.
    """
    try:
        return files.bundled_name("models", "model", name, flag, aliases)
    except InputError:
        files.refuse_missing(name, flag)
        from perfmodel.specs.boundary.unlisted import (  # imported late, for refusals only
            refuse_unlisted,
            unlisted_names,
        )

        refuse_unlisted(flag, name.rpartition("/")[2], unlisted_names().models)
        raise


@cache
def _checkpoint(key: str) -> ModelSpec | None:
    """The bundled model in the formats of a checkpoint. The result is None if the checkpoint is not listed,
    and its name states no format.

    - key: spelling of the checkpoint's id, with or without the owner.
    """
    if key in aliases():
        return None
    for row in listed_checkpoints():
        listed = files.spelling(row.checkpoint)
        if key in (listed, listed.rpartition("/")[2]):
            formats = {"weights": row.weights, "kv_dtype": row.kv_dtype}
            return load_model(row.model).replace(hf_id=row.checkpoint, **formats)
    named = format_in_name(key)
    if named is None:
        return None
    with suppress(InputError):
        return load_model(named.model).replace(**named.formats)
    return None


def _in_mix(base: ModelSpec, mix: str | None) -> ModelSpec:
    """A model in a mix of llama.cpp. By default, it is the mix to which the checkpoint is converted. This is
    `USUAL_MIX`, except for checkpoints in `CONVERTED`. In Ollama's library, a tag with only a size means the
    same mix (from memory).
    """
    return base.replace(weights=mix or CONVERTED.get(base.weights, USUAL_MIX))


def _of_ollama(tag: OllamaTag, flag: str) -> ModelSpec:
    """The model of a tag, in its mix. A size such as 30b also means a model with experts, 30b-a3b.

    Raises InputError for a tag whose model is not listed.
    """
    name = f"{tag.family}-{tag.size}".lower()
    with suppress(InputError):
        return _in_mix(load_model(files.bundled_name("models", "model", name, flag, aliases), flag), tag.mix)
    joined = name.replace("-", "")
    bundled = {each.replace("-", ""): each for each in files.bundled_names("models")}
    alike = [each for word, each in bundled.items() if word == joined or word.startswith(f"{joined}a")]
    return _in_mix(load_model(min(alike, key=len, default=name), flag), tag.mix)
