"""The number formats of GGUF files: blocks of values that share scales, and llama.cpp's mixes of these
formats.
"""

BLOCKS = {
    "fp32": (0, 1, 4),
    "fp16": (1, 1, 2),
    "q4_0": (2, 32, 18),
    "q4_1": (3, 32, 20),
    "q5_0": (6, 32, 22),
    "q5_1": (7, 32, 24),
    "q8_0": (8, 32, 34),
    "q2_k": (10, 256, 84),
    "q3_k": (11, 256, 110),
    "q4_k": (12, 256, 144),
    "q5_k": (13, 256, 176),
    "q6_k": (14, 256, 210),
    "iq2_xxs": (16, 256, 66),
    "iq2_xs": (17, 256, 74),
    "iq3_xxs": (18, 256, 98),
    "iq1_s": (19, 256, 50),
    "iq4_nl": (20, 32, 18),
    "iq3_s": (21, 256, 110),
    "iq2_s": (22, 256, 82),
    "iq4_xs": (23, 256, 136),
    "iq1_m": (29, 256, 56),
    "bf16": (30, 1, 2),
    "tq1_0": (34, 256, 54),
    "tq2_0": (35, 256, 66),
    "mxfp4": (39, 32, 17),
    "nvfp4-wo": (40, 64, 36),
    "q1_0": (41, 128, 18),
    "q2_0": (42, 64, 18),
}
"""For each format: its number in a file, the values per block, and the bytes per block.

Source: GGML_QUANT_SIZES in gguf-py/gguf/constants.py of llama.cpp, as of llama-cpp-python 0.3.36 (PyPI, MIT).
"""

_HEAD = "lm_head=q6_k,embedding={0},latent={0}"
_EVERYWHERE = "{0},lm_head={0},embedding={0},latent={0}"
_SMALLEST = "{0},qkv={0}*5+q4_k*1,o={1},down={0}*7+{2}*1,experts={0}*23+{2}*1,shared_down={0}*7+{2}*1,"
_SMALLEST += "lm_head=q5_k,embedding={2},latent={0}"
MIXES = {
    **{name: _SMALLEST.format(name, "iq2_xxs", "q2_k") for name in ("iq1_s", "iq1_m", "iq2_xxs")},
    "iq2_xs": _SMALLEST.format("iq2_xs", "iq2_xs", "q2_k"),
    "iq2_s": _SMALLEST.format("iq2_xs", "iq3_s", "iq3_s"),
    "iq2_m": _SMALLEST.format("iq2_s", "iq3_s", "iq3_s"),
    "q2_k": f"q2_k,qkv=q2_k*5+q4_k*1,o=q3_k,down=q3_k,experts=q2_k*2+q3_k*1,shared_down=q3_k,{_HEAD}",
    "q3_k_s": f"q3_k,{_HEAD}",
    "q3_k_m": f"q3_k,qkv=q3_k*5+q4_k*1,o=q4_k,down=q4_k*15+q5_k*1,experts=q3_k*32+q4_k*15+q5_k*1,"
    f"shared_down=q4_k*15+q5_k*1,state_in=q4_k*5+q3_k*3,{_HEAD}",
    "q3_k_l": f"q3_k,qkv=q3_k*5+q5_k*1,o=q5_k,down=q5_k,experts=q3_k*2+q5_k*1,shared_down=q5_k,"
    f"state_in=q4_k*5+q3_k*3,{_HEAD}",
    "q4_0": f"q4_0,{_HEAD}",
    "q4_k_s": f"q4_k,qkv=q4_k*47+q5_k*1,down=q4_k*7+q5_k*1,experts=q4_k*23+q5_k*1,"
    f"shared_down=q4_k*7+q5_k*1,{_HEAD}",
    "q4_k_m": f"q4_k,qkv=q4_k*11+q6_k*1,down=q4_k*1+q6_k*1,experts=q4_k*5+q6_k*1,"
    f"shared_down=q4_k*1+q6_k*1,state_in=q5_k*5+q4_k*3,{_HEAD}",
    "q5_0": f"q5_0,{_HEAD}",
    "q5_k_s": f"q5_k,{_HEAD}",
    "q5_k_m": f"q5_k,qkv=q5_k*11+q6_k*1,down=q5_k*1+q6_k*1,experts=q5_k*5+q6_k*1,"
    f"shared_down=q5_k*1+q6_k*1,state_in=q6_k*5+q5_k*3,{_HEAD}",
    "q6_k": f"q6_k,{_HEAD}",
    "q8_0": _EVERYWHERE.format("q8_0"),
    "iq4_nl": f"iq4_nl,qkv=iq4_nl*5+q5_k*1,down=iq4_nl*7+q5_k*1,experts=iq4_nl*23+q5_k*1,"
    f"shared_down=iq4_nl*7+q5_k*1,{_HEAD}",
    "iq4_xs": f"iq4_xs,qkv=iq4_xs*5+q5_k*1,down=iq4_xs*7+q5_k*1,experts=iq4_xs*23+q5_k*1,"
    f"shared_down=iq4_xs*7+q5_k*1,{_HEAD}",
    "mxfp4_moe": f"{_EVERYWHERE.format('q8_0')},experts=mxfp4",
}
"""The formats of the parts of a mix, as `weight_format` reads them. The embedding and the latent have the
format of most layers.

Source: llama_tensor_get_type_impl of src/llama-quant.cpp as of llama-cpp-python 0.3.36, without an importance
matrix. Some layers have more bits than others, such as half of the layers (use_more_bits) or the first
eighth. In `qkv` and `state_in`, some columns have more bits. The shares of these columns in `qkv` are those
of a model with four query heads per KV head, in which the values are a sixth of the columns. The shares in
`state_in` are those of Qwen3.5.
"""
MEANS = {
    "ud-q2_k_xl": "3.13bpw",
    "ud-q3_k_xl": "3.87bpw",
    "ud-q4_k_xl": "4.88bpw",
    "ud-q6_k_xl": "7.01bpw",
    "ud-q8_k_xl": "9.6bpw",
}
"""Mean bits per weight of a mix that differs between files.

Source: size over parameters of one model in Q2 and Q6, two in Q3 (3.54, 4.2), six in Q4 (4.60 to 5.29) and
four in Q8 (8.83 to 10.24), in sudoingX/qwen38-mtp@c7bc4153, lhl/strix-halo-testing@5ee14b5b,
kyuz0/amd-strix-halo-toolboxes@d1a34bee and kyuz0/amd-r9700-ai-toolboxes@8ad62bcd. None of them printed the
size of Q5.
"""
BESIDE_EXPERTS = {"ud-q4_k_xl": "q8_0,experts=5.23bpw"}
"""Formats of such a mix for a model with routed experts, in files since December 2025. All other tensors are
q8_0. Source: the sizes of four files, which leave 4.9, 5.1, 5.35 and 5.6 bits to the experts. This agrees
with a mix of q4_k and q5_k. If rows are not a multiple of 256, it is a mix of q5_0 and q5_1.
"""
MEANT = {"f16": "fp16", "f32": "fp32"} | {f"q{bits}_k_xl": f"ud-q{bits}_k_xl" for bits in range(2, 9)}
"""The word in this package for a word of llama.cpp's users for a mix, if the two differ."""


