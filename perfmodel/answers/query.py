"""A question in the user's words, and the scenario that it resolves to."""

from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from perfmodel.answers.inflection import DEFAULT_BATCH_RANGE
from perfmodel.costs import check_tensor_parallel
from perfmodel.costs.roofline import Machine
from perfmodel.drafts import make_draft
from perfmodel.errors import InputError, refuse
from perfmodel.kv import parse_kv
from perfmodel.specs.acceptance_file import read_acceptance
from perfmodel.specs.acceptance_rows import find_acceptance
from perfmodel.specs.calibration import load_calibration
from perfmodel.specs.formats import Precision, kv_format
from perfmodel.specs.gpu import load_gpu
from perfmodel.specs.model import load_model, precision_of
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.capacity import DEFAULT_MEMORY_FRACTION
from perfmodel.speculation.chain import DEFAULT_MAX_GAMMA
from perfmodel.speculation.scenario import Accounting, Rollback, Scenario
from perfmodel.speculation.workload import MAX_BATCH, MAX_GAMMA

NO_ACCEPTANCE = "none needed at gamma 0"


@dataclass(frozen=True)
class Query:
    """One point of a question; every field is a flag of ``perfmodel whatif`` (underscores for dashes).

    gamma None seeks the best one from 0 to max_gamma. Of alpha, tokens_per_iteration (meant at `gamma`) and
    acceptance (a file) at most one may be given; none looks for a published row of exactly this pair and budget.
    weights and kv_dtype None take the checkpoint's own formats.
    """

    model: str
    hardware: str
    batch: float
    context: float
    gamma: int | None = None
    tp: int = 1
    draft: str = "self"
    draft_tp: int | None = None
    draft_kv: str = "full"
    alpha: float | None = None
    tokens_per_iteration: float | None = None
    acceptance: str | None = None
    weights: str | None = None
    draft_weights: str | None = None
    kv_dtype: str | None = None
    draft_kv_dtype: str | None = None
    kv_reread: float | None = None
    calibration: str | None = None
    kv_page: int = 1
    accounting: Accounting = "ragged"
    new_tokens: int = 128
    topk_reuse: float = 0.0
    state_rollback: Rollback = "keep"
    max_gamma: int = DEFAULT_MAX_GAMMA
    batch_range: tuple[float, float] = field(default=DEFAULT_BATCH_RANGE)
    memory_fraction: float = DEFAULT_MEMORY_FRACTION

    def as_dict(self) -> dict[str, Any]:
        """The question with all defaults, for the answer."""
        return asdict(self)


def resolve(query: Query) -> Scenario:
    """Read what the question names and build its scenario. Raises InputError for whatever is unknown or impossible."""
    check_numbers(query)
    target, gpu = load_model(query.model), load_gpu(query.hardware)
    calibration = load_calibration(gpu.calibration if query.calibration is None else query.calibration)
    precision = precision_of(target, gpu.peak, query.weights, query.kv_dtype)
    draft_kv_type = precision.kv
    if query.draft_kv_dtype is not None:
        draft_kv_type = kv_format(query.draft_kv_dtype, "--draft-kv-dtype")
    check_tensor_parallel(target, query.tp)
    draft = make_draft(
        query.draft,
        target,
        Precision(precision.weights, draft_kv_type),
        query.tp,
        parse_kv(query.draft_kv),
        tensor_parallel=query.draft_tp,
        weights=query.draft_weights,
        own_on=gpu.peak if query.weights is None else None,
    )
    check_tensor_parallel(draft.model, draft.tensor_parallel, "--draft-tp")
    if draft.tensor_parallel > query.tp:
        raise refuse("--draft-tp", None, f"at most the target's --tp {query.tp}", draft.tensor_parallel)
    for weights, flag in ((precision.weights, "--weights"), (draft.precision.weights, "--draft-weights")):
        gpu.check_peaks(weights.computes, flag)
    return Scenario(
        target=target,
        machine=Machine(gpu, calibration, query.tp, query.kv_reread),
        precision=precision,
        draft=draft,
        acceptance=_acceptance(query, target.name, draft.name, draft.kv.name, draft.kv.budget),
        accounting=query.accounting,
        new_tokens=query.new_tokens,
        kv_page=query.kv_page,
        topk_reuse=query.topk_reuse,
        state_rollback=query.state_rollback,
    )


