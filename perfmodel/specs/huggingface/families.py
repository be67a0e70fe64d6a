"""The supported families of models. Each family is a row of a table in ``models/families``. A row is parsed
only when the file of a model needs it.
"""

import re
from collections.abc import Callable, Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Literal

from perfmodel.errors import about_file, unknown_name
from perfmodel.reading import data_folder, read_text
from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen, Positive, Text, annotations
from perfmodel.specs.huggingface import (
    convolutions,
    delta,
    experts,
    gemma,
    layers,
    mamba,
    positions,
    sliding,
    sparse,
)
from perfmodel.specs.huggingface.experts import RoutedKeys
from perfmodel.specs.huggingface.keys import Fields, Keys
from perfmodel.specs.huggingface.names import perfmodel_names
from perfmodel.specs.huggingface.windows import Windows, windowed
from perfmodel.specs.models.model import ModelSpec

Reader = Callable[[Keys, int], Fields]
"""A function from the keys of a file and its number of layers to fields of ModelSpec."""
LAYER_READERS: dict[str, Reader] = {
    reader.__name__: reader
    for reader in (
        sliding.block_head,
        layers.blocks_of_any_width,
        sliding.chunked,
        layers.falcon,
        gemma.gemma3n,
        gemma.gemma4,
        positions.gpt_neo,
        layers.half_width,
        sliding.head_gates,
        layers.hunyuan,
        positions.learned_positions,
        positions.learned_positions_and_two,
        layers.looped,
        sliding.mimo_v2,
        layers.mpt,
        sliding.qwen,
        sliding.qwen3_moe,
        sliding.step,
        layers.without_cross_attention,
        delta.bailing,
        mamba.bamba,
        delta.gated_delta,
        delta.glm5_next,
        mamba.granite_hybrid,
        mamba.jamba,
        delta.kimi_delta,
        convolutions.lfm3,
        delta.lightning,
        mamba.mamba_in_parallel,
        mamba.nemotron_h,
        delta.qwen4,
        convolutions.short_convolutions,
        delta.ungated_delta,
        sparse.block_indexer,
        sparse.compressed,
        sparse.gated_latent,
        sparse.indexer,
        sparse.latent,
        sparse.latent_without_query_rank,
    )
}
"""The readers that `layers` of a row may name. They read layers that keys and rules cannot describe."""
EXPERT_READERS: dict[str, Reader] = {
    reader.__name__: reader
    for reader in (
        experts.behind_latent,
        experts.deepseek,
        experts.deepseek_without_bias,
        experts.ernie,
        experts.gemma4,
        experts.granite,
        experts.hunyuan,
        experts.jamba,
        experts.llama4,
        experts.longcat,
        experts.minimax,
        experts.nemotron_h,
        experts.qwen,
        experts.qwen_unnormalized,
        experts.qwen_without_dense,
        experts.step,
    )
}
"""The readers that `experts_by` of a row may name. They read experts whose number or width follows from
several keys.
"""
Rule = Literal[
    "attention_bias",
    "attention_bias_of_qkv",
    "bias_default",
    "head_dim_needed",
    "heads_are_kv_heads",
    "mlp_bias",
    "tied",
    "unbiased",
    "use_bias",
]
"""The rules for keys that have another meaning or default in some families.

- attention_bias: this key applies to the query, key, value and output projections.
- attention_bias_of_qkv: the key `attention_bias` applies to the query, key and value projections.
- mlp_bias: this key applies to the MLP.
- use_bias: this key applies to attention and to the MLP.
- unbiased: `attention_bias` and `mlp_bias` must be false.
- bias_default: if `attention_bias` is absent, it is true.
- tied: if `tie_word_embeddings` is absent, it is true.
- head_dim_needed: `head_dim` must be present, because transformers' default is not hidden_size /
  num_attention_heads.
- heads_are_kv_heads: if `num_key_value_heads` is absent, it equals num_attention_heads.
"""


