"""Draft kinds.

Each file in this folder has one kind and is found by its name. `make_draft` builds a draft from the value of
``--draft``. To add a kind, add a file with one `Draft` subclass. The additional fields of this class are the
options of ``KIND:option=value,...``. A kind with a method `shape` derives its model from the target.
"""

import dataclasses
import re
from collections.abc import Collection
from functools import cache
from typing import Any, get_type_hints

from perfmodel.drafts.base import Draft
from perfmodel.errors import InputError, refuse, shortened
from perfmodel.kv import KVMethod, sparse_method
from perfmodel.plugins import class_in, names_in, options_of
from perfmodel.reading import is_folder
from perfmodel.specs import ModelSpec, Precision, Weights, load_model, weight_format
from perfmodel.specs.acceptance.acceptance_library import head_kind
from perfmodel.specs.boundary.files import looks_like_path, refuse_missing
from perfmodel.specs.boundary.unlisted import refuse_unlisted, unlisted_names
from perfmodel.specs.models.published_heads import published_head

ALIASES = {
    "nextn": "mtp",
    "pard": "parallel",
    "ngramgpu": "ngram",
    "ngramsimple": "ngram",
    "ngrammod": "ngram",
    "ngrammapk": "ngram",
    "ngrammapk4v": "ngram",
    "ngramcache": "ngram",
    "promptlookup": "ngram",
    "promptlookupdecoding": "ngram",
}
"""The draft kind for each other name that an engine or a paper uses."""
ALIKE = 0.7
"""Least similarity of a misspelled kind to its name, from 0 to 1 (assumed)."""
LOOKUPS = ("ngram", "suffix")
"""The kinds that search in the text. Engines let them take turns with another kind."""
_BASE = {field.name for field in dataclasses.fields(Draft)}
"""The fields of every kind, which are not options."""


@cache
def names() -> tuple[str, ...]:
    """Names of all kinds, sorted. This imports no kind."""
    return names_in(__path__)


@cache
def kind_of(word: str) -> type[Draft]:
    """The class of the kind with this name, which is one of `names`."""
    return class_in(f"{__name__}.{word}", Draft)


def kinds() -> dict[str, type[Draft]]:
    """The class of each kind by its name, sorted by name. This imports all kinds."""
    return {word: kind_of(word) for word in names()}


def make_draft(
    name: str,
    target: ModelSpec,
    target_precision: Precision,
    target_tp: int,
    kv: KVMethod,
    *,
    tensor_parallel: int | None = None,
    weights: str | None = None,
    own_on: Collection[str] | None = None,
) -> Draft:
    """Builds a draft from a value of ``--draft``.

    - name: a kind (``self``, ``eagle``, ``medusa:heads=4``, ``parallel:MODEL``), a model, a head's
      config.json, or the Hugging Face id of a published head.

    - own_on: the number formats in which the device can compute, if the draft keeps the format of its own
      checkpoint. None means that the draft has the format of the target.

    ``eagle3`` means the published head of the target (`specs.published_heads`). If no head is published,
    ``eagle3`` means an EAGLE head with three features. The tensor-parallel degree and the weight format are
    by default those of the target.

    Raises InputError for an unknown model or option.
    """
    name = head_kind(name) or name
    _refuse_none(name)
    _refuse_chain(name)
    kind, model, options = _drafter(name, target)
    if not kv.reads_all and not kind.reads_cache:
        raise refuse("--draft-kv", None, f"full (or left out): {kind.kind} drafts read no cache", kv.label())
    if kind.kind == "self":
        options["target_weights"] = target_precision.weights.name  # another format needs a second copy
    if weights is None:
        draft_weights = _default_weights(kind, model, target_precision.weights, own_on)
    else:
        draft_weights = weight_format(weights, "--draft-weights")
    degree = target_tp if tensor_parallel is None else tensor_parallel
    return kind(model, kv, degree, Precision(draft_weights, target_precision.kv), **options)


def _default_weights(
    kind: type[Draft], model: ModelSpec, target: Weights, own_on: Collection[str] | None
) -> Weights:
    """The weight formats of a draft if the user states none.

    - own_on: see `make_draft`.
    """
    checkpoint = None if own_on is None else kind.own_weights(model)
    if own_on is None or checkpoint is None:
        return kind.like_target(target)
    return checkpoint.within(own_on)


Drafter = tuple[type[Draft], ModelSpec, dict[str, Any]]
"""The kind of a draft, the model that drafts, and the options of the kind."""


def _drafter(name: str, target: ModelSpec) -> Drafter:
    """The drafter that a name means: the head of a file, a kind with its options or its model, or a model.

    Raises InputError for an unknown model or option.
    """
    typed, colon, rest = name.strip().partition(":")
    word = "eagle" if spelled(typed) == "eagle3" else spelled(typed)
    kind = kind_of(word) if word in names() and word != "model" else None
    head = _head(rest if kind else name, target)
    if head is not None and (kind is None or issubclass(kind_of(head.kind), kind)):
        return kind_of(head.kind), head.model, dict(head.options)
    if kind is None:
        _refuse_cache(typed)
        return kind_of("model"), _drafting_model(name), {}
    if kind.named_model:
        if not rest:
            raise refuse("--draft", None, f"{kind.kind}:MODEL, the name or path of the drafter", name)
        return kind, load_model(rest, "--draft"), {}
    refuse_missing(rest, "--draft")
    is_eagle3 = spelled(typed) == "eagle3"
    return _drafter_of_target(kind, is_eagle3, rest if colon else None, target)


