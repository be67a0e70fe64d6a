"""Reads the shape of a model from the header of its GGUF file. In any architecture, the tensors show the
parts of a layer.

The number of values in the tensors must agree with the parameter count of the shape within 2 %. A file with a
larger difference is refused.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

from perfmodel.errors import InputError, one_line, refuse
from perfmodel.reading import check_regular
from perfmodel.specs.boundary import files
from perfmodel.specs.gguf.header import Header, Tensor, read_header
from perfmodel.specs.gguf.weights import weights_of
from perfmodel.specs.models.components import MAX_LAYERS
from perfmodel.specs.models.model import ModelSpec

Fields = dict[str, Any]
Layer = dict[str, Tensor]
TOLERANCE = 0.02
"""Largest relative difference between the values in the tensors and the parameter count of the shape."""
PERIODS = {
    "gemma2": 2,
    "gpt-oss": 2,
    "gemma3": 6,
    "gemma3n": 5,
    "plamo3": 8,
    **dict.fromkeys(("cohere2", "exaone4", "exaone-moe", "olmo2", "llama4", "afmoe", "smallthinker"), 4),
}
"""For each architecture: one layer in this many attends to all tokens, if the file states no pattern.

Source: load_swa_pattern in src/models of llama.cpp, as of llama-cpp-python 0.3.36.
"""
NAMES = ("general.base_model.0.repo_url", "general.base_model.0.name", "general.name", "general.basename")
"""Keys that state a name of the model, the most precise key first."""


def from_gguf(path: Path) -> tuple[ModelSpec, list[str]]:
    """The model in a file, or in all parts of a split file, with the names that the file states.

    Raises InputError, which names the file and the key.
    """
    check_regular(path)
    state = path.stat()
    return _read(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, changed: int, size: int) -> tuple[ModelSpec, list[str]]:
    """The model of a file.

    - changed, size: modification time of the file in ns, and its size in bytes. A changed file is therefore
      read again.

    Raises InputError if the tensors have another number of parameters than the shape that was read.
    """
    reader = _Reader(path, read_header(path))
    spec = files.parse(ModelSpec, reader.fields(), str(path))
    counted = sum(tensor.values for tensor in reader.counted)
    if abs(counted / spec.total_params - 1) > TOLERANCE:
        formats = (
            f"{counted / 1e9:.2f}B parameters in the file, {spec.total_params / 1e9:.2f}B in the shape read"
        )
        raise refuse(
            str(path),
            "general.architecture",
            f"one that is known ({formats}): give its config.json",
            reader.architecture,
        )
    return spec, [
        name.partition("huggingface.co/")[2] or name
        for name in map(reader.keys.get, NAMES)
        if isinstance(name, str)
    ]


class _Reader:
    """Reads the fields of ModelSpec from a header.

    - predicting: number of multi-token prediction layers.
    - depth: number of all other layers.
    - layers: the tensors of each of these layers, by name.
    - behind: tensors of multi-token prediction layers.
    - outer: tensors outside all layers.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        self.keys = header.keys
        self.architecture = str(header.keys.get("general.architecture", ""))
        self.predicting = self.number("nextn_predict_layers", 0, MAX_LAYERS)
        self.depth = self.number("block_count", high=MAX_LAYERS) - self.predicting
        self.layers: list[Layer] = [{} for _ in range(self.depth)]
        self.behind: Layer = {}
        self.outer: Layer = {}
        for name, tensor in header.tensors.items():
            block, _, part = name.removeprefix("blk.").removesuffix(".weight").partition(".")
            if not name.startswith("blk.") or not block.isdecimal():
                self.outer[name.removesuffix(".weight")] = tensor
            elif int(block) < self.depth:
                self.layers[int(block)][part] = tensor
            else:
                self.behind[name] = tensor
        embedding = self.outer.get("token_embd")
        if embedding is None or len(embedding.shape) != 2 or not self.layers or not all(self.layers):
            raise InputError(
                f"{path}: must hold all tensors of a language model: token_embd, blk.0 and so on"
            )

    @property
    def counted(self) -> list[Tensor]:
        """All tensors of the model, except multi-token prediction layers and tables of rotary factors."""
        outer = [tensor for name, tensor in self.outer.items() if not name.startswith("rope_")]
        return outer + [t for layer in self.layers for name, t in layer.items() if "rope_" not in name]

    def number(self, key: str, default: int | None = None, high: int = 2**40) -> int:
        """The whole number under a key of this architecture. For a list with one number per layer, it is the
        largest number.
        """
        return max(self.each(key, default, high))

    def each(self, key: str, default: int | None = None, high: int = 2**40) -> list[int]:
        """The whole numbers under a key of this architecture: one number, or one for each layer."""
        value = self.keys.get(f"{self.architecture}.{key}", default)
        values: list[Any] = value if isinstance(value, list) and value else [value]
        if not all(isinstance(one, int) and 0 <= one <= high for one in values):
            raise refuse(str(self.path), f"{self.architecture}.{key}", f"a whole number up to {high}", value)
        return [int(one) for one in values]

    def attention(self, every: Layer, attends: list[int], width: int) -> Fields:
        """The fields for biases, norms and gates of attention layers. All heads together have `width`
        values.
        """
        query = every.get("attn_q")
        gate_in_query = query is not None and "attn_kv_a_mqa" not in every and query.shape[-1] == 2 * width
        has_gate = any("attn_gate" in self.layers[i] for i in attends)
        return {
            "qkv_bias": bool({"attn_q.bias", "attn_qkv.bias"} & every.keys()),
            "output_bias": "attn_output.bias" in every,
            "qk_norm": "attn_q_norm" in every,
            "wide_qk_norm": "attn_q_norm" in every and every["attn_q_norm"].values == width,
            "attention_gate": has_gate or gate_in_query,
            "attention_sinks": "attn_sinks" in every,
        }

    def mlp(self, every: Layer) -> Fields:
        """The fields for the width, the biases and the gate of an MLP. The gate may be in one tensor with the
        first matrix.
        """
        down = every.get("ffn_down", every.get("ffn_down_exps", self.outer["token_embd"]))
        wide = down.shape[0]
        gates = {"ffn_gate", "ffn_gate_exps", "ffn_gate_up_exps"} & every.keys()
        gated_in_one = "ffn_up" in every and every["ffn_up"].shape[-1] == 2 * wide
        return {
            "intermediate_size": wide,
            "mlp_bias": "ffn_down.bias" in every,
            "gated_mlp": bool(gates) or gated_in_one,
        }

    def norms(self, every: Layer, hidden: int) -> Fields:
        """The fields for the norms of a layer over the hidden state."""
        counts = [
            sum(t.shape == (hidden,) and n.endswith("norm") for n, t in layer.items())
            for layer in self.layers
        ]
        return {"norms_per_layer": max(counts) or 1, "norm_bias": "attn_norm.bias" in every}

    def names(self) -> Fields:
        """The fields for the name and the source of the model."""
        title = str(self.keys.get("general.name", self.path.stem))
        return {
            "name": one_line(self.path.stem) or "gguf",
            "title": one_line(title) or "gguf",
            "model_type": self.architecture,
            "source": str(self.path),
        }

    def fields(self) -> Fields:
        """All fields of ModelSpec that the file determines."""
        every: Layer = {name: tensor for layer in reversed(self.layers) for name, tensor in layer.items()}
        attends = [i for i, layer in enumerate(self.layers) if "attn_output" in layer]
        recurrent = [layer for layer in self.layers if {"ssm_out", "shortconv.out_proj"} & layer.keys()]
        mlps = [layer for layer in self.layers if {"ffn_down", "ffn_down_exps"} & layer.keys()]
        slides = self.sliding()
        full = [i for i in attends if not slides[i]]
        sliding = [i for i in attends if slides[i]]
        hidden, vocabulary = self.outer["token_embd"].shape
        heads = self.heads((full or sliding or [0])[0], not full and bool(sliding))
        width = heads["num_attention_heads"] * heads["head_dim"]
        attention_layers = None if len(attends) + len(recurrent) == self.depth else len(attends)
        mlp_layers = None if len(mlps) == self.depth else len(mlps)
        shape: Fields = self.names() | {
            "num_hidden_layers": self.depth,
            "hidden_size": hidden,
            "vocab_size": vocabulary,
            "max_position_embeddings": self.number("context_length"),
            "tie_word_embeddings": "output" not in self.outer,
            "attention_layers": attention_layers,
            "mlp_layers": mlp_layers,
            "num_nextn_predict_layers": self.predicting if self.behind else None,
            "weights": weights_of(self.path, self.outer, self.layers, self.behind),
        }
        shape |= heads | self.attention(every, attends, width) | self.mlp(every) | self.norms(every, hidden)
        if sliding:
            shape |= self.sliding_layers(sliding, heads)
        if recurrent:
            shape["linear_attention"] = self.recurrent(recurrent[0], len(recurrent))
        if "ffn_down_exps" in every:
            shape["moe"] = self.experts(every, sum("ffn_down_exps" not in layer for layer in mlps))
        if "attn_kv_a_mqa" in every:
            shape |= self.latent(heads["num_attention_heads"])
        if "indexer.attn_k" in every:
            shape["indexer"] = self.indexer()
        return shape

    def sliding_layers(self, sliding: list[int], heads: Fields) -> Fields:
        """The fields for the sliding-window layers with these numbers.

        - heads: the heads of the other layers.
        """
        own = self.heads(sliding[0], True)
        return {
            "sliding_window": self.number("attention.sliding_window"),
            "num_sliding_layers": len(sliding),
            "sliding_heads": None if own == heads else own,
        }

    def indexer(self) -> Fields:
        """The fields of the indexer that chooses the tokens of sparse attention (DeepSeek-V3.2)."""
        return {
            "num_heads": self.number("attention.indexer.head_count"),
            "head_dim": self.number("attention.indexer.key_length"),
            "topk": self.number("attention.indexer.top_k"),
            "layers": sum("indexer.attn_k" in layer for layer in self.layers),
        }

    def sliding(self) -> list[bool]:
        """For each layer, whether it attends only to a sliding window."""
        if not self.number("attention.sliding_window", 0):
            return [False] * self.depth
        pattern = self.each("attention.sliding_window_pattern", PERIODS.get(self.architecture, 1))
        if len(pattern) >= self.depth > 1:
            return [bool(slides) for slides in pattern[: self.depth]]
        period = max(pattern[0], 1)
        return [i % period < period - 1 for i in range(self.depth)]

    def heads(self, layer: int, slides: bool) -> Fields:
        """The fields for the heads of one layer."""
        count, pairs = (self.each(f"attention.head_count{end}") for end in ("", "_kv"))
        queries = count[layer] if len(count) > layer else count[0]
        own = self.layers[layer]
        values = own.get("attn_output", self.outer["token_embd"]).shape[0] // max(queries, 1)
        size = self.number("attention.key_length", values)
        if slides:
            size = self.number("attention.key_length_swa", size)
        return {
            "num_attention_heads": queries,
            "num_key_value_heads": pairs[layer] if len(pairs) > layer else pairs[0],
            "head_dim": size,
            "value_head_dim": None if values == size else values,
            "one_kv_projection": "attn_k" in own and "attn_v" not in own,
        }

    def recurrent(self, layer: Layer, layers: int) -> Fields:
        """The fields for the layers that keep a recurrent state. Raises InputError for an unknown kind of
        layer.
        """
        if "shortconv.out_proj" in layer:
            sizes = (1, 1, 1, layer["shortconv.out_proj"].shape[0], self.number("shortconv.l_cache"))
            kind = "conv"
        elif "ssm_x" in layer or "ssm_f_a" in layer:
            raise refuse(
                str(self.path),
                "general.architecture",
                "one without Mamba-1 or Kimi's layers",
                self.architecture,
            )
        else:
            heads = max(self.number("ssm.time_step_rank"), 1)
            keys = (self.number("ssm.group_count"), heads, self.number("ssm.state_size"))
            sizes = (*keys, self.number("ssm.inner_size") // heads, self.number("ssm.conv_kernel"))
            kind = "mamba2" if "ssm_in" in layer and "ssm_d" in layer else "gated_delta"
        names = ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim", "conv_kernel")
        return {
            "kind": kind,
            "layers": layers,
            **dict(zip(names, sizes, strict=True)),
            "gated_norm": "ssm_norm" in layer,
        }

    def experts(self, every: Layer, dense: int) -> Fields:
        """The fields for routed and shared experts."""
        shared = every.get("ffn_down_shexp", every.get("ffn_down") if not dense else None)
        latent = every.get("ffn_latent_down")
        return {
            "num_experts": self.number("expert_count"),
            "experts_per_token": self.number("expert_used_count"),
            "intermediate_size": every["ffn_down_exps"].shape[0],
            "shared_intermediate_size": shared.shape[0] if shared else 0,
            "first_dense_layers": dense,
            "router_bias": bool({"ffn_gate_inp.bias", "exp_probs_b.bias"} & every.keys()),
            "expert_bias": "ffn_down_exps.bias" in every,
            "shared_gate": "ffn_gate_inp_shexp" in every,
            "latent_size": latent.shape[-1] if latent else None,
        }

    def latent(self, heads: int) -> Fields:
        """The fields for DeepSeek's attention (MLA). In the file, lengths are those of one head, or in older
        files those of the cached latent.
        """
        whole = self.number("attention.key_length_mla", self.number("attention.key_length"))
        rotary = self.number("rope.dimension_count")
        return {
            "num_key_value_heads": heads,
            "head_dim": whole,
            "value_head_dim": None,
            "mla": {
                "q_lora_rank": self.number("attention.q_lora_rank", 0) or None,
                "kv_lora_rank": self.number("attention.kv_lora_rank"),
                "qk_nope_head_dim": whole - rotary,
                "qk_rope_head_dim": rotary,
                "v_head_dim": self.number(
                    "attention.value_length_mla", self.number("attention.value_length")
                ),
            },
        }
