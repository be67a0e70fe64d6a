"""The number formats in which a model is served: its weights, its cache and its arithmetic."""

from collections.abc import Collection

from perfmodel.immutable import Immutable
from perfmodel.specs.models.formats import Format, kv_format
from perfmodel.specs.models.model import ModelSpec
from perfmodel.specs.models.weights import Weights, weight_format


class Precision(Immutable):
    """The formats of the weights and the cache of one model. Activations are bf16, or fp32 if the weights are
    fp32.

    - index_compute: format in which the scores of an indexer are computed.
    """

    weights: Weights
    kv: Format
    index_compute: str = "bf16"

    @property
    def activation_bytes(self) -> float:
        """Bytes of one activation value."""
        return 4.0 if self.weights.base.compute == "fp32" else 2.0

    @property
    def narrow_kv(self) -> bool:
        """Whether values of the cache have fewer than 16 bits. Engines have other kernels for such caches."""
        return self.kv.bytes_per_value < 2.0

    @property
    def attention_compute(self) -> str:
        """The format in which attention computes, which determines its peak FLOP/s."""
        return "fp32" if self.weights.base.compute == "fp32" else self.kv.compute


def precision_of(
    model: ModelSpec,
    peaks: Collection[str],
    weights: str | None = None,
    kv_dtype: str | None = None,
    *,
    wide_mxfp4: bool = False,
    weight_only: bool = False,
) -> Precision:
    """The formats in which a model is served. These are the named formats, or else the formats of the model's
    checkpoint.

    - peaks: formats that have a peak on the device. If a format of the checkpoint has no peak, its weights
      are used weight-only.
    - wide_mxfp4: see `Weights.within`.
    - weight_only: whether named formats without a peak are also used weight-only, as in some engines.
    """
    if weights is None:
        formats = weight_format(model.weights).within(peaks, wide_mxfp4)
    elif weight_only:
        formats = weight_format(weights).within(peaks, wide_mxfp4=True)
    else:
        formats = weight_format(weights)
    cache = kv_format(model.kv_dtype if kv_dtype is None else kv_dtype)
    return Precision(formats, cache, "fp8" if "fp8" in peaks else "bf16")
