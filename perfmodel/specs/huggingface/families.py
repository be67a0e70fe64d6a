"""What transformers fixes or assumes for each `model_type` that is read: a row of ``models/families.csv``."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from perfmodel.reading import read_rows
from perfmodel.specs import data_folder
from perfmodel.specs.huggingface import experts, layers, recurrent, sparse
from perfmodel.specs.huggingface.keys import Keys
from perfmodel.specs.huggingface.names import ours

Reader = Callable[[Keys, int], layers.Fields]
_OF_LAYERS = vars(sparse) | vars(recurrent) | vars(layers)
"""Name -> reader of what layers have."""


@dataclass(frozen=True)
class Family:
    """One row; lists are words with spaces. model_types: all that are read by it.

    layers, experts: names of readers (in `layers`, `recurrent` and `sparse`, or in `experts`), which find
    shape fields in the file, later ones over earlier ones; no word: every layer attends to everything, and
    there are no experts. ``routed`` is followed by its options.
    keys: attention_bias, attention_bias_of_qkv, mlp_bias and use_bias: that key of a file counts, the first
    for q, k, v and o, the second for q, k and v, the last for these and the MLP; unbiased: it must be false;
    bias_default: an absent one is true. tied: so is an absent `tie_word_embeddings`. head_dim_needed:
    transformers' default is a constant, not hidden_size / num_attention_heads. heads_are_kv_heads:
    num_key_value_heads may be left out.
    fields: of ModelSpec that are true of all its models, or false (``-``), as `norms_per_layer` is alike of
    all. rms_norm_eps, rope_theta: what an absent key means; blank: 1e-5 and 10,000. mlp_ratio: width of an
    MLP over the hidden one, and positions: the longest context, where the file does not say.
    """

    model_types: str
    layers: str
    experts: str
    keys: str
    fields: str
    norms_per_layer: int | None
    rms_norm_eps: float | None
    rope_theta: float | None
    mlp_ratio: int | None
    positions: int | None

    def says(self, word: str) -> bool:
        """Whether it is among `keys`."""
        return word in self.keys.split()

    @property
    def fixed(self) -> dict[str, Any]:
        """Fields of ModelSpec that all its models have alike."""
        stated: dict[str, Any] = {
            word.removeprefix("-"): not word.startswith("-") for word in self.fields.split()
        }
        return stated | ({"norms_per_layer": self.norms_per_layer} if self.norms_per_layer else {})

    @property
    def readers(self) -> list[Reader]:
        """Of its layers and its experts."""
        found: list[Reader] = [_OF_LAYERS[name] for name in self.layers.split() or ["all_full"]]
        for name in self.experts.split()[:1]:
            options = (option.partition("=") for option in self.experts.split()[1:])
            found.append(partial(getattr(experts, name), **{key: value or True for key, _, value in options}))
        return found


_ROWS = read_rows(data_folder("models") / "families.csv", Family)
FAMILIES = {model_type: row for row in _ROWS for model_type in row.model_types.split()}
HEAD_OF_BLOCKS = replace(FAMILIES["qwen3_moe"], layers="block_head", experts="")
"""Layers of DFlash and DSpark: Qwen3's, whatever family the file says."""
LATENT_HEAD = replace(FAMILIES["deepseek_v3"], experts="")
"""An EAGLE-3 head with latent attention (DeepSeek's) and a dense MLP."""

WRAPPERS = ours("wrapper")
SUPPORTED = tuple(sorted((*FAMILIES, *WRAPPERS)))
