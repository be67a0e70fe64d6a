"""The value of `--weights` for a GGUF file, by hand from its tensors."""

from pathlib import Path

from perfmodel.specs.gguf.header import Tensor
from perfmodel.specs.gguf.weights import weights_of

EMBEDDING = {"token_embd": Tensor((64, 8), "q4_k")}
HEAD = ",lm_head=q4_k,embedding=q4_k"
"""The head has the format of the embedding if the file has no tensor of its own for it."""


def weights(*layers: dict[str, tuple[int, str]]) -> str:
    """The value for layers that map the name of a tensor to its number of values and its format."""
    tensors = [{name: Tensor((count,), form) for name, (count, form) in layer.items()} for layer in layers]
    value = weights_of(Path("mine.gguf"), EMBEDDING, tensors, {})
    assert value.endswith(HEAD)
    return value.removesuffix(HEAD)


def test_a_gemm_with_two_formats_states_their_shares() -> None:
    mlp = {"ffn_gate": (300, "q4_k"), "ffn_up": (300, "q4_k"), "ffn_down": (400, "q4_k")}
    assert weights(mlp, mlp, mlp, mlp | {"ffn_down": (400, "q6_k")}) == "q4_k,down=q4_k*3+q6_k*1"


def test_a_small_tensor_in_fp32_beside_others_does_not_count() -> None:
    mlp = {"ffn_up": (300, "q4_k")}
    recurrent = {"ssm_in": (300, "q8_0"), "ssm_ba": (3, "fp32")}
    assert weights(mlp | recurrent) == "q4_k,recurrent=q8_0"
    assert weights(mlp | {"ssm_ba": (3, "fp32")}) == "q4_k,recurrent=fp32"


def test_inputs_of_a_recurrent_layer_are_not_those_of_attention() -> None:
    """Qwen3-Next names both attn_qkv. Other tensors of the layer keep their GEMM."""
    recurrent = {"attn_qkv": (30, "q8_0"), "attn_gate": (10, "q8_0"), "ssm_out": (10, "q6_k")}
    attention = {"attn_qkv": (30, "q5_k"), "attn_output": (10, "q4_k")}
    mlp = {"ffn_up": (300, "q4_k")}
    assert weights(recurrent | mlp, attention | mlp) == "q4_k,qkv=q5_k,state_in=q8_0,state_out=q6_k"


def test_a_layer_with_attention_beside_recurrence_has_both_inputs() -> None:
    both = {
        "attn_qkv": (30, "q5_k"),
        "attn_output": (10, "q4_k"),
        "ssm_in": (30, "q8_0"),
        "ssm_out": (10, "q6_k"),
        "ffn_up": (300, "q4_k"),
    }
    assert weights(both) == "q4_k,qkv=q5_k,state_in=q8_0,state_out=q6_k"
