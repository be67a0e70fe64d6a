"""Models from headers of GGUF files: shapes and formats by hand, names of bundled models, hostile files."""

import contextlib
import math
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from perfmodel.costs import Degrees, shard
from perfmodel.errors import InputError
from perfmodel.specs import hub_id, load_model, precision_of
from perfmodel.specs.gguf.header import MOST_TEXT, read_header
from perfmodel.specs.models.ggml import BLOCKS
from perfmodel.specs.models.names import load_bundled
from tests.refusals import refused
from tests.specs.configs import DESCRIPTIVE, table

Tensors = dict[str, tuple[tuple[int, ...], str]]


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def typed(value: Any) -> bytes:
    """A value of a key with its type."""
    if isinstance(value, list):
        first = typed(value[0])
        entries = [typed(each)[4:] for each in value]
        return struct.pack("<I4sQ", 9, first[:4], len(value)) + b"".join(entries)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    code, number = {bool: ("?", 7), int: ("I", 4), float: ("f", 6)}[type(value)]
    if not isinstance(value, bool | float) and value >= 2**32:
        code, number = "Q", 10
    return struct.pack("<I" + code, number, value)


def gguf(keys: dict[str, Any], tensors: Tensors, version: int = 3) -> bytes:
    """The header of a file."""
    data = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    data += b"".join([text(key) + typed(value) for key, value in keys.items()])
    for name, (sizes, form) in tensors.items():
        count = len(sizes)
        data += text(name) + struct.pack(f"<I{count}QIQ", count, *sizes, BLOCKS[form][0], 0)
    return data


def written(folder: Path, keys: dict[str, Any], tensors: Tensors, name: str = "mine.gguf") -> str:
    (folder / name).write_bytes(gguf(keys, tensors))
    return str(folder / name)


def qwen3(more: int = 14) -> tuple[dict[str, Any], Tensors]:
    """Qwen3-0.6B as llama.cpp writes it in Q4_K_M: attn_v and ffn_down of `more` layers in Q6_K."""
    m = load_bundled("qwen3-0.6b")
    sizes = {
        "block_count": m.num_hidden_layers,
        "context_length": 40960,
        "embedding_length": m.hidden_size,
        "feed_forward_length": m.intermediate_size,
        "attention.head_count": m.num_attention_heads,
        "attention.head_count_kv": m.num_key_value_heads,
        "attention.key_length": m.head_dim,
        "attention.value_length": m.head_dim,
    }
    keys = {"general.architecture": "qwen3", "general.name": "Mine"}
    keys |= {f"qwen3.{key}": size for key, size in sizes.items()}
    keys |= {"tokenizer.ggml.scores": [0.5] * 5000, "tokenizer.ggml.tokens": ["x"] * 5000}
    hidden = m.hidden_size
    inner = m.num_attention_heads * m.head_dim
    kv = m.num_key_value_heads * m.head_dim
    tensors: Tensors = {
        "token_embd.weight": ((hidden, m.vocab_size), "q6_k"),
        "output_norm.weight": ((hidden,), "fp32"),
    }
    for i in range(m.num_hidden_layers):
        wide = "q6_k" if i < more else "q4_k"
        attention = {
            "attn_norm": ((hidden,), "fp32"),
            "attn_q": ((hidden, inner), "q4_k"),
            "attn_k": ((hidden, kv), "q4_k"),
            "attn_v": ((hidden, kv), wide),
            "attn_output": ((inner, hidden), "q4_k"),
        }
        mlp = {
            "attn_q_norm": ((m.head_dim,), "fp32"),
            "attn_k_norm": ((m.head_dim,), "fp32"),
            "ffn_norm": ((hidden,), "fp32"),
            "ffn_gate": ((hidden, m.intermediate_size), "q4_k"),
            "ffn_up": ((hidden, m.intermediate_size), "q4_k"),
            "ffn_down": ((m.intermediate_size, hidden), wide),
        }
        tensors |= {f"blk.{i}.{name}.weight": tensor for name, tensor in (attention | mlp).items()}
    return keys, tensors


