"""MLX's names for the weight formats of a checkpoint: ``4bit``, ``8bit-g32``, ``mxfp4-q8``.

``mlx_lm.convert -q`` quantises every linear layer and the embedding to affine integers, with a 16-bit scale
and a 16-bit bias per group. A group has 64 values unless a checkpoint states another size.
"""

import re

_WORD = re.compile(r"([2-8])bit(?:-g(32|64|128))?")
"""A number of bits, with an optional group size."""
_EVERYWHERE = "{0},lm_head={0},embedding={0},latent={0}"
GROUP = 64
"""Number of values of a group, unless a checkpoint states another size."""
USUAL_BITS = "4bit"
"""The format of most repositories of ``mlx-community``, and the default of a question."""
MXFP4 = "mxfp4-q8"
"""The formats of gpt-oss in ``mlx-community``. Its experts are unchanged, and all other parts have 8 bits."""
CONVERTED = {"bf16,experts=mxfp4": MXFP4}
"""The format that MLX users run instead of the formats of a checkpoint."""
_STAND_IN = {
    **dict.fromkeys(("fp8", "w8a8"), "8bit"),
    **dict.fromkeys(("awq", "gptq", "nf4", "w4a16", "autoround"), "4bit"),
}
"""MLX's format with the same number of bits, by the first word of a format that MLX does not have."""


def of_bits(name: str) -> str | None:
    """The formats of all parts of a model for one of MLX's names. The result is None for any other name."""
    if name == MXFP4:
        return f"{_EVERYWHERE.format(f'int8-g{GROUP}')},experts=mxfp4"
    word = _WORD.fullmatch(name)
    return word and _EVERYWHERE.format(f"int{word[1]}-g{word[2] or GROUP}")


def in_mlx(weights: str, experts: bool = False) -> str:
    """Converts a value of `--weights` to MLX's names. Formats of named parts remain unchanged.

    - experts: not used, because all parts have one format.
    """
    if "," in weights:
        return weights
    word = weights.strip().lower()
    first = word.removeprefix("ud-").partition("-")[0]  # Unsloth's mixes have this prefix
    if first in _STAND_IN:
        return _STAND_IN[first]
    if bits := re.fullmatch(r"i?(?:int|q)([2-8])(?:_\w+)?", first):
        return f"{bits[1]}bit"
    return word


COMMUNITY = "mlx-community"
"""The owner of most MLX checkpoints."""


def converted_name(model_id: str, weights: str) -> str:
    """The usual name of a model's checkpoint with these weights, such as ``mlx-community/Qwen3-8B-4bit``."""
    owner, _, name = model_id.rpartition("/")
    if owner == COMMUNITY:
        return model_id
    return f"{COMMUNITY}/{name}-{weights.partition(',')[0]}"
