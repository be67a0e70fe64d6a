"""The configurations that `advise` searches: every draft with every KV method on every layout.

A draft without a measured acceptance is skipped, and the answer lists it. No acceptance is ever assumed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfmodel.answers.advice.accepted_drafts import KnownDraft, accepted_drafts
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.layouts import Layout
from perfmodel.answers.advice.rates_by_draft import draft_and_method, key_of, rates_by_key
from perfmodel.answers.advice.searched_layouts import may_have_groups, searched_layouts, searches_groups
from perfmodel.answers.question import (
    Named,
    Query,
    RunsIn,
    defect_warning,
    resolve,
    resolve_costs,
    runs_in,
    slowing,
)
from perfmodel.answers.question.placement import typed
from perfmodel.answers.question.published_format import undivided
from perfmodel.errors import InputError, as_names
from perfmodel.specs import engine_of, served_id
from perfmodel.speculation import Scenario, memory_of

NO_GROUPS = "groups (DP, EP) over PCIe: no exchange of tokens was measured there; --dp and --ep search them"
"""The reason why parallel groups are not searched on devices without a direct link."""
NO_LAYOUT = (
    "no layout of these devices has the stated --tp, --dp and --ep; --dp and --ep are for models with routed "
    "experts, in engines with such groups"
)
"""The reason why no layout is searched."""


@dataclass(frozen=True, slots=True)
class Skip:
    """A draft and KV method that was not searched, and the reason. The word ``any`` stands for all drafts and
    all methods.
    """

    draft: str
    draft_kv: str
    reason: str

    @classmethod
    def of_all(cls, reason: str) -> "Skip":
        """A skip of all drafts, for example on one layout."""
        return cls("any", "any", reason)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A layout with a draft (or none) and a KV method. The batch and the draft length are chosen later.

    - scenario: one server of the layout.
    - asked: the question to `whatif` about one server with this draft and KV method.
    - rate: the acceptance that the question states for the draft; None if it is looked up.
    - tree_rates: the acceptance that the question states for the children of a tree node, or None.
    - runs: whether the engine runs the draft; None for the baseline, and for research code.
    """

    scenario: Scenario
    layout: Layout
    asked: Query
    rate: str | None = None
    tree_rates: str | None = None
    runs: RunsIn | None = None


@dataclass(frozen=True, slots=True)
class Candidates:
    """All candidates.

    - baselines: one candidate without a draft for each layout.
    - drafted: those with a draft whose acceptance is known.
    - skips: the drafts and layouts that were not searched, with the reason.
    """

    baselines: list[Candidate]
    drafted: list[Candidate]
    skips: list[Skip]

    def left_out(self, query: AdviseQuery) -> tuple[str, ...]:
        """A message for each draft that the question names but that could not be searched on any layout. The
        message gives the reason.
        """
        return self._messages(query, self.drafted, {skip.draft: skip.reason for skip in self.skips})

    def not_run(self, query: AdviseQuery) -> tuple[str, ...]:
        """A message for each draft that the question names but that the engine does not run. The message
        says where the draft runs.
        """
        reasons = {
            candidate.asked.draft: f"{candidate.runs.text} (--any-draft includes such drafts)"
            for candidate in self.drafted
            if candidate.asked.draft is not None and candidate.runs is not None
        }
        return self._messages(query, self.runnable(query), reasons)

    def runnable(self, query: AdviseQuery) -> list[Candidate]:
        """The candidates whose draft may be recommended."""
        return [candidate for candidate in self.drafted if query.may_choose(candidate.runs)]

    @staticmethod
    def _messages(
        query: AdviseQuery, searched: Sequence[Candidate], reasons: Mapping[str, str]
    ) -> tuple[str, ...]:
        """A message for each draft that the question names, unless it is among those that were searched.

        - reasons: draft -> the reason why it was not searched.
        """
        found = {candidate.asked.draft for candidate in searched}
        named = [*(query.draft or ()), *(draft_and_method(key)[0] for key in query.chain_rates)]
        return tuple(
            f"{name} was not searched: {reasons[name]}"
            for name in dict.fromkeys(named)
            if name in reasons and name not in found
        )


def find_candidates(query: AdviseQuery, layouts: Sequence[Layout] | None = None) -> Candidates:
    """Finds the candidates of the question.

    - layouts: the layouts to search; None means all layouts that the question allows.

    A layout is skipped if the model, the engine or the calibration does not allow it. If the question states
    `gpus`, drafts are only added to layouts with memory for at least one sequence. Raises InputError for
    unknown names.
    """
    named = Named.of(query)
    known, unknown = accepted_drafts(query, named)
    named.gpu.check_peaks(named.precision(query).weights.computes, query.hardware)
    candidates = Candidates([], [], [])
    if layouts is None:
        layouts = searched_layouts(query, named.target, named.gpu)
    if not layouts:
        candidates.skips.append(Skip.of_all(_no_layout(query)))
    for layout in layouts:
        _add_layout(query, named, layout, known, candidates)
    skips = [*candidates.skips]
    several = query.gpus not in (None, 1)
    if several and named.target.moe and may_have_groups(query) and not searches_groups(query, named.gpu):
        skips.append(Skip.of_all(NO_GROUPS))
    skips += [Skip(draft.name, draft.kv.label().partition(",")[0], draft.reason) for draft in unknown]
    return Candidates(candidates.baselines, candidates.drafted, list(dict.fromkeys(skips)))


