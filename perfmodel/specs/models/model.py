"""Finds a model's shape: bundled by name or alias, or from a user's file."""

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from perfmodel.errors import InputError, about_file
from perfmodel.parse import parse_text
from perfmodel.reading import data_folder, exists, is_file, is_folder, read_rows
from perfmodel.specs.boundary import files
from perfmodel.specs.models.components import MLA, MoE, RopeScaling
from perfmodel.specs.models.formats import Precision, kv_format, weight_format
from perfmodel.specs.models.ggml import CONVERTED, USUAL_MIX, ollama_tag, repository
from perfmodel.specs.models.shape import ModelSpec

__all__ = ["MLA", "ModelSpec", "MoE", "RopeScaling", "aliases", "load_bundled", "load_model", "precision_of"]


def other_names(data: Mapping[str, Any]) -> list[str]:
    """Aliases and Hugging Face id of a bundled model from its file, with and without the owner."""
    listed = (*data.get("aliases", ()), data.get("hf_id") or data["name"])
    return [*listed, *(alias.rpartition("/")[2] for alias in listed)]


@cache
def aliases() -> dict[str, str]:
    """Spelling of another name -> the bundled model that has it."""
    return files.alias_table("models", ("name", "hf_id", "aliases"), other_names)


@cache
def load_bundled(name: str) -> ModelSpec:
    """A bundled model by its exact name."""
    return files.load_bundled(ModelSpec, "models", name)


def load_model(name: str, flag: str = "--model") -> ModelSpec:
    """A model by bundled name, alias, Hugging Face id, path of a YAML file, a ``config.json`` or a ``.gguf``,
    or a folder that holds a ``config.json``. ``OWNER/NAME-GGUF:MIX`` is the model NAME in llama.cpp's mix.

    Raises InputError naming what is unknown or missing.
    """
    name = parse_text(name, flag)
    if (key := files.spelling(name)) in files.bundled_names("models"):
        return load_bundled(key)
    path = Path(name)
    if is_folder(name):
        return _read(path / "config.json")
    if name.endswith(files.SUFFIXES) or (files.looks_like_path(name) and is_file(name)):
        return _read(path)
    if repo := repository(name):
        return _as_file(load_model(repo[0], flag), repo[1])
    if tag := ollama_tag(name):
        return _of_ollama(*tag, flag)
    spec = _quantised(key) or load_bundled(_bundled(_plain(key) or name, flag))
    other = variant(name)
    if other is None:
        return spec
    return spec.replace(max_position_embeddings=other.max_position_embeddings)


def _bundled(name: str, flag: str) -> str:
    """The bundled file of a name. Raises InputError, with the reason for one that no file can have."""
    try:
        return files.bundled_name("models", "model", name, flag, aliases)
    except InputError:
        from perfmodel.specs.boundary.unlisted import (  # only a refusal needs it
            refuse_unlisted,
            unlisted_names,
        )

        refuse_unlisted(flag, name.rpartition("/")[2], unlisted_names().models)
        raise


@dataclass(frozen=True, slots=True)
class Variant:
    """Another model of a bundled shape, listed in ``models/variants.csv``.

    It has its own longest context, and acceptances that were measured for the bundled model are not its own.
    name: without owner and tuning suffix.
    """

    name: str
    max_position_embeddings: int
    source: str


@cache
def _variants() -> dict[str, Variant]:
    """Name -> the listed variant."""
    return {row.name: row for row in read_rows(data_folder("models") / "variants.csv", Variant)}


def variant(name: str) -> Variant | None:
    """The variant that a name means; None for the bundled model itself."""
    plain = base_name(name)
    return _variants().get(_with_sizes(plain) or plain)


def name_of(name: str, model: ModelSpec) -> str:
    """The name of the model itself: of the variant that the user named, else of the bundled model."""
    other = variant(name)
    return model.name if other is None else other.name


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A bundled model in other formats, listed in ``models/checkpoints.csv`` by its Hugging Face id.

    source: where its config.json, its card or a log of its server is.
    """

    checkpoint: str
    model: str
    weights: str
    kv_dtype: str
    source: str


@cache
def listed_checkpoints() -> tuple[Checkpoint, ...]:
    """The rows of ``models/checkpoints.csv``."""
    return read_rows(data_folder("models") / "checkpoints.csv", Checkpoint)


@cache
def _quantised(key: str) -> ModelSpec | None:
    """The bundled model in the formats of a listed checkpoint, by its id with or without the owner."""
    if key in aliases():
        return None
    for row in listed_checkpoints():
        spelled = files.spelling(row.checkpoint)
        if key in (spelled, spelled.rpartition("/")[2]):
            return load_model(row.model).replace(
                weights=row.weights, kv_dtype=row.kv_dtype, hf_id=row.checkpoint
            )
    with suppress(InputError):
        if matched := IN_FORMAT.fullmatch(key):
            weights = _MEANT.get(matched[2], matched[2])
            scaled = weights == "nvfp4" and key.startswith(_SCALES_CACHE)
            cache = {"kv_dtype": "fp8"} if scaled else {}
            return load_model(matched[1]).replace(**{"weights": weights} | cache)
    return None


_SCALES_CACHE = ("nvidia/", "unsloth/")
"""Owners whose checkpoints in NVFP4 carry the scales of an FP8 cache, which engines then use.

