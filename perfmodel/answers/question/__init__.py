"""Questions and their arguments. A question resolves to a scenario, which has the specification of the model,
the devices and the draft. Other packages import these names from here.
"""

from perfmodel.answers.question.acceptance_of import (
    acceptance_by_context,
    known_head,
    measured_acceptance,
    published_head,
)
from perfmodel.answers.question.caveats import (
    NO_INTERVAL,
    Shown,
    common_doubts,
    doubts,
    of_draft,
)
from perfmodel.answers.question.defects import defect_warning, known_defects, slowing
from perfmodel.answers.question.device_caveats import of_power
from perfmodel.answers.question.engine_support import (
    RunsIn,
    draft_word,
    runs_in,
    runs_trees,
    served_draft,
    usual_draft,
)
from perfmodel.answers.question.named import Named
from perfmodel.answers.question.placement import check_head
from perfmodel.answers.question.query import OF_SERVER, CommonOptions, Options, Query, acceptances_of
from perfmodel.answers.question.rates import parse_rate
from perfmodel.answers.question.resolving import (
    given_rate,
    length_of,
    resolve,
    resolve_costs,
    with_draft,
)

__all__ = [
    "NO_INTERVAL",
    "OF_SERVER",
    "CommonOptions",
    "Named",
    "Options",
    "Query",
    "RunsIn",
    "Shown",
    "acceptance_by_context",
    "acceptances_of",
    "check_head",
    "common_doubts",
    "doubts",
    "draft_word",
    "given_rate",
    "length_of",
    "measured_acceptance",
    "of_draft",
    "of_power",
    "parse_rate",
    "known_head",
    "published_head",
    "resolve",
    "resolve_costs",
    "runs_in",
    "runs_trees",
    "defect_warning",
    "known_defects",
    "served_draft",
    "slowing",
    "usual_draft",
    "with_draft",
]
