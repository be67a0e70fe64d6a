"""Published draft heads by target. ``--draft eagle3`` means the published head of the target, if its makers
state its shape.
"""

from dataclasses import dataclass
from functools import cache

from perfmodel.reading import data_folder, read_rows


@dataclass(frozen=True, slots=True)
class PublishedHead:
    """A published draft head with dense layers.

    - vocab: number of tokens from which the head drafts.
    - features: number of hidden states of the target that the head reads.

    A head of kind ``mtp`` has no keys and values of its own. Its last layer reads the cache of the target's
    full-attention layers. All other layers read the cache of the target's sliding-window layers (vLLM,
    models/gemma4_mtp.py).
    """

    target: str
    kind: str
    head: str
    layers: int
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab: int
    features: int
    source: str

    @property
    def shape(self) -> dict[str, int | None]:
        """The fields of `ModelSpec` that describe the head."""
        names = ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size")
        windows = self.layers - 1
        assistant = {
            "num_hidden_layers": self.layers,
            "num_sliding_layers": windows,
            "shared_kv_layers": 1,
            "shared_kv_sliding": windows,
            "norms_per_layer": 4,
            "moe": None,
        }
        return {name: getattr(self, name) for name in names} | (assistant if self.kind == "mtp" else {})

    def options(self, target_width: int) -> dict[str, int]:
        """The options of the head's draft kind for a target with this hidden size."""
        if self.kind == "mtp":
            return {"target_width": target_width}
        return {"features": self.features, "vocab": self.vocab}


@cache
def published_heads() -> tuple[PublishedHead, ...]:
    """The rows of the bundled ``models/heads.csv``."""
    return read_rows(data_folder("models") / "heads.csv", PublishedHead)


def published_head(target: str, kind: str) -> PublishedHead | None:
    """The published head of a bundled target. The result is None if the table has none."""
    return next((row for row in published_heads() if (row.target, row.kind) == (target, kind)), None)