NVIDIA ModelOpt, kv_cache_quant_algo; vLLM's log of unsloth/Qwen3.8-27B-NVFP4. RedHatAI's and Inferact's have
a cache of 16 bits.
"""


IN_FORMAT = re.compile(
    r"(.+?)[-.](?:quantized\.)?(fp8-block|fp8|mxfp8|nvfp4|fp4|mxfp4|awq|gptq-(?:int8|8bit)|gptq|int4|w4a16|int8|w8a8|mxfp4-q8|[2-8]bit)(?:-(?:dynamic|int4|4bit))?"
)
"""A lower-case name that ends with the format of its weights; its groups are the rest and the format."""
_MEANT = {
    "fp4": "nvfp4",
    "int4": "int4-g128",
    "w4a16": "int4-g128-sym",
    "w8a8": "int8",
    "gptq-8bit": "int8-g128-sym",
    "gptq-int8": "int8-g128-sym",
}
"""Word in the name of a checkpoint -> its format, where both differ."""


def named_format(name: str) -> str | None:
    """The format that an unlisted checkpoint has by its name alone, such as
    ``nvidia/Llama-3.3-70B-Instruct-FP8``; else None.
    """
    key = files.spelling(name)
    if not IN_FORMAT.fullmatch(key) or exists(name):
        return None
    model = load_model(name)
    listed = files.spelling(model.hf_id or "")
    if key in (listed, listed.rpartition("/")[2]):
        return None
    return model.weights


def _plain(name: str) -> str | None:
    """The bundled model for an unknown name, without its maker and tuning suffix.

    ``Qwen/Qwen2.5-7B-Instruct`` has the shape of ``qwen2.5-7b``.
    """
    if name in aliases():
        return None
    plain = base_name(name)
    if _is_listed(plain):
        return plain
    return _with_sizes(plain)


def _is_listed(name: str) -> bool:
    """Names of files come first: the aliases stand in the files of all models, which takes time to read."""
    return name in files.bundled_names("models") or name in aliases()


@cache
def _with_sizes(name: str) -> str | None:
    """The only listed name of a model with experts that has more than this one only sizes:
    ``nemotron-3-super-120b-a12b`` for ``nemotron-3-super`` and for ``nemotron-3-super-120b``.

    None if the name is listed itself, or if several models complete it, in whatever size.
    """
    if _is_listed(name):
        return None
    longer = re.compile(re.escape(name) + r"(?:-\d+(?:\.\d+)?b)?(-a\d+(?:\.\d+)?b)?")
    listed = {*aliases(), *files.bundled_names("models")}
    matches = [match for each in listed if (match := longer.fullmatch(each))]
    if len({_shape_of(match[0]) for match in matches}) != 1:
        return None
    return min((match[0] for match in matches if match[1]), default=None)


def _shape_of(name: str) -> str:
    return aliases().get(name, name)


def _as_file(base: ModelSpec, mix: str | None) -> ModelSpec:
    """A model in a mix of llama.cpp, by default the one to which its checkpoint is converted: `USUAL_MIX`
    but for native formats. Ollama's library has the same one under a bare size (recalled).
    """
    return base.replace(weights=mix or CONVERTED.get(base.weights, USUAL_MIX))


def _of_ollama(family: str, size: str, mix: str | None, flag: str) -> ModelSpec:
    """The model of a tag of Ollama, in its mix. A size such as 30b also means a model with experts, 30b-a3b.

    Raises InputError for a tag whose model is not listed.
    """
    name = f"{family}-{size}".lower()
    plain = name.replace("-", "")
    with suppress(InputError):
        return _as_file(load_model(files.bundled_name("models", "model", name, flag, aliases), flag), mix)
    alike = [each for each in files.bundled_names("models") if _means(each.replace("-", ""), plain)]
    return _as_file(load_model(min(alike, key=len, default=name), flag), mix)


def _means(bundled: str, plain: str) -> bool:
    """Whether a name without dashes is that of a bundled model, or of one with experts of this size."""
    return bundled == plain or bundled.startswith(f"{plain}a")


def hub_id(name: str, flag: str = "--model") -> str | None:
    """The Hugging Face id of exactly the model that a name means: the typed id, or the most similar listed
    one.

    A bundled shape serves several models (``llama-3.3-70b`` has that of ``llama-3.1-70b``). For a file it is
    the id that the file states; for a folder, the folder. None if none is known. Raises InputError as
    `load_model`.
    """
    if (repo := repository(name)) and not exists(name):
        return hub_id(repo[0], flag)
    if "/" not in name and (longer := _with_sizes(base_name(name))) and not exists(name):
        return hub_id(longer, flag)
    spec = load_model(name, flag)
    key = files.spelling(name)
    if is_folder(name) or key == spec.name:
        return name if is_folder(name) else spec.hf_id
    if exists(name):
        return spec.hf_id
    listed = [i for i in (spec.hf_id, *spec.aliases) if i and "/" in i]
    if "/" in name:
        return next((i for i in listed if files.spelling(i) == key), name)
    tails = {files.spelling(i.rpartition("/")[2]): i for i in listed}
    bare = {base_name(i): i for i in reversed(tails.values())}
    like = tails.get(key) or bare.get(key) or next((bare[b] for b in bare if b.startswith(f"{key}-")), None)
    return like or (spec.hf_id if key in aliases() else None)


def served_id(name: str, flag: str = "--model") -> str | None:
    """The Hugging Face id with which an engine serves the model, see `hub_id`.

    A short name whose config is that of the base model stands for the model that follows instructions, if one
    of its aliases does: ``llama-3.1-8b`` is served as ``meta-llama/Llama-3.1-8B-Instruct``. Servers run
    these, and heads are trained for their output.
    """
    hub = hub_id(name, flag)
    if hub is None or "/" in name or _TUNED.search(hub) or exists(name):
        return hub
    model = load_model(name)
    plain = base_name(hub)
    return next((i for i in model.aliases if "/" in i and _TUNED.search(i) and base_name(i) == plain), hub)


_TUNED = re.compile(r"-(instruct|it)(?=-|\.|$)", re.IGNORECASE)


def base_name(name: str) -> str:
    """An id without its owner, its maker and its tuning suffix."""
    word = re.sub(
        r"-(instruct|thinking|it|chat|hf|base|bf16)(?=-|$)", "", files.spelling(name.rpartition("/")[2])
    )
    return re.sub(r"^(meta|nvidia)-", "", word)


def precision_of(
    model: ModelSpec,
    peaks: Collection[str],
    weights: str | None = None,
    kv_dtype: str | None = None,
    *,
    wide_mxfp4: bool = False,
    weight_only: bool = False,
) -> Precision:
    """The formats in which a model is served: the named ones, else its checkpoint's own.

    peaks: formats with a peak on the device. Without a peak, the checkpoint's own formats are weight-only.
    wide_mxfp4: see `Weights.within`. weight_only: whether named formats without a peak
    are weight-only too, as in some engines.
    """
    if weights is None:
        formats = weight_format(model.weights).within(peaks, wide_mxfp4)
    elif weight_only:
        formats = weight_format(weights).within(peaks, wide_mxfp4=True)
    else:
        formats = weight_format(weights)
    cache = kv_format(model.kv_dtype if kv_dtype is None else kv_dtype)
    return Precision(formats, cache, "fp8" if "fp8" in peaks else "bf16")


def _read(path: Path) -> ModelSpec:
    with about_file(path):
        return _of_file(path)


def _of_file(path: Path) -> ModelSpec:
    if path.suffix == ".gguf":
        return _of_gguf(path)
    data = files.read_mapping(path, infinity=True)
    if path.suffix != ".json" or {"name", "title", "source"} <= data.keys():
        return files.parse(ModelSpec, data, str(path))
    from perfmodel.specs.huggingface import from_config  # most questions name a bundled model

    beside = path.with_name(path.name.replace("config.json", "hf_quant_config.json"))
    return from_config(
        data, str(path), files.read_mapping(beside) if beside != path and is_file(beside) else None
    )


def _of_gguf(path: Path) -> ModelSpec:
    """The bundled model that a file states, in the file's formats, if the shapes agree; else the file's own
    model.
    """
    from perfmodel.specs.gguf.shape import from_gguf

    spec, names = from_gguf(path)
    sizes = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")
    for name in names:
        plain = _plain(files.spelling(name)) or files.spelling(name)
        plain = aliases().get(plain, plain)
        if plain in files.bundled_names("models"):
            known = load_bundled(plain)
            if all(getattr(known, each) == getattr(spec, each) for each in sizes):
                of_file = {
                    each: getattr(spec, each) for each in ("weights", "max_position_embeddings", "source")
                }
                return known.replace(**of_file | {"hf_id": name if "/" in name else known.hf_id})
    return spec
