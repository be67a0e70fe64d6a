"""The formats in which a model is served: those of its weights, its cache and its arithmetic."""

from collections.abc import Collection

from perfmodel.immutable import Immutable
from perfmodel.specs.models.formats import Format, kv_format
from perfmodel.specs.models.model import ModelSpec
from perfmodel.specs.models.weights import Weights, weight_format


class Precision(Immutable):
    """Formats of one model's weights and cache. Activations are bf16, or fp32 with fp32 weights.

    - index_compute: peak at which an indexer's scores run.
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
        """Whether values of the cache have less than 16 bits; engines have other kernels for such caches."""
        return self.kv.bytes_per_value < 2.0

    @property
    def attention_compute(self) -> str:
        """Peak at which attention runs."""
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
    """The formats in which a model is served: the named ones, else its checkpoint's own.

    - peaks: formats with a peak on the device. Without a peak, the checkpoint's own formats are weight-only.
    - wide_mxfp4: see `Weights.within`.
    - weight_only: whether named formats without a peak are weight-only too, as in some engines.
    """
    if weights is None:
        formats = weight_format(model.weights).within(peaks, wide_mxfp4)
    elif weight_only:
        formats = weight_format(weights).within(peaks, wide_mxfp4=True)
    else:
        formats = weight_format(weights)
    cache = kv_format(model.kv_dtype if kv_dtype is None else kv_dtype)
    return Precision(formats, cache, "fp8" if "fp8" in peaks else "bf16")
