"""Own measurements: their plans, and the content (`schema`), location (`store`) and statistics (`summary`) of
their records.
"""

from perfmodel.validate.records.checksum import check_record, stamped
from perfmodel.validate.records.code_version import commit, version
from perfmodel.validate.records.plan import (
    MIN_SAMPLES,
    Mode,
    Plan,
    load_plan,
    model_reference,
    plan_names,
    spec_of,
)
from perfmodel.validate.records.plan_points import PlanPoint
from perfmodel.validate.records.schema import SAMPLES, SCHEMA_VERSION, THREAD_TIME, KernelRow, PointRow
from perfmodel.validate.records.store import (
    BUNDLED,
    RESULTS,
    Record,
    latest,
    machine_folder,
    newest,
    read_record,
    records,
    withdrawn,
)
from perfmodel.validate.records.summary import (
    half_width,
    is_quiet,
    points,
    quiet_line,
    ratios,
    scatter,
    speedup_half_widths,
)

__all__ = [
    "BUNDLED",
    "KernelRow",
    "MIN_SAMPLES",
    "Mode",
    "Plan",
    "PlanPoint",
    "PointRow",
    "RESULTS",
    "Record",
    "SAMPLES",
    "SCHEMA_VERSION",
    "THREAD_TIME",
    "check_record",
    "stamped",
    "commit",
    "half_width",
    "is_quiet",
    "latest",
    "load_plan",
    "machine_folder",
    "model_reference",
    "newest",
    "plan_names",
    "points",
    "quiet_line",
    "ratios",
    "read_record",
    "records",
    "scatter",
    "spec_of",
    "speedup_half_widths",
    "version",
    "withdrawn",
]