def _drafting_model(name: str) -> ModelSpec:
    """The model that drafts. Raises InputError, also for a kind of draft that is not modelled, and for a
    misspelled kind.
    """
    try:
        return load_model(name, "--draft")
    except InputError:
        refuse_unlisted("--draft", name.rpartition("/")[2], unlisted_names().drafts)
        _refuse_misspelled(name)
        raise


def _refuse_misspelled(name: str) -> None:
    """Raises InputError for a list of names, and for a name that is nearly that of a kind."""
    import difflib  # imported late, because no answer needs this module

    if "," in name.partition(":")[0]:
        allowed = "one draft (`advise` compares several, each in a --draft of its own)"
        raise refuse("--draft", None, allowed, shortened(name))
    spellings = {"eagle3", *names()} - {"model"}
    if near := difflib.get_close_matches(spelled(name.partition(":")[0]), spellings, cutoff=ALIKE):
        raise InputError(
            f"--draft: no draft or model named {shortened(name)!r}; did you mean {', '.join(near)}?"
        )


def _refuse_cache(word: str) -> None:
    """Raises InputError for the name of a sparse KV cache, which belongs to ``--draft-kv``."""
    cache = sparse_method(word)
    if cache is not None:
        allowed = f"a draft: {word} is a KV cache of a draft, as in --draft self --draft-kv {cache.example}"
        raise refuse("--draft", None, allowed, word)


def _drafter_of_target(kind: type[Draft], is_eagle3: bool, stated: str | None, target: ModelSpec) -> Drafter:
    """A drafter whose shape follows from the target's, or the head that was published for the target.

    - stated: the options after the colon. It is None without a colon.

    Published heads are used for ``eagle3`` only, and not for an ``eagle`` with options.
    """
    is_generic = kind.kind == "eagle" and (stated is not None or not is_eagle3)
    listed = None if is_generic else published_head(target.name, "eagle3" if is_eagle3 else kind.kind)
    options: dict[str, Any] = {"features": 3} if is_eagle3 else {}
    if listed:
        options |= listed.options(target.hidden_size)
    if stated is not None:
        options |= _options(kind, stated)
    shape = getattr(kind, "shape", None)
    model = shape(target, options) if shape else target
    return kind, model.replace(**listed.shape) if listed else model, options


def _refuse_none(name: str) -> None:
    """Raises InputError for a word that means no draft."""
    if name.lower() in ("none", "off"):
        allowed = "a draft: every answer has the baseline, and --gamma 0 is a server without a draft"
        raise refuse("--draft", None, allowed, name)


def _refuse_chain(name: str) -> None:
    """Raises InputError for several kinds of draft that take turns, such as ``mtp,ngram``. It states how the
    speedup of both follows from the answers about each kind.

    A speedup is T_T N / T, with N tokens per iteration and the time T of an iteration. Iterations of one kind
    thus take T_T N / S, and the means over the iterations of both kinds give the speedup of both.
    """
    parts = [part.strip().partition(":")[0] for part in re.split("[,+]", name)]
    kinds_named = [kind for part in parts if (kind := spelled(part)) in (*names(), "eagle3")]
    if len(parts) < 2 or len(kinds_named) < len(parts):
        return
    each = " ".join(f"--draft {kind}" for kind in kinds_named)
    allowed = f"one kind of draft (`advise {each}` compares them)"
    if set(kinds_named) & set(LOOKUPS):
        first, last = kinds_named[0], kinds_named[-1]
        allowed += (
            f". Kinds that take turns have no common rate: ask for each alone. If {last} drafts the share m "
            "of the iterations, the speedup of both is (m N + (1-m) M) / (m N/S + (1-m) M/R): N and M are "
            f"the tokens per iteration of {last} and {first} in their own iterations, S and R the speedups"
        )
    raise refuse("--draft", None, allowed, name)


def spelled(word: str) -> str:
    """The name of a kind from the spelling of an engine or a paper, such as ``EAGLE-3``, ``P-EAGLE``,
    ``NEXTN``, ``PARD`` or vLLM's ``qwen3_next_mtp``. Other words are returned in lower case and without
    hyphens, underscores and spaces. Paths are returned unchanged.
    """
    if looks_like_path(word):
        return word
    plain = re.sub(r"^draft-|[-_ ]", "", word.lower())  # llama.cpp writes draft-eagle3
    plain = "mtp" if re.fullmatch(r"([a-z0-9]+_)+mtp", word.lower()) else ALIASES.get(plain, plain)
    return next((word for word in names() if word.replace("_", "") == plain), plain)


def _head(name: str, target: ModelSpec) -> Any:
    """The drafting head in a ``config.json``, or in a folder with such a file. The result is None for any
    other name.
    """
    if not (name.endswith(".json") or is_folder(name)):
        return None
    from perfmodel.specs.huggingface.heads import load_head  # imported late, because few drafts are files

    return load_head(name, target)


def _options(kind: type[Draft], text: str) -> dict[str, int]:
    """Reads the options ``option=value,...`` of a kind. Raises InputError for values that are not whole
    numbers.
    """
    types = get_type_hints(kind)
    known = [name for name, type_ in types.items() if name not in _BASE and type_ is int]
    where = f"--draft: {kind.kind}"
    options = dict[str, int]()
    for key, value in options_of(text.split(","), known, where, kind.example).items():
        if not (value.isascii() and value.isdecimal() and len(value) < 10):
            raise refuse(where, key, "a whole number", value)
        options[key] = int(value)
    return options
