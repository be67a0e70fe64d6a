"""Reads files: devices, models, calibrations, published rows, number formats and units.

The nouns that costs, drafts and answers name are imported from here, all else from its own module.
"""

from perfmodel.specs.acceptance.acceptance_library import published_drafts, short_name
from perfmodel.specs.acceptance.acceptance_rows import AcceptanceRow, UnknownAcceptance, find_acceptance
from perfmodel.specs.calibrations.by_engine import ELSEWHERE, ENGINES, calibration_of, engine_of, parse_engine
from perfmodel.specs.calibrations.calibration import CONSTANTS, Calibration, load_calibration, over_host
from perfmodel.specs.calibrations.constants import Constant, interpolated
from perfmodel.specs.calibrations.fit_errors import COVERAGE, Relation, Z
from perfmodel.specs.devices.gpu import GPUSpec, check_power_limit, load_gpu
from perfmodel.specs.engines.attention import engine_attention
from perfmodel.specs.engines.engines import DRIFT, release
from perfmodel.specs.engines.serving import Defect, serving_engines
from perfmodel.specs.engines.source_errors import kernels_of, step_errors
from perfmodel.specs.models.components import MLA, AttentionHeads, Indexer, LinearAttention, Projection
from perfmodel.specs.models.formats import (
    BF16,
    WEIGHT_FORMATS,
    Format,
    Precision,
    Weights,
    kv_format,
    weight_format,
)
from perfmodel.specs.models.ggml import in_gguf, is_gguf
from perfmodel.specs.models.model import ModelSpec, hub_id, load_model, precision_of, served_id

__all__ = [
    "AcceptanceRow",
    "AttentionHeads",
    "BF16",
    "CONSTANTS",
    "COVERAGE",
    "Calibration",
    "Constant",
    "DRIFT",
    "Defect",
    "ELSEWHERE",
    "ENGINES",
    "Format",
    "GPUSpec",
    "Indexer",
    "LinearAttention",
    "MLA",
    "ModelSpec",
    "Precision",
    "Projection",
    "Relation",
    "UnknownAcceptance",
    "WEIGHT_FORMATS",
    "Weights",
    "Z",
    "calibration_of",
    "check_power_limit",
    "engine_attention",
    "engine_of",
    "find_acceptance",
    "hub_id",
    "in_gguf",
    "interpolated",
    "is_gguf",
    "kernels_of",
    "kv_format",
    "load_calibration",
    "load_gpu",
    "load_model",
    "over_host",
    "parse_engine",
    "precision_of",
    "published_drafts",
    "release",
    "served_id",
    "serving_engines",
    "short_name",
    "step_errors",
    "weight_format",
]
