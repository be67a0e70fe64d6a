"""Finds the repository of a quantised checkpoint, by model and weight format."""

import math
from collections.abc import Callable
from functools import cache

from perfmodel.errors import InputError
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.models.checkpoint_rows import Checkpoint, listed_checkpoints
from perfmodel.specs.models.hub_ids import hub_id
from perfmodel.specs.models.names import base_name, thinks
from perfmodel.specs.models.weights import weight_format

FOUR_BIT_GROUPS = ("int4-g128", "int4-g128-sym", "awq-g128", "int4")
"""Formats with 4 bits and groups of 128 weights. They differ only in their scales and zeros, by at most 6 %
of the bytes.
"""
FOUR_BIT_SMALL_GROUPS = ("int4-g32", "int4-g32-sym")
"""Formats of 4 bits in groups of 32 weights."""
FP8 = ("fp8", "fp8-block")
"""Formats of FP8 weights. They differ only in their scales."""
NEAR = math.log(4 / 3)
"""Two sizes are near each other if the logarithm of their ratio is at most this. The limit was chosen by hand
so that it separates formats by bits: 4 and 5 bits are near (q5_k has 1.32 times the bytes of awq-g128), but 4
and 6 bits are not (q6_k has 1.58 times).
"""
ALIKE = (FOUR_BIT_GROUPS, FOUR_BIT_SMALL_GROUPS, FP8)
"""Groups of formats with about the same size."""
Reads = Callable[[str, str], bool]
"""A function that returns whether an engine loads a repository in a format."""
OF_ONE_MAKER = {"nvidia": "NVIDIA"}
"""For an owner of repositories: the only maker of devices on which engines load them. These repositories are
written by ModelOpt, which is not among the quantisations for ROCm of SGLang 0.5.23 (configs/model_config.py,
rocm_supported_quantization) and vLLM (platforms/rocm.py, supported_quantization; from memory).
"""
WITH_FP8_UNITS = ("nvidia",)
"""Owners of repositories whose FP8 checkpoints need devices that compute in FP8. ModelOptFp8Config needs the
compute capability 8.9 in SGLang 0.5.23 (layers/quantization/modelopt_quant.py, get_min_capability) and in
vLLM (from memory). Other FP8 checkpoints run weight-only elsewhere.
"""


def read_by_all(repository: str, weights: str) -> bool:
    """The default value of the argument `reads`: an engine loads every repository."""
    return True


def checkpoint(model_id: str, weights: str, gpu: GPUSpec, reads: Reads = read_by_all) -> Checkpoint | None:
    """A listed checkpoint of a model in a weight format. The result is the first of these:

    1. a checkpoint with exactly this format,
    2. a checkpoint with another format of the same size (`alike`),
    3. a checkpoint with this main format and other formats for some parts,
    4. a checkpoint with another main format of the same size,
    5. None.

    Among the checkpoints of one step, those with a 16-bit cache are preferred.

    - model_id: Hugging Face id of any repository of the model.
    - gpu: the device that runs it.
    """
    of_model = sorted(_of_model(model_id, gpu, reads), key=lambda row: row.kv_dtype != "bf16")
    for compared in (_whole, main_format):
        for formats in ((weights,), alike(weights)):
            found = next((row for row in of_model if compared(row.weights) in formats), None)
            if found is not None:
                return found
    return None


def nearest(model_id: str, weights: str, gpu: GPUSpec, reads: Reads = read_by_all) -> Checkpoint | None:
    """The listed checkpoint of a model whose weights have the most similar size. The result is None if the
    two sizes differ by more than a factor of 4/3. The arguments are those of `checkpoint`.
    """

    def apart(row: Checkpoint) -> float:
        return abs(math.log(_main_bytes(row.weights) / _main_bytes(weights)))

    closest = min(_of_model(model_id, gpu, reads), key=apart, default=None)
    return closest if closest is not None and apart(closest) <= NEAR else None


def _of_model(model_id: str, gpu: GPUSpec, reads: Reads) -> list[Checkpoint]:
    """The listed checkpoints of a model that an engine reads on a device."""
    is_thinking = thinks(model_id)
    base = base_name(model_id)
    of_model = [row for row in listed_checkpoints() if _base_name_of(row.model) == base]
    of_model = [row for row in of_model if thinks(row.checkpoint) == is_thinking]
    of_model = [row for row in of_model if _runs_on(row, gpu)]
    return [row for row in of_model if reads(row.checkpoint, main_format(row.weights))]


def alike(weights: str) -> tuple[str, ...]:
    """All formats with the same size as a format, including this format."""
    return next((formats for formats in ALIKE if weights in formats), (weights,))


def main_format(weights: str) -> str:
    """The format of most weights in a mix of formats. If the experts or MLPs have their own format, it is
    that format. The result has no suffix ``-wo``, because it describes the computation and not the stored
    weights.
    """
    first, *parts = weights.split(",")
    named = dict(part.split("=") for part in parts)
    return named.get("experts", named.get("mlp", first)).removesuffix("-wo")


def _main_bytes(weights: str) -> float:
    """Bytes per value of the format of most weights."""
    return weight_format(main_format(weights)).base.bytes_per_value


def _runs_on(row: Checkpoint, gpu: GPUSpec) -> bool:
    """Whether engines load a checkpoint on a device."""
    owner = row.checkpoint.partition("/")[0]
    if OF_ONE_MAKER.get(owner, gpu.vendor) != gpu.vendor:
        return False
    has_fp8 = any(part.rpartition("=")[2] in FP8 for part in row.weights.split(","))
    return owner not in WITH_FP8_UNITS or not has_fp8 or "fp8" in gpu.peak


def _whole(weights: str) -> str:
    """All formats of a checkpoint, unchanged."""
    return weights


@cache
def _base_name_of(name: str) -> str:
    """The base name of a listed model's repository, or of the name itself if it has no repository."""
    try:
        return base_name(hub_id(name) or name)
    except InputError:
        return base_name(name)