def test_shape_and_formats_by_tensor(tmp_path: Path) -> None:
    keys, tensors = qwen3()
    mine = load_model(written(tmp_path, keys, tensors))
    assert mine.weights == "q4_k,qkv=q4_k*7+q6_k*1,down=q6_k*1+q4_k*1,lm_head=q6_k,embedding=q6_k"
    known = load_bundled("qwen3-0.6b").as_mapping()
    fields = mine.as_mapping().items()
    differs = {key for key, value in fields if value != known[key]}
    assert differs - DESCRIPTIVE <= {"weights", "rope_theta", "rms_norm_eps", "num_nextn_predict_layers"}
    stored = shard(mine, Degrees(1), precision_of(mine, ("bf16",))).stored_weight_bytes
    in_file = 0.0
    for sizes, form in tensors.values():
        _, values, size = BLOCKS[form]
        in_file += math.prod(sizes) * size / values
    assert stored == pytest.approx(in_file, rel=1e-3)  # norms are in fp32


def small(folder: Path, row: dict[str, Any]) -> str:
    """A file of a few layers: keys of the architecture, and tensors by kind of layer."""
    name = row["architecture"]
    keys = {"general.architecture": name, f"{name}.block_count": len(row["layers"])}
    keys |= {f"{name}.{key}": value for key, value in row["keys"].items()}
    layers = [row["every"] | row["kinds"][kind] for kind in row["layers"]]
    tensors = {f"blk.{i}.{part}": shape for i, layer in enumerate(layers) for part, shape in layer.items()}
    every = (row["outer"] | tensors).items()
    return written(folder, keys, {part: (tuple(shape), "fp32") for part, shape in every})


@pytest.mark.parametrize("row", table("gguf_files"), ids=lambda row: row["architecture"])
def test_every_field_of_a_small_header(tmp_path: Path, row: dict[str, Any]) -> None:
    """The reader itself holds the values of all tensors against the parameters of this shape."""
    stated = load_model(small(tmp_path, row)).as_mapping(exclude_defaults=True)
    fields = {name: value for name, value in stated.items() if name not in DESCRIPTIVE}
    assert fields == row["fields"]


def test_a_tensor_beyond_the_shape_is_refused(tmp_path: Path) -> None:
    row = table("gguf_files")[0]
    more = row | {"outer": row["outer"] | {"blk.1.unknown.weight": [64, 512]}}
    refused(r"mine\.gguf: general\.architecture: must be one that", load_model, small(tmp_path, more))


def test_a_bundled_model_is_recognised_and_keeps_the_formats_of_the_file(tmp_path: Path) -> None:
    keys, tensors = qwen3()
    keys["tokenizer.chat_template"] = "x" * MOST_TEXT  # as long as a text may be
    keys["general.base_model.0.repo_url"] = "https://huggingface.co/me/Qwen3-0.6B"
    path = written(tmp_path, keys, tensors)
    model = load_model(path)
    assert model.name == "qwen3-0.6b"
    assert model.rope_theta == 1e6
    assert hub_id(path) == "me/Qwen3-0.6B"
    assert model.weights.startswith("q4_k,")
    del keys["general.base_model.0.repo_url"]  # the name alone, without an owner
    keys["general.name"] = "Qwen3-0.6B"
    assert hub_id(written(tmp_path, keys, tensors)) == "Qwen/Qwen3-0.6B"
    keys["general.name"] = "Mine"
    keys["general.base_model.0.repo_url"] = "https://huggingface.co/Qwen/Qwen3-8B"  # another shape
    other = load_model(written(tmp_path, keys, tensors))
    assert other.name == "mine"
    assert other.title == "Mine"


def test_the_largest_number_of_a_key_is_read_and_a_larger_one_is_refused(tmp_path: Path) -> None:
    keys, tensors = qwen3()
    keys["qwen3.context_length"] = 2**40
    assert load_model(written(tmp_path, keys, tensors)).max_position_embeddings == 2**40
    keys["qwen3.context_length"] = 2**40 + 1
    larger = written(tmp_path, keys, tensors, "larger.gguf")
    message = r"larger\.gguf: qwen3\.context_length: must be a whole number up to 1099511627776, given"
    refused(message, load_model, larger)


