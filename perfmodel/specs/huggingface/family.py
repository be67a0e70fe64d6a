"""The rules of transformers for the models of one family."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from perfmodel.specs.huggingface.keys import Keys
from perfmodel.specs.huggingface.layers import Fields, all_full

Reader = Callable[[Keys, int], Fields]
"""Maps the keys of a file and its layers to fields of ModelSpec."""
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
"""Which keys count.

attention_bias, attention_bias_of_qkv, mlp_bias, use_bias: the key that counts. The first is for q, k, v and
o, the second for q, k and v, the last for these and the MLP. unbiased: the key must be false. bias_default:
an absent key is true. tied: an absent `tie_word_embeddings` is true. head_dim_needed: transformers' default
is a constant, not hidden_size / num_attention_heads. heads_are_kv_heads: num_key_value_heads may be absent.
"""


@dataclass(frozen=True)
class Family:
    """One family. model_types: all words that it reads.

    readers: of its layers and experts (in `layers`, `recurrent`, `sparse` and `experts`); later ones override
    earlier ones. By default every layer attends to everything and has no experts. fixed: fields of ModelSpec
    that all its models share. rms_norm_eps, rope_theta: values of an absent key.
    """

    model_types: str
    readers: tuple[Reader, ...] = (all_full,)
    rules: tuple[Rule, ...] = ()
    fixed: dict[str, Any] = field(default_factory=dict)
    rms_norm_eps: float = 1e-5
    rope_theta: float = 1e4
