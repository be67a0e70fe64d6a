"""Speculative decoding: acceptance, chains and trees of drafted tokens, memory, and the uncertainty of a
speedup.

This package imports the names that most answers need. The modules on trees and on confidence are loaded only
when they are used.
"""

from perfmodel.speculation.acceptance import (
    Acceptance,
    alpha_from_tokens_per_iteration,
    tokens_per_iteration,
)
from perfmodel.speculation.accounts import DEFAULT_MEMORY_FRACTION, Account, ServerSettings, account_of
from perfmodel.speculation.capacity import KVCapacity, Memory, fraction_of, kv_cache_of, memory_of
from perfmodel.speculation.changed_constants import with_calibration, with_values
from perfmodel.speculation.counted import NONE_NEEDED, Rollback
from perfmodel.speculation.evidence import is_beyond_measured_context, is_measured, is_transferred
from perfmodel.speculation.intervals import (
    Interval,
    chance_above_one,
    interval_ends,
    interval_of,
    interval_of_speedup,
    interval_of_timed,
    log_middle,
    speedup_interval,
)
from perfmodel.speculation.iteration import Passes, check_draft_length, speedups
from perfmodel.speculation.lengths import (
    DEFAULT_BATCH_RANGE,
    ContextLengths,
    context_lengths,
    inflection_context,
    memory_bound_context,
)
from perfmodel.speculation.prediction import DEFAULT_MAX_GAMMA, Prediction, predict
from perfmodel.speculation.remembered import once
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.uncertainty import (
    acceptance_log_error,
    iteration_log_error,
    log_error,
    ratio_log_error,
    step_log_error,
)
from perfmodel.speculation.widening import doublings, widening
from perfmodel.speculation.workload import MAX_BATCH, MAX_CONTEXT, MAX_GAMMA, Workload

__all__ = [
    "DEFAULT_BATCH_RANGE",
    "DEFAULT_MAX_GAMMA",
    "DEFAULT_MEMORY_FRACTION",
    "MAX_BATCH",
    "MAX_CONTEXT",
    "MAX_GAMMA",
    "Account",
    "KVCapacity",
    "ServerSettings",
    "account_of",
    "fraction_of",
    "kv_cache_of",
    "NONE_NEEDED",
    "Acceptance",
    "ContextLengths",
    "Interval",
    "Memory",
    "Passes",
    "Prediction",
    "Rollback",
    "Scenario",
    "Workload",
    "acceptance_log_error",
    "alpha_from_tokens_per_iteration",
    "check_draft_length",
    "context_lengths",
    "doublings",
    "inflection_context",
    "chance_above_one",
    "interval_ends",
    "interval_of",
    "interval_of_speedup",
    "interval_of_timed",
    "is_beyond_measured_context",
    "is_measured",
    "is_transferred",
    "iteration_log_error",
    "log_error",
    "log_middle",
    "memory_bound_context",
    "memory_of",
    "once",
    "predict",
    "ratio_log_error",
    "speedup_interval",
    "speedups",
    "step_log_error",
    "tokens_per_iteration",
    "widening",
    "with_calibration",
    "with_values",
]