def check_numbers(query: Query) -> None:
    """Refuse numbers outside what the flags allow."""
    low, high = query.batch_range
    if query.alpha is not None and not 0 <= query.alpha <= 1:
        raise refuse("--alpha", None, "a number from 0 to 1", query.alpha)
    if query.kv_reread is not None and not 1 <= query.kv_reread <= 1025:
        raise refuse("--kv-reread", None, "a number from 1 (the cache is read once) to gamma + 1", query.kv_reread)
    if query.kv_reread is not None and query.gamma is not None and query.kv_reread > query.gamma + 1:
        raise refuse("--kv-reread", None, f"at most gamma + 1 = {query.gamma + 1}", query.kv_reread)
    if not 0 < query.memory_fraction <= 1:
        raise refuse("--memory-fraction", None, "a number above 0 and at most 1", query.memory_fraction)
    if not 1 <= low < high <= MAX_BATCH:
        raise refuse("--batch-range", None, f"two rising numbers from 1 to {MAX_BATCH:.0f}", f"{low}..{high}")
    if query.accounting not in get_args(Accounting):
        raise refuse("--accounting", None, f"one of {', '.join(get_args(Accounting))}", query.accounting)
    if not 0 <= query.topk_reuse <= 1:
        raise refuse("--topk-reuse", None, "a number from 0 to 1", query.topk_reuse)
    if query.state_rollback not in get_args(Rollback):
        raise refuse("--state-rollback", None, f"one of {', '.join(get_args(Rollback))}", query.state_rollback)
    if not 1 <= query.kv_page <= 2**20:
        raise refuse("--kv-page", None, "a whole number of tokens from 1 to 2^20", query.kv_page)
    if not 1 <= query.new_tokens <= 100_000:
        raise refuse("--new-tokens", None, "a whole number from 1 to 100000", query.new_tokens)
    if not 0 <= query.max_gamma <= MAX_GAMMA or query.max_gamma != int(query.max_gamma):
        raise refuse("--max-gamma", None, "a whole number from 0 to 1024", query.max_gamma)


def _acceptance(query: Query, target: str, draft: str, kv_name: str, kv_budget: int | None) -> Acceptance:
    given = [n for n in ("alpha", "tokens_per_iteration", "acceptance") if getattr(query, n) is not None]
    flags = " and ".join("--" + n.replace("_", "-") for n in given)
    if len(given) > 1:
        raise InputError(f"{flags}: only one of them may be given")
    if query.alpha is not None:
        return Acceptance.from_alpha(query.alpha, source="--alpha")
    if query.tokens_per_iteration is not None:
        if query.gamma is None:
            raise InputError("--tokens-per-iteration: needs --gamma N, the draft length at which it was measured")
        if query.gamma == 0:
            raise InputError("--tokens-per-iteration: must be measured at --gamma 1 or more, given gamma 0")
        if not 1 <= query.tokens_per_iteration <= query.gamma + 1:
            allowed = f"a number from 1 to gamma + 1 = {query.gamma + 1}"
            raise refuse("--tokens-per-iteration", None, allowed, query.tokens_per_iteration)
        return Acceptance.from_tokens_per_iteration(
            query.tokens_per_iteration, query.gamma, source="--tokens-per-iteration"
        )
    if query.gamma == 0:
        return Acceptance.from_alpha(0.0, source=NO_ACCEPTANCE)
    rows = read_acceptance(query.acceptance) if query.acceptance is not None else None
    return Acceptance.from_row(find_acceptance(target, draft, kv_name, kv_budget, query.context, rows))