def test_a_list_of_more_than_4096_items_is_skipped(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"few": ["a"] * 4096, "many": ["a"] * 4097, "numbers": [1] * 4097, "last": 7}
    header = read_header(Path(written(tmp_path, keys, {})))
    assert header.keys == keys | {"many": None, "numbers": None}


def test_a_split_file(tmp_path: Path) -> None:
    keys, tensors = qwen3()
    half = len(tensors) // 2
    every = list(tensors.items())
    parts = [dict(every[:half]), dict(every[half:])]
    names = [f"m-0000{i}-of-00002.gguf" for i in (1, 2)]
    written(tmp_path, {"split.count": 2}, parts[1], names[1])
    first = written(tmp_path, keys | {"split.count": 2}, parts[0], names[0])
    assert load_model(first).total_params > 5e8
    (tmp_path / names[1]).unlink()
    second = written(tmp_path, keys | {"split.count": 2, "x": 1}, parts[0], names[0])
    refused(r"m-00002-of-00002\.gguf: must be a readable file", load_model, second)


HEAD = b"GGUF" + struct.pack("<I", 3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK\3\4", "it does not begin with GGUF"),
        (b"GGUF" + struct.pack("<I", 50331648), "given version 50331648"),
        (HEAD + struct.pack("<QQ", 2**60, 0), "at most 131072 tensors"),
        (HEAD + struct.pack("<QQ", 0, 2**60), "at most 131072 keys"),
        (HEAD + struct.pack("<QQQ", 0, 1, 2**63), "at most 4194304 bytes of a text"),
        (HEAD + struct.pack("<QQ", 0, 1) + text("a") + struct.pack("<IIQ", 9, 8, 2**50), "items of a list"),
        (HEAD + struct.pack("<QQ", 0, 1) + text("a") + struct.pack("<IIQ", 9, 9, 1), "no list of lists"),
        (gguf(*qwen3())[:-12] + struct.pack("<IQ", 999, 0), "weights of known formats, given type 999"),
        (HEAD + struct.pack("<QQ", 0, 1) + text("a") + struct.pack("<I", 99), "a type of value from 0 to 12"),
        (HEAD + struct.pack("<QQ", 0, 1) + text("a") + struct.pack("<IIQ", 9, 8, 2**20), "does not end"),
        (HEAD + struct.pack("<QQ", 1, 0) + text("t") + struct.pack("<I", 2**31), "1 to 4 dimensions"),
        (HEAD + struct.pack("<QQ", 1, 0) + text("t") + struct.pack("<I", 5), "1 to 4 dimensions"),
        (HEAD + struct.pack("<QQ", 1, 0) + text("t") + struct.pack("<IQQ", 2, 2**40, 2**40), "does not end"),
        (gguf({}, {"t": ((2**23, 2**23), "q8_0")}), "values of a tensor"),
        (gguf({"a": 1, "b": 2}, {}).replace(b"b", b"a"), "a is given twice"),
        *((gguf({"split.count": n}, {}), "split.count: must be 1 to 512, in files") for n in (0, 2, "1")),
        (gguf({"a.block_count": 1, "general.architecture": "a"}, {}), "must hold all tensors"),
        (gguf({"general.architecture": "../x", "general.name": "/etc/passwd"}, {}), "x.block_count: must be"),
    ],
)
def test_a_hostile_header_is_refused_in_one_line(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "x.gguf").write_bytes(data)
    refused(rf"x\.gguf: .*{message}", load_model, str(tmp_path / "x.gguf"))


def test_a_damaged_header_is_read_or_refused_never_a_bug(tmp_path: Path) -> None:
    """Cut anywhere, or with any bytes changed."""
    keys, tensors = qwen3()
    del keys["tokenizer.ggml.tokens"]
    whole = gguf(keys, tensors)
    dice = random.Random(0)
    path = tmp_path / "x.gguf"
    for trial in range(150):
        data = bytearray(whole[: dice.randrange(len(whole))] if trial < 50 else whole)
        for _ in range(0 if trial < 50 else dice.randrange(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(data)
        with contextlib.suppress(InputError):
            assert load_model(str(path)).total_params > 0
