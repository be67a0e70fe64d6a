"""Reads the ``config.json`` of a draft head: EAGLE, EAGLE-3, P-EAGLE, DFlash, DFlash2, Domino or DSpark. The
file may be written by the makers of the head, or by the library speculators.

The layers of a head are dense, even if its file still describes the target from which it was made. If the
engine's class of the head reads a key but this module does not, the file is refused, and the error names the
key.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfmodel.errors import about_file
from perfmodel.reading import is_file, is_folder
from perfmodel.specs.boundary import files
from perfmodel.specs.huggingface import from_config
from perfmodel.specs.huggingface.families import Family, family_of, head_of_blocks, latent_head
from perfmodel.specs.huggingface.head_keys import EAGLES, is_modelled, keys_of_layers
from perfmodel.specs.huggingface.head_kinds import kind_of_head
from perfmodel.specs.huggingface.keys import Keys
from perfmodel.specs.models.components import MAX_LAYERS
from perfmodel.specs.models.model import ModelSpec

_DENSE = ("llama", "mistral", "qwen2", "qwen3")
"""Families that an EAGLE head's file can name for its layer. Other names mean Llama."""
_OPTIONS = {
    "dspark": {"rank": "markov_rank"},
    "dflash2": {"rank": "selector_rank", "kernel": "conv_kernel_size", "group": "conv_group_size"},
    "domino": {"gru": "gru_hidden_dim", "emb": "emb_dim"},
}
"""The keys of the options of each kind of draft that fills a block."""
BLOCK = 16
"""Number of positions of a block if the file does not state it, as in DFlash's published heads (arXiv
2602.06036).
"""


@dataclass(frozen=True, slots=True)
class Head:
    """A draft head that was read from a file.

    - kind: the kind of draft.
    - model: the layers of the head, with the vocabulary from which it drafts.
    - options: the options of this kind of draft, as on the command line.
    """

    kind: str
    model: ModelSpec
    options: dict[str, int]


def load_head(name: str, target: ModelSpec) -> Head | None:
    """Reads the head in a ``config.json``, or in a folder that contains one. Returns None for a whole model,
    and if there is no such file.

    - target: the model that gives the vocabulary and the longest context if the file leaves them out.
    """
    path = Path(name) / "config.json" if is_folder(name) else Path(name)
    if not is_file(path):
        return None
    with about_file(path):
        data = files.read_mapping(path, infinity=True)
        kind = kind_of_head(data)
        if kind:
            return _read(kind, Keys(data, str(path)), target)
    return None


def _read(kind: str, keys: Keys, target: ModelSpec) -> Head:
    """The head of a config.json. Raises InputError for a kind that is not modelled."""
    if kind == "dflare":
        raise keys.bad(
            "architectures",
            "of EAGLE, P-EAGLE, DFlash, Domino or DSpark: other heads are not modelled",
        )
    nested = keys.mapping("transformer_layer_config")
    own = {"vocab_size": target.vocab_size, "max_position_embeddings": target.max_position_embeddings}
    inner = own | dict(nested.data if nested else keys.data)
    vocab = keys.integer("draft_vocab_size", Keys(inner, keys.where).integer("vocab_size"))
    layers = {"model_type": "llama"} | keys_of_layers(inner, kind) | {"vocab_size": vocab}
    model = from_config(layers, keys.where, family=_family(kind, inner))
    options = {"features": _features(kind, keys)}
    if keys.data.get("draft_vocab_size") is not None or (kind in EAGLES and options["features"] > 1):
        options["vocab"] = vocab
    if (width := keys.integer("target_hidden_size", model.hidden_size)) != model.hidden_size:
        options["target_width"] = width
    if kind == "peagle":
        options["layers"] = model.num_hidden_layers
    elif kind != "eagle":
        options |= {"layers": model.num_hidden_layers} | _block(kind, keys)
    return Head(kind, model.replace(num_nextn_predict_layers=None), options)


def _family(kind: str, inner: dict[str, Any]) -> Family:
    """The family of the head's layers. Heads that fill a block have layers of Qwen3, and heads with a latent
    cache have a separate family. For other heads, it is the family that the file names, or else Llama.
    """
    if "o_lora_rank" in inner:  # layers of DeepSeek-V4, experts included
        return family_of("deepseek_v4")
    if kind not in EAGLES:
        return head_of_blocks()
    if inner.get("kv_lora_rank"):
        return latent_head()
    model_type = str(inner.get("model_type"))
    return family_of(model_type if model_type in _DENSE else "llama")


def _block(kind: str, keys: Keys) -> dict[str, int]:
    """The options of a draft that fills a block. The file states them inside `dflash_config` or next to
    it.
    """
    nested = keys.mapping("dflash_config")
    if nested is not None:
        for key, value in nested.data.items():
            if not is_modelled(key, value, kind):
                raise nested.bad(key, f"absent for {kind}: its effect is not modelled")

    def integer(key: str, *default: int) -> int:
        if nested is not None and nested.data.get(key) is not None:
            return nested.integer(key, *default)
        return keys.integer(key, *default)

    options = {option: integer(key) for option, key in _OPTIONS.get(kind, {}).items()}
    return {"block": integer("block_size", BLOCK)} | options


def _features(kind: str, keys: Keys) -> int:
    """Number of the target's hidden states that the head takes. It is the number of layers that the file
    names. An EAGLE-3 head whose file names none takes three.
    """
    eagle = keys.mapping("eagle_config")
    flash = keys.mapping("dflash_config")
    if eagle and not eagle.flag("use_aux_hidden_state", True):
        return 1
    for place, key in (
        (keys, "aux_hidden_state_layer_ids"),
        (keys, "eagle_aux_hidden_state_layer_ids"),
        (keys, "target_layer_ids"),
        (eagle, "eagle_aux_hidden_state_layer_ids"),
        (flash, "target_layer_ids"),
    ):
        if place and (named := place.integers(key)):
            return len(named)
    if kind in EAGLES:
        is_eagle3 = "draft_vocab_size" in keys.data or "eagle3" in str(keys.data.get("architectures")).lower()
        return keys.integer("num_aux_hidden_states", 3, high=MAX_LAYERS) if is_eagle3 else 1
    raise keys.bad("target_layer_ids", "the list of the target's layers that the head takes in")
