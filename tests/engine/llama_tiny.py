"""Two random Llamas over bytes as GGUF files, with the acceptance of tiny.py, for llama.cpp on a CPU.

``python llama_tiny.py GGUF_PY FOLDER``: GGUF_PY is llama.cpp's own package. The files have 16 bits a weight;
FOLDER/NAME.json is the shape, as a config.json has it.
"""

import importlib
import json
import random
import sys
from pathlib import Path

import numpy as np

ACCEPTANCE = 0.8
VOCAB = 320
FIRST = 40
CIRCLE = 94
CONTEXT = 65536
SHAPES = {"llama-target": (12, 1024, 16, 4, 2816, 0.0), "llama-draft": (3, 512, 8, 2, 1408, 1 - ACCEPTANCE)}
"""Layers, hidden size, heads, KV heads, MLP width, share of successors that the target does not write."""
KEYS = (
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
)


def successors(wrong: float) -> list[int]:
    """What follows each token: the next of a circle, or one further for a share `wrong`."""
    shuffle = random.Random(0)
    circle = [FIRST + i for i in range(CIRCLE)]
    shuffle.shuffle(circle)
    follows = [shuffle.choice(circle) for _ in range(VOCAB)]
    for i, token in enumerate(circle):
        follows[token] = circle[(i + 1 + (shuffle.random() < wrong)) % CIRCLE]
    return follows


def write(path: Path, shape: tuple[int, int, int, int, int, float]) -> None:
    """Random layers between an embedding and a head that knows every token's successor."""
    gguf = importlib.import_module("gguf")
    layers, hidden, heads, kv_heads, mlp, wrong = shape
    draw = np.random.default_rng(layers)
    kv = hidden // heads * kv_heads
    out = gguf.GGUFWriter(path, "llama")
    bytes_of_utf8 = [f"<0x{i:02X}>" for i in range(256)]
    names = ["<unk>", "<s>", "</s>", *bytes_of_utf8]
    further = [f"<{i}>" for i in range(len(names), VOCAB)]
    stated = {
        "block_count": layers,
        "context_length": CONTEXT,
        "embedding_length": hidden,
        "feed_forward_length": mlp,
        "head_count": heads,
        "head_count_kv": kv_heads,
        "layer_norm_rms_eps": 1e-6,
        "vocab_size": VOCAB,
        "tokenizer_model": "llama",
        "token_list": names + further,
        "token_scores": [0.0] * VOCAB,
        "token_types": [2, 3, 3, *[6] * 256, *[1] * len(further)],
    }
    for name, value in stated.items():
        getattr(out, f"add_{name}")(value)
    embedding = draw.standard_normal((VOCAB, hidden), dtype=np.float32)
    head = np.zeros_like(embedding)
    for token, follows in enumerate(successors(wrong)):
        head[follows] += embedding[token] / hidden**0.5
    widths = {"attn_q": (hidden, hidden), "attn_k": (kv, hidden), "attn_v": (kv, hidden)}
    widths |= {"attn_output": (hidden, hidden), "ffn_gate": (mlp, hidden), "ffn_up": (mlp, hidden)}
    widths["ffn_down"] = (hidden, mlp)
    out.add_tensor("token_embd.weight", embedding.astype(np.float16))
    for i in range(layers):
        for name, size in widths.items():
            drawn = 0.02 * draw.standard_normal(size, dtype=np.float32)
            out.add_tensor(f"blk.{i}.{name}.weight", drawn.astype(np.float16))
        for name in ("attn_norm", "ffn_norm"):
            out.add_tensor(f"blk.{i}.{name}.weight", np.ones(hidden, np.float32))
    out.add_tensor("output_norm.weight", np.ones(hidden, np.float32))
    out.add_tensor("output.weight", head.astype(np.float16))
    for name in ("write_header_to_file", "write_kv_data_to_file", "write_tensors_to_file", "close"):
        getattr(out, name)()


def config(shape: tuple[int, int, int, int, int, float]) -> dict[str, object]:
    """The shape as a config.json has it."""
    sizes = dict(zip(KEYS, shape, strict=False))
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCAB,
        "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": False,
        **sizes,
    }


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    for name, shape in SHAPES.items():
        write(Path(sys.argv[2]) / f"{name}-f16.gguf", shape)
        (Path(sys.argv[2]) / f"{name}.json").write_text(json.dumps(config(shape), indent=1) + "\n")