class Family(Frozen):
    """One row of a table: a family of models. Its key lists every `model_type` of the family, separated by
    spaces.

    - source: the code that defines the family.
    - names: names of keys in files of the family, by their usual names. Dots separate a mapping from a key
      inside it.
    - windows: the layers that have a sliding window. Without `windows` and `layers`, each layer attends to
      all tokens.
    - layers: names of readers in code. Later readers override earlier readers.
    - experts: keys of routed experts.
    - experts_by: name of the reader of routed experts in code, instead of `experts`.
    - without_effect: keys that change no bytes and no FLOPs in this family.
    - fixed: fields of ModelSpec that all models of the family share.
    - flags: keys that state fields of ModelSpec, by the names of the fields. If a key is absent, its field
      has the value in `fixed`. Without a value there, it is false.
    - if_true: fields of ModelSpec that apply if a key is true, by the names of the keys.
    - rms_norm_eps, rope_theta, max_position_embeddings: values that apply if these keys are absent.
    - mlp_ratio: width of an MLP divided by the hidden width. This ratio applies if the file does not state
      the width of the MLP.
    """

    source: Text
    names: dict[str, str] = {}
    windows: Windows | None = None
    layers: tuple[str, ...] = ()
    experts: RoutedKeys | None = None
    experts_by: str | None = None
    without_effect: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    flags: dict[str, str] = {}
    if_true: dict[str, dict[str, Any]] = {}
    fixed: dict[str, Any] = {}
    rms_norm_eps: float = 1e-5
    rope_theta: float = 1e4
    mlp_ratio: Positive | None = None
    max_position_embeddings: Positive | None = None

    def __post_init__(self) -> None:
        if self.experts and self.experts_by:
            raise ValueError("experts_by must not be given together with experts")
        _check("layers", "reader", self.layers, LAYER_READERS)
        _check("experts_by", "reader", (self.experts_by,) if self.experts_by else (), EXPERT_READERS)
        for key, names in {"fixed": self.fixed, "flags": self.flags, **self.if_true}.items():
            _check(key, "field", names, annotations(ModelSpec))

    def fields(self, keys: Keys, depth: int) -> Fields:
        """The fields of ModelSpec that the keys and readers of this family give, for a file with `depth`
        layers.

        Raises InputError, which names the key, for a value that is not allowed.
        """
        keys.ignore(*self.without_effect)
        return self._flagged(keys) | self.layer_fields(keys, depth) | self.expert_fields(keys, depth)

    def _flagged(self, keys: Keys) -> Fields:
        """The fields for `flags` and `if_true`."""
        flagged: Fields = {
            field: keys.flag(key, self.fixed.get(field, False)) for field, key in self.flags.items()
        }
        for key, fields in self.if_true.items():
            if keys.flag(key, False):
                flagged |= fields
        return flagged

    def layer_fields(self, keys: Keys, depth: int) -> Fields:
        """The fields for the tokens to which each layer attends, and for layers of other kinds."""
        if self.windows is None and not self.layers:
            return sliding.all_full(keys, depth)
        fields = windowed(keys, depth, self.windows) if self.windows else {}
        for name in self.layers:
            fields |= LAYER_READERS[name](keys, depth)
        return fields

    def expert_fields(self, keys: Keys, depth: int) -> Fields:
        """The fields for experts and for the width of dense layers."""
        if self.experts:
            return experts.routed(keys, depth, self.experts)
        if self.experts_by:
            return EXPERT_READERS[self.experts_by](keys, depth)
        return {}


def _check(key: str, noun: str, names: Iterable[str], allowed: Collection[str]) -> None:
    """Raises ValueError for names that are not among the allowed ones."""
    for name in names:
        if name not in allowed:
            raise ValueError(str(unknown_name(key, noun, name, allowed)))


_ROW = re.compile(r"^[^\s#].*\n(?:[ \t#].*\n|\n)*", re.MULTILINE)
"""A row of a table: a line that begins with a key, and all indented, blank and comment lines after it."""
WRAPPERS = perfmodel_names("wrapper")
"""The `model_type` of the language model, by the `model_type` of a file with vision or audio."""


@cache
def rows(folder: Path | None = None) -> dict[str, tuple[Path, str]]:
    """The table file and the unparsed text of the row for each `model_type`.

    - folder: the folder of the tables. By default, it is the bundled folder.
    """
    tables = sorted((folder or data_folder("models") / "families").glob("*.yaml"))
    return {
        model_type: (table, row)
        for table in tables
        for row in _ROW.findall(read_text(table))
        for model_type in row.partition(":")[0].split()
    }


@cache
def family_of(model_type: str, folder: Path | None = None) -> Family:
    """The family of a `model_type`, which must be a key of `rows`. Raises InputError if the row is
    malformed.
    """
    table, text = rows(folder)[model_type]
    with about_file(table):
        (row,) = files.mapping_of(text).values()
    return files.parse(Family, row, f"{table}: {model_type}")


@cache
def supported() -> tuple[str, ...]:
    """Every `model_type` that can be read, sorted."""
    return tuple(sorted((*rows(), *WRAPPERS)))


def head_of_blocks() -> Family:
    """The family of the layers of DFlash and DSpark heads. It is Qwen3, regardless of the file."""
    return family_of("qwen3_moe").replace(layers=("block_head",), experts_by=None)


def latent_head() -> Family:
    """The family of EAGLE-3 heads with latent attention (as in DeepSeek-V3) and a dense MLP."""
    return family_of("deepseek_v3").replace(experts_by=None)
