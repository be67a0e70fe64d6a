"""One forward pass of a Llama-family decoder. What attention reads is not its business: that is `attend`'s."""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from perfmodel.errors import InputError
from perfmodel.specs.model import ModelSpec
from perfmodel.validate.decoder import rope
from perfmodel.validate.decoder.shard import Shard

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")


class Attend(Protocol):
    """Attention of one layer over whatever cache the caller keeps."""

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q [batch, heads, n, head_dim] and the new k, v [batch, kv_heads, n, head_dim], rotated; returns q's shape."""
        ...


class Layer(nn.Module):
    """Attention and gated MLP, each behind a norm; query, key and value (and gate and up) are one matrix each."""

    def __init__(self, spec: ModelSpec, shard: Shard) -> None:
        super().__init__()
        first, last = shard.kv_heads(spec.num_key_value_heads)
        self.heads, self.kv_heads, self.head_dim = spec.num_attention_heads // shard.size, last - first, spec.head_dim
        self.eps, self.shard = spec.rms_norm_eps, shard
        width = self.heads * self.head_dim
        inner = spec.intermediate_size // shard.size
        output_bias, down_bias = spec.output_bias and shard.rank == 0, spec.mlp_bias and shard.rank == 0
        self.attention_norm = nn.Parameter(torch.empty(spec.hidden_size))
        self.qkv = nn.Linear(spec.hidden_size, width + 2 * self.kv_heads * self.head_dim, bias=spec.qkv_bias)
        self.q_norm = nn.Parameter(torch.empty(spec.head_dim)) if spec.qk_norm else None
        self.k_norm = nn.Parameter(torch.empty(spec.head_dim)) if spec.qk_norm else None
        self.output = nn.Linear(width, spec.hidden_size, bias=output_bias)
        self.mlp_norm = nn.Parameter(torch.empty(spec.hidden_size))
        self.gate_up = nn.Linear(spec.hidden_size, 2 * inner, bias=spec.mlp_bias)
        self.down = nn.Linear(inner, spec.hidden_size, bias=down_bias)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor, layer: int, attend: Attend) -> Tensor:
        """x [batch, n, hidden] to the same shape."""
        h = x + self.shard.sum(self._attention(norm(x, self.attention_norm, self.eps), cosine, sine, layer, attend))
        gate, up = self.gate_up(norm(h, self.mlp_norm, self.eps)).chunk(2, dim=-1)
        return h + self.shard.sum(self.down(F.silu(gate) * up))

    def _attention(self, x: Tensor, cosine: Tensor, sine: Tensor, layer: int, attend: Attend) -> Tensor:
        batch, n, _ = x.shape
        heads = self.qkv(x).view(batch, n, -1, self.head_dim).transpose(1, 2)
        q, k, v = heads.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = norm(q, self.q_norm, self.eps), norm(k, self.k_norm, self.eps)
        out = attend(layer, rope.rotate(q, cosine, sine), rope.rotate(k, cosine, sine), v)
        return self.output(out.transpose(1, 2).reshape(batch, n, -1))


class Model(nn.Module):
    """A decoder-only transformer of the shape `spec`, or the part of it that one tensor-parallel rank holds."""

    def __init__(self, spec: ModelSpec, shard: Shard | None = None) -> None:
        super().__init__()
        check_supported(spec)
        self.spec, self.shard = spec, shard or Shard()
        self.shard.check(spec)
        rows = spec.vocab_size // self.shard.size
        self.embedding = nn.Parameter(torch.empty(rows, spec.hidden_size))
        self.layers = nn.ModuleList(Layer(spec, self.shard) for _ in range(spec.num_hidden_layers))
        self.final_norm = nn.Parameter(torch.empty(spec.hidden_size))
        self.head = None if spec.tie_word_embeddings else nn.Parameter(torch.empty(rows, spec.hidden_size))
        self.frequencies: Tensor | None = None

    @property
    def kv_heads(self) -> int:
        """KV heads that this rank caches."""
        first, last = self.shard.kv_heads(self.spec.num_key_value_heads)
        return last - first

    @property
    def dtype(self) -> torch.dtype:
        """Type of weights and activations."""
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.embedding.device

    def forward(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Final hidden states [batch, n, hidden] of tokens [batch, n] at positions [batch, n]."""
        if self.frequencies is None or self.frequencies.device != self.device:
            self.frequencies = rope.inverse_frequencies(self.spec, self.device)
        x = self._embed(tokens)
        cosine, sine = rope.rotation(self.frequencies, positions, self.dtype)
        for index, layer in enumerate(self.layers):
            x = layer(x, cosine, sine, index, attend)
        return norm(x, self.final_norm, self.spec.rms_norm_eps)

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores [..., vocab_size] of hidden states [..., hidden]."""
        return self.shard.gather_last(F.linear(hidden, self.embedding if self.head is None else self.head))

    def _embed(self, tokens: Tensor) -> Tensor:
        if self.shard.size == 1:
            return F.embedding(tokens, self.embedding)
        first, last = self.shard.split(self.spec.vocab_size)
        mine = (tokens >= first) & (tokens < last)
        rows = F.embedding((tokens - first).clamp(0, last - first - 1), self.embedding)
        return self.shard.sum(rows * mine[..., None].to(rows.dtype))


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Root-mean-square norm over the last dimension."""
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def check_supported(spec: ModelSpec) -> None:
    """Refuse a model whose layers are not those of this file."""
    reason = None
    if spec.model_type not in FAMILIES:
        reason = f"its model_type is {spec.model_type!r}"
    elif spec.moe or spec.mla or spec.attention_sinks or spec.norms_per_layer != 2:
        reason = "it has experts, latent attention, attention sinks or extra norms"
    elif spec.rope_scaling and spec.rope_scaling.rope_type not in rope.SCALINGS:
        reason = f"its rope_type is {spec.rope_scaling.rope_type!r}"
    if reason:
        raise InputError(
            f"model {spec.name}: must be a dense model of family {', '.join(FAMILIES)} to be run here; {reason}"
        )
