"""Finds number formats by name. Names may be those of this program, of checkpoints or of engines, or mixes of
formats over layers.
"""

import re

from perfmodel.errors import refuse, unknown_name
from perfmodel.immutable import Immutable
from perfmodel.specs.models.formats import WEIGHT_FORMATS, Format, block_format
from perfmodel.specs.models.ggml import BLOCKS, MIXES
from perfmodel.specs.models.mlx import MXFP4

_GROUP_BYTES = {"int": 4.0, "awq": 2.5, "int-sym": 2.0}
"""Bytes per group of weights: a 16-bit scale, and a zero of 16 bits (gpt-fast, MLX), of 4 bits (AWQ, GPTQ),
or none.
"""
_GROUPED = re.compile(r"(?P<method>int|awq)(?P<bits>[2-8])?-g(?P<size>[1-9]\d{0,3})(?P<symmetric>-sym)?")
"""``intBITS-gSIZE`` or ``awq-gSIZE``."""
_SHORT = {
    **dict.fromkeys(("awq", "awq-int4", "int4-awq", "awq-4bit", "4bit-awq", "awq_marlin"), "awq-g128"),
    **dict.fromkeys(("gptq", "gptq-int4", "int4-gptq", "gptq-4bit", "gptq_marlin"), "int4-g128-sym"),
    **dict.fromkeys(("w4a16", "autoround", "int4-autoround"), "int4-g128-sym"),
    "w8a8": "int8",
    "w8a16": "int8-wo",
    "bfloat16": "bf16",
    **dict.fromkeys(("float16", "half", "f16"), "fp16"),
    **dict.fromkeys(("float32", "float", "f32"), "fp32"),
}
"""The format that a word of checkpoints, engines and users means. GPTQ, AutoRound and compressed-tensors'
W4A16 have groups of 128 and no zero, unless a checkpoint states another format.
"""
_EXAMPLES = (
    *WEIGHT_FORMATS,
    "fp8-wo",
    "nvfp4-wo",
    "int4-g128",
    "int4-g128-sym",
    "awq-g128",
    "4bit",
    "8bit",
    MXFP4,
    *MIXES,
)
"""The words that an error message lists."""


class LayerShare(Immutable):
    """A weight format that a GEMM has in some layers.

    - layers: number of layers with this format.
    """

    form: Format
    layers: int


def one_format(name: str, flag: str) -> Format:
    """The format of one word, or the mean format of ``A*3+B*75``, which means A in 3 layers and B in 75
    layers.

    Raises InputError, which names the flag, for an unknown word.
    """
    if "+" in name:
        return _mean_format(name, flag)
    key = _SHORT.get(name, name)
    known = WEIGHT_FORMATS.get(key)
    if known is not None:
        return known
    derived = _on_8_bit_activations(key, flag) or _grouped(key) or _weight_only(key) or _of_gguf(key)
    if derived is not None:
        return derived
    if key.startswith("ud-"):
        raise refuse(
            flag, None, "the file (--model FILE.gguf) or its mean (as 4.9bpw): this mix differs", name
        )
    from perfmodel.specs.boundary.unlisted import (  # imported late, for refusals only
        refuse_unlisted,
        unlisted_names,
    )

    refuse_unlisted(flag, name, unlisted_names().weight_formats)
    raise unknown_name(flag, "weight format", name, _EXAMPLES)


def layer_shares(name: str, flag: str) -> list[LayerShare]:
    """The formats of a text such as ``A*3+B*75``, with their numbers of layers. Raises InputError for another
    spelling.
    """
    shares = []
    for term in name.split("+"):
        word, _, layers = term.partition("*")
        if not re.fullmatch(r"[1-9]\d{0,4}", layers):
            raise refuse(flag, None, "FORMAT, or FORMAT*LAYERS+FORMAT*LAYERS where layers differ", name)
        shares.append(LayerShare(one_format(word, flag), int(layers)))
    return shares


def _mean_format(name: str, flag: str) -> Format:
    """The mean size over layers of several formats. It computes at the peak of the format that most layers
    have.
    """
    shares = layer_shares(name, flag)
    usual = max(shares, key=lambda share: share.layers).form
    all_layers = sum(share.layers for share in shares)
    mean_bytes = sum(share.form.bytes_per_value * share.layers for share in shares) / all_layers
    return Format(name, mean_bytes, usual.compute, usual.input_bytes)


def _on_8_bit_activations(key: str, flag: str) -> Format | None:
    """``FORMAT-a8``: the weights of a format, computed on 8-bit activations. The result is None for another
    word.
    """
    if not key.endswith("-a8"):
        return None
    weights = one_format(key.removesuffix("-a8"), flag)
    return Format(key, weights.bytes_per_value, "fp8", 1.0)


def _grouped(key: str) -> Format | None:
    """Integers with a scale per group, such as ``int4-g128-sym``. The result is None for another word."""
    word = _GROUPED.fullmatch(key)
    if word is None or (word["method"] == "int") != (word["bits"] is not None):
        return None
    scale_bytes = _GROUP_BYTES.get(word["method"] + (word["symmetric"] or ""))
    if scale_bytes is None:
        return None
    bits = int(word["bits"] or 4)
    return Format(key, bits / 8 + scale_bytes / int(word["size"]), "bf16")


def _weight_only(key: str) -> Format | None:
    """``FORMAT-wo`` of a format that quantises activations. The result is None for another word."""
    quantised = WEIGHT_FORMATS.get(key.removesuffix("-wo"))
    if quantised is None or not key.endswith("-wo") or quantised.input_bytes is None:
        return None
    return quantised.weight_only


def _of_gguf(key: str) -> Format | None:
    """A block format of GGUF files, or the mean over a file (``4.9bpw``). The result is None for another
    word.
    """
    if key in BLOCKS:
        return block_format(key)
    mean_bits = re.fullmatch(r"([1-9]\d?(?:\.\d{1,4})?)bpw", key)
    if mean_bits is None:
        return None
    return Format(key, float(mean_bits[1]) / 8, "bf16")
