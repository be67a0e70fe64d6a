"""The formats of all matrices of a model. One format applies to the layers. Parts or single GEMMs may have
their own formats.
"""

from collections.abc import Collection

from perfmodel.errors import InputError, refuse
from perfmodel.immutable import Immutable
from perfmodel.specs.models.format_words import layer_shares, one_format
from perfmodel.specs.models.formats import WEIGHT_FORMATS, Format
from perfmodel.specs.models.ggml import of_mix
from perfmodel.specs.models.mlx import of_bits

PARTS = {
    "attention": ("qkv", "o", "qkv_down", "q_up", "o_down"),
    "indexer": ("index_q",),
    "recurrent": ("state_in", "state_out"),
    "mlp": ("gate_up", "down"),
    "shared": ("shared_gate_up", "shared_down", "latent_in", "latent_out"),
    "experts": ("experts",),
    "router": ("router",),
    "latent": ("absorb_k", "absorb_v"),
    "index_k": ("index_k",),
    "compress": ("compress",),
    "streams": ("streams",),
    "lm_head": ("lm_head",),
    "embedding": ("embedding",),
    "mtp": ("mtp",),
}
"""The GEMMs of each part of a model, with the names of `perfmodel ops`."""
KEPT = ("router", "latent", "index_k", "compress", "streams", "lm_head", "embedding")
"""Parts that remain at 16 bits unless they are named.

Checkpoints leave out router, LM head and embedding. vLLM holds the up-projections of a latent and the keys of
an indexer in bf16 regardless of their stored format (model_executor/layers/attention/mla_attention.py,
models/deepseek_v2.py).
"""
_PART_OF = {tensor: part for part, tensors in PARTS.items() for tensor in tensors}


class Weights(Immutable):
    """The formats of all matrices of a model. `base` applies to the layers. Parts or single GEMMs may have
    their own formats.

    - parts: pairs of a part or GEMM and its own format.
    - typed: the text that the user typed, if it names a mix of formats.
    """

    base: Format
    parts: tuple[tuple[str, Format], ...] = ()
    typed: str = ""

    def of(self, tensor: str) -> Format:
        """The format of one GEMM. A GEMM may have its own format, or else the format of its part. Without
        these, the format is bf16 for parts that usually remain at 16 bits, and the format of the layers for
        all other parts.
        """
        named = self.by_part()
        part = _PART_OF.get(tensor, tensor)
        for name in (tensor, part):
            if name in named:
                return named[name]
        if part in KEPT and self.base.bytes_per_value < 2.0:
            return WEIGHT_FORMATS["bf16"]
        return self.base

    def by_part(self) -> dict[str, Format]:
        """The formats of the parts and GEMMs that have their own format, by name."""
        return dict(self.parts)

    @property
    def name(self) -> str:
        """The formats as a text that `weight_format` reads."""
        spelled = ",".join([self.base.name, *(f"{part}={form.name}" for part, form in self.parts)])
        return self.typed or spelled

    @property
    def computes(self) -> tuple[str, ...]:
        """The formats in which the GEMMs compute. The format of the layers comes first."""
        return tuple(dict.fromkeys([self.base.compute, *(form.compute for _, form in self.parts)]))

    def within(self, peaks: Collection[str], wide_mxfp4: bool = False) -> "Weights":
        """The formats as a device with these peaks runs them. A format without a peak on the device becomes
        weight-only.

        - wide_mxfp4: whether MXFP4 experts keep 16-bit activations on a device with an fp4 peak.
        """
        base = _on_device(self.base, peaks, wide_mxfp4)
        parts = tuple((part, _on_device(form, peaks, wide_mxfp4)) for part, form in self.parts)
        return Weights(base, parts, self.typed if parts == self.parts else "")


BF16 = Weights(WEIGHT_FORMATS["bf16"])
"""Every matrix in bf16."""


def _on_device(form: Format, peaks: Collection[str], wide_mxfp4: bool) -> Format:
    """A format as a device with these peaks runs it. If the format differs by layer, this applies to each
    of its formats.
    """
    if "+" in form.name:
        shares = layer_shares(form.name, "--weights")
        run = [f"{_on_device(share.form, peaks, wide_mxfp4).name}*{share.layers}" for share in shares]
        return one_format("+".join(run), "--weights")
    if form.name == "mxfp4" and "fp4" in peaks and not wide_mxfp4:
        # most engines run gpt-oss's experts on 8-bit activations on Blackwell
        return WEIGHT_FORMATS["mxfp4-a8"]
    return form if form.compute in peaks else form.weight_only


def weight_format(name: str, flag: str = "--weights") -> Weights:
    """Reads a value of `--weights`, ``FORMAT[,PART=FORMAT...]``. FORMAT is the format of the layers'
    matrices. PART is a part (`PARTS`) or a single GEMM with its own format.

    - ``fp8``, ``fp8-block`` (128 x 128), ``mxfp8``, ``int8``, ``nvfp4`` and ``mxfp4-a8`` also quantise
      activations and compute in that format. With the suffix ``-wo`` they are weight-only and compute in
      bf16.
    - ``mxfp4``, ``int4``, ``nf4`` and ``nf4-dq`` (bitsandbytes) are weight-only.
    - ``intB-gN`` has integers of B = 2 to 8 bits, with a 16-bit scale and zero per N weights. ``intB-gN-sym``
      has a scale without a zero, and ``awq-gN`` a scale and a 4-bit zero. All three are weight-only.
    - With the suffix ``-a8``, these formats compute on 8-bit activations.
    - ``q4_k_m`` is a mix of llama.cpp (`ggml.MIXES`). ``4.9bpw`` is a GGUF file with a mean of 4.9 bits per
      weight. ``q4_k`` is the format of tensors in such a file. All are weight-only.
    - ``4bit`` and ``8bit-g32`` are formats of MLX checkpoints (`mlx.of_bits`).
    - ``A*3+B*75`` means A in 3 layers and B in 75 layers.

    Parts in `KEPT` remain at 16 bits unless they are named. Raises InputError for an unknown name.
    """
    base_word, *own_words = (word.strip().lower() for word in name.split(","))
    mix = of_mix(base_word) or of_bits(base_word)
    base, *mixed = (mix or base_word).split(",")
    parts = _part_formats(mixed, name, flag) | _part_formats(own_words, name, flag)
    typed = ",".join([base_word, *own_words]) if mix else ""
    return Weights(one_format(base, flag), tuple(parts.items()), typed)


def _part_formats(words: list[str], name: str, flag: str) -> dict[str, Format]:
    """The format of each part or GEMM, from words such as ``PART=FORMAT``. Raises InputError, which quotes
    `name`.
    """
    formats: dict[str, Format] = {}
    for word in words:
        part, equals, form = (side.strip() for side in word.partition("="))
        if not equals or (part not in PARTS and part not in _PART_OF):
            raise refuse(
                flag,
                None,
                f"FORMAT[,PART=FORMAT...], PART one of {', '.join(PARTS)} or a GEMM of `perfmodel ops`",
                name,
            )
        if part in formats:
            raise InputError(f"{flag}: {part} is given twice")
        formats[part] = one_format(form, flag)
    return formats