def _no_layout(query: AdviseQuery) -> str:
    """The reason why no layout is searched, with the arguments to ask if `--tp` counts only the devices of an
    attention group.
    """
    tp, dp, ep = (degrees[0] if degrees else 1 for degrees in (query.tp, query.dp, query.ep))
    return NO_LAYOUT + (f"; --tp counts all devices of a server{typed(tp, dp, ep)}" if dp > 1 else "")


def _add_layout(
    query: AdviseQuery, named: Named, layout: Layout, known: list[KnownDraft], candidates: Candidates
) -> None:
    """Adds the candidates of one layout, or the reason why the layout is skipped."""
    server = named.with_layers_on(layout.in_turn, query)
    try:
        alone = _baseline(query, server, layout)
    except InputError as error:
        candidates.skips.append(Skip.of_all(as_names(error.as_flags)))
        return
    if (why := _not_published(query, alone)) is not None:
        candidates.skips.append(Skip.of_all(why))
        return
    candidates.baselines.append(alone)
    if query.gpus is None or _has_room(query, alone):
        _add_drafts(query, server, layout, known, candidates)


def _baseline(query: AdviseQuery, named: Named, layout: Layout) -> Candidate:
    """The candidate without a draft. Raises InputError if it cannot run."""
    asked = query.query(batch=1, draft="self", draft_kv="full", draft_tp=None, **layout.arguments())
    alone = resolve_costs(asked, named)
    alone.target_pass_s(1.0, 1.0)
    return Candidate(alone, layout, asked)


def _not_published(query: AdviseQuery, alone: Candidate) -> str | None:
    """The reason why a layout cannot run the published checkpoint in the format of the question. The result
    is None if the layout can run it, or if the question names the degree or the checkpoint.
    """
    searched = query.tp is None and (query.gpus is not None or query.has_load)
    if not searched or query.weights is None or query.model_path is not None:
        return None
    repository = served_id(query.model)
    return None if repository is None else undivided(repository, alone.scenario)


def _has_room(query: AdviseQuery, alone: Candidate) -> bool:
    """Whether one sequence fits in the memory of a server."""
    memory = memory_of(alone.scenario, 1.0, float(query.context), 0.0, query.memory_fraction)
    return bool(memory.fits)


def _add_drafts(
    query: AdviseQuery, named: Named, layout: Layout, known: list[KnownDraft], candidates: Candidates
) -> None:
    """Adds each draft with a known acceptance on one layout. If a draft cannot run there, the reason is added
    instead.
    """
    for draft in known:
        for draft_tp in dict.fromkeys(query.draft_tp or (layout.server_gpus,)):
            try:
                candidates.drafted.append(_with_draft(query, named, layout, draft, draft_tp))
            except InputError as error:
                candidates.skips.append(Skip(draft.name, draft.kv.label(), as_names(error.as_flags)))


def _with_draft(
    query: AdviseQuery, named: Named, layout: Layout, draft: KnownDraft, draft_tp: int
) -> Candidate:
    """The candidate with one draft on `draft_tp` devices. Raises InputError if it cannot run."""
    kv = draft.kv.label()
    asked = query.query(batch=1, draft=draft.name, draft_kv=kv, draft_tp=draft_tp, **layout.arguments())
    scenario = resolve(asked, draft.acceptance, named)
    scenario.draft_pass_s(1.0, 1.0)
    key = key_of(draft.name, draft.kv)
    rate = rates_by_key(query.chain_rates).get(key)
    tree_rates = rates_by_key(query.tree_rate).get(key)
    runs = _runs_in(query, named, layout, scenario)
    return Candidate(scenario, layout, asked, rate=rate, tree_rates=tree_rates, runs=runs)


def _runs_in(query: AdviseQuery, named: Named, layout: Layout, scenario: Scenario) -> RunsIn | None:
    """Whether the engine runs the draft of a scenario. A draft that a known defect makes slower counts as a
    draft that the engine does not run.
    """
    vendor = scenario.machine.gpu.vendor
    runs = runs_in(engine_of(named.calibration), scenario.draft, query.engine, layout.dp, vendor)
    if runs is None or not runs.runs:
        return runs
    defect = slowing(scenario, float(query.context))
    return runs if defect is None else RunsIn(False, f"{runs.text}, but {defect_warning(defect)}")
