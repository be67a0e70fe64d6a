"""Repositories of quantised checkpoints, by model and format."""

from perfmodel.errors import InputError
from perfmodel.specs.models.checkpoint_rows import Checkpoint, listed_checkpoints
from perfmodel.specs.models.hub_ids import hub_id
from perfmodel.specs.models.names import base_name

FOUR_BIT_GROUPS = ("int4-g128", "int4-g128-sym", "awq-g128")
"""Formats of 4 bits in groups of 128 weights. They differ only in their zeros, a thousandth of the bytes."""
FOUR_BIT_SMALL_GROUPS = ("int4-g32", "int4-g32-sym")
"""The same in groups of 32."""
FP8 = ("fp8", "fp8-block")
"""Formats of FP8 weights. They differ only in their scales."""
ALIKE = (FOUR_BIT_GROUPS, FOUR_BIT_SMALL_GROUPS, FP8)


OF_ONE_MAKER = {"nvidia": "NVIDIA"}
"""Owner of repositories -> the maker on whose devices alone engines read them: vLLM's platform for ROCm does
not have ModelOpt's quantisation (platforms/rocm.py, supported_quantization; recalled).
"""


def checkpoint(model_id: str, weights: str, vendor: str) -> Checkpoint | None:
    """A listed checkpoint of a model in a format, in this format but for some parts, or in one of the same
    size; None without one.

    model_id: any repository of the model. vendor: the maker of the device.
    """
    thinks = _thinks(model_id)
    of_model = [row for row in listed_checkpoints() if _same(row.model, model_id)]
    of_model = [row for row in of_model if _thinks(row.checkpoint) == thinks]
    of_model = [row for row in of_model if _maker(row.checkpoint) in ("", vendor)]
    for of in (_whole, main_format):
        for formats in ((weights,), alike(weights)):
            found = next((row for row in of_model if of(row.weights) in formats), None)
            if found is not None:
                return found
    return None


def alike(weights: str) -> tuple[str, ...]:
    """The formats of the same size as one, itself included."""
    return next((formats for formats in ALIKE if weights in formats), (weights,))


def main_format(weights: str) -> str:
    """The format of most weights in a mix: that of the experts or MLPs, if these have one of their own."""
    first, *parts = weights.split(",")
    named = dict(part.split("=") for part in parts)
    return named.get("experts", named.get("mlp", first)).removesuffix("-wo")


def _maker(name: str) -> str:
    """The maker on whose devices alone engines read a repository; empty for any."""
    return OF_ONE_MAKER.get(name.partition("/")[0], "")


def _thinks(name: str) -> bool:
    """Whether a repository is of the variant that thinks, which is another model."""
    return "thinking" in name.casefold()


def _whole(weights: str) -> str:
    return weights


def _same(name: str, model_id: str) -> bool:
    """Whether a bundled name is that of the model in a repository."""
    try:
        listed = hub_id(name) or name
    except InputError:
        listed = name
    return base_name(listed) == base_name(model_id)