def plain_of(name: str) -> str | None:
    """The mix of llama.cpp that is used in place of one of Unsloth's mixes of unknown size. The result is
    None for any other name.
    """
    word = MEANT.get(name, name)
    if not word.startswith("ud-") or word in MEANS:
        return None
    plain = word.removeprefix("ud-").replace("_k_xl", "_k_m")
    return plain if plain in MIXES or plain in BLOCKS else None


def of_mix(name: str) -> str | None:
    """The formats of a mix, or of a mean over a whole file (``4.9bpw``). The result is None for any other
    name.
    """
    word = MEANT.get(name, name)
    plain = plain_of(word) or word
    mean = MEANS.get(plain, plain)
    if mean.endswith("bpw"):
        return _EVERYWHERE.format(mean)
    mix = MIXES.get(plain)
    if mix is None and plain != word:
        mix = f"{plain},{_HEAD}"
    return mix and mix.format(mix.partition(",")[0])


USUAL_MIX = "q4_k_m"
"""The mix that llama.cpp downloads from a repository by default (``-hf``, common/arg.cpp of 0c1e57098)."""
CONVERTED = {"bf16,experts=mxfp4": "mxfp4_moe"}
"""The mix to which checkpoints with these formats are converted (ggml-org/gpt-oss-120b-GGUF)."""
STAND_IN = {
    **dict.fromkeys(("int8", "fp8", "mxfp8", "w8a8", "8bit"), "q8_0"),
    **dict.fromkeys(("int4", "awq", "gptq", "nf4", "w4a16", "autoround", "4bit"), USUAL_MIX),
    **dict.fromkeys(("int6", "6bit"), "q6_k"),
    **dict.fromkeys(("int5", "5bit"), "q5_k_m"),
    **dict.fromkeys(("int3", "3bit"), "q3_k_m"),
    **dict.fromkeys(("int2", "2bit"), "q2_k"),
}
"""The mix with the same number of bits, by the first word of a format that llama.cpp does not have."""


def in_gguf(weights: str, experts: bool = False) -> str:
    """Converts a value of `--weights` to llama.cpp's formats. Formats of named parts remain unchanged.

    - experts: whether the model has routed experts.
    """
    word = weights.strip().lower()
    if experts:
        weights = BESIDE_EXPERTS.get(MEANT.get(word, word), weights)
    if "," in weights:
        return weights
    return STAND_IN.get(weights.strip().lower().partition("-")[0], weights)
