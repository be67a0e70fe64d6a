"""Reads files of devices, models, calibrations, published measurements, number formats and units.

Import the classes that costs, drafts and answers use most from this package. Import all other names from
their modules.
"""

from perfmodel.specs.acceptance.acceptance_library import acceptance_library
from perfmodel.specs.acceptance.acceptance_rows import AcceptanceRow, UnknownAcceptance, find_acceptance
from perfmodel.specs.acceptance.library_row import short_name
from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import FINITE, Frozen, Positive
from perfmodel.specs.calibrations.by_engine import calibration_of, devices_of
from perfmodel.specs.calibrations.calibration import CONSTANTS, Calibration
from perfmodel.specs.calibrations.constants import Constant, Work, interpolated
from perfmodel.specs.calibrations.engine_words import (
    ENGINES,
    LLAMACPP,
    MLX,
    engine_of,
    parse_engine,
    serving_engine_of,
)
from perfmodel.specs.calibrations.fit_errors import (
    COVERAGE,
    MAX_LOG_RMS,
    MeasuredRange,
    Quantity,
    Relation,
    Scatter,
    StatedFit,
    Z,
    square,
)
from perfmodel.specs.calibrations.loading import load_calibration, over_host, read_kernels, with_engine
from perfmodel.specs.devices.gpu import GPUSpec, modelled_power_limit
from perfmodel.specs.devices.loading import load_gpu
from perfmodel.specs.engines.backends import attention_of, engine_attention
from perfmodel.specs.engines.engines import (
    ONLY,
    VERSION,
    VERSION_SEPARATOR,
    Engines,
    architecture_of,
    borrowed_scopes,
    release,
)
from perfmodel.specs.engines.served_drafts import Defect
from perfmodel.specs.engines.source_errors import device_class, source_errors
from perfmodel.specs.engines.stacks import serving_engines
from perfmodel.specs.models.components import (
    MLA,
    AttentionHeads,
    Indexer,
    MoE,
    Projection,
    RopeScaling,
)
from perfmodel.specs.models.formats import WEIGHT_FORMATS, Format, kv_format
from perfmodel.specs.models.ggml import in_gguf
from perfmodel.specs.models.gguf_names import is_gguf
from perfmodel.specs.models.hub_ids import hub_id, served_id
from perfmodel.specs.models.loading import load_model
from perfmodel.specs.models.model import ModelSpec
from perfmodel.specs.models.precision import Precision, precision_of
from perfmodel.specs.models.recurrent import LinearAttention
from perfmodel.specs.models.weights import BF16, Weights, weight_format

__all__ = [
    "acceptance_library",
    "device_class",
    "source_errors",
    "AcceptanceRow",
    "AttentionHeads",
    "BF16",
    "CONSTANTS",
    "COVERAGE",
    "Calibration",
    "Constant",
    "VERSION_SEPARATOR",
    "Defect",
    "LLAMACPP",
    "MLX",
    "ENGINES",
    "Engines",
    "FINITE",
    "Format",
    "Frozen",
    "GPUSpec",
    "Indexer",
    "LinearAttention",
    "MAX_LOG_RMS",
    "MLA",
    "MeasuredRange",
    "MoE",
    "ModelSpec",
    "ONLY",
    "Positive",
    "Precision",
    "Projection",
    "Quantity",
    "Relation",
    "RopeScaling",
    "Scatter",
    "StatedFit",
    "UnknownAcceptance",
    "VERSION",
    "WEIGHT_FORMATS",
    "Weights",
    "Work",
    "Z",
    "architecture_of",
    "borrowed_scopes",
    "calibration_of",
    "devices_of",
    "attention_of",
    "engine_attention",
    "engine_of",
    "files",
    "find_acceptance",
    "hub_id",
    "in_gguf",
    "interpolated",
    "is_gguf",
    "kv_format",
    "load_calibration",
    "load_gpu",
    "load_model",
    "modelled_power_limit",
    "over_host",
    "parse_engine",
    "precision_of",
    "read_kernels",
    "release",
    "served_id",
    "serving_engine_of",
    "serving_engines",
    "short_name",
    "square",
    "weight_format",
    "with_engine",
]
