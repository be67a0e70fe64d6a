"""The value of `--weights` for a GGUF file: the formats of its tensors by GEMM."""

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

from perfmodel.errors import InputError
from perfmodel.specs.gguf.header import UNKNOWN, Tensor
from perfmodel.specs.huggingface.quantised import spelled

GEMMS = {
    "qkv": "attn_q attn_k attn_v attn_qkv attn_gate",
    "o": "attn_output",
    "qkv_down": "attn_q_a attn_kv_a_mqa",
    "q_up": "attn_q_b",
    "absorb_k": "attn_k_b attn_kv_b",
    "absorb_v": "attn_v_b",
    "index_q": "indexer.attn_q_b",
    "state_in": "ssm_in ssm_ba shortconv.in_proj",
    "state_out": "ssm_out shortconv.out_proj",
    "gate_up": "ffn_gate ffn_up",
    "down": "ffn_down",
    "experts": "ffn_gate_exps ffn_up_exps ffn_down_exps ffn_gate_up_exps",
    "shared_gate_up": "ffn_gate_shexp ffn_up_shexp",
    "shared_down": "ffn_down_shexp",
    "latent_in": "ffn_latent_down",
    "latent_out": "ffn_latent_up",
}
"""The tensors of each GEMM or part (TENSOR_NAMES of the PyPI package gguf)."""


def weights_of(
    path: Path, outer: dict[str, Tensor], layers: Iterable[dict[str, Tensor]], behind: dict[str, Tensor]
) -> str:
    """The shortest value of `--weights` that gives each GEMM its format in the file.

    - behind: tensors of the multi-token prediction layers.

    Raises InputError for a format that ggml does not have.
    """
    counts = _counts_of_layers(layers)
    head = outer.get("output", outer["token_embd"])
    counts |= {"lm_head": Counter([head.form]), "embedding": Counter([outer["token_embd"].form])}
    for tensor in behind.values():
        counts.setdefault("mtp", Counter())[tensor.form] += tensor.values
    forms = (form for of_gemm in counts.values() for form in of_gemm)
    if unknown := next((form for form in forms if form.startswith(UNKNOWN)), None):
        raise InputError(f"{path}: must hold weights of known formats, given {unknown}")
    formats = {gemm: _mixed(of_gemm) for gemm, of_gemm in counts.items()}
    return spelled(formats, formats.get("gate_up", formats.get("experts", "bf16")))


def _counts_of_layers(layers: Iterable[dict[str, Tensor]]) -> dict[str, Counter[str]]:
    """GEMM -> the number of its values in each format, over all layers."""
    gemm_of = {tensor: gemm for gemm, tensors in GEMMS.items() for tensor in tensors.split()}
    counts: dict[str, Counter[str]] = {}
    for layer in layers:
        # llama.cpp's names for the inputs of Qwen3-Next's recurrent layers are attn_qkv and attn_gate
        only_recurrent = "ssm_out" in layer and "attn_output" not in layer
        for name, tensor in layer.items():
            gemm = gemm_of.get(name)
            if only_recurrent and name in ("attn_qkv", "attn_gate"):
                gemm = "state_in"
            if gemm:
                counts.setdefault(gemm, Counter())[tensor.form] += tensor.values
    return counts


def _mixed(forms: Counter[str]) -> str:
    """Several formats as one text such as ``A*11+B*1``, where the numbers are shares of the values. An fp32
    tensor next to other formats does not count, because it is small.
    """
    if len(forms) > 1:
        del forms["fp32"]
    if len(forms) < 2:
        return next(iter(forms))
    shares = {form: Fraction(count, forms.total()).limit_denominator(999) for form, count in forms.items()}
    whole = max(share.denominator for share in shares.values())
    return "+".join(f"{form}*{max(round(share * whole), 1)}" for form, share in shares.items())
