"""The configurations that `advise` searches: every draft with every KV method on every layout.

A draft without a measured acceptance is skipped, and the answer lists it. No acceptance is ever assumed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.layouts import Layout
from perfmodel.answers.advice.rates_by_draft import draft_and_method
from perfmodel.answers.advice.searched_layouts import may_have_groups, searched_layouts, searches_groups
from perfmodel.answers.question import (
    Named,
    Query,
    RunsIn,
    check_head,
    defect_warning,
    given_rate,
    measured_acceptance,
    parse_rate,
    resolve,
    resolve_costs,
    runs_in,
    slowing,
)
from perfmodel.answers.question.published_format import undivided
from perfmodel.drafts import kind_of, kinds, make_draft
from perfmodel.errors import InputError, about_file, as_names
from perfmodel.kv import KVMethod, method, methods as kv_methods, names, parse_kv
from perfmodel.specs import AcceptanceRow, ModelSpec, UnknownAcceptance, engine_of, load_model, served_id
from perfmodel.specs.acceptance.acceptance_file import read_acceptance
from perfmodel.specs.boundary import files
from perfmodel.speculation import Acceptance, Scenario, memory_of

NO_GROUPS = "groups (DP, EP) over PCIe: no exchange of tokens was measured there; --dp and --ep search them"
"""The reason why parallel groups are not searched on devices without a direct link."""
NO_LAYOUT = (
    "no layout of these devices has the stated --tp, --dp and --ep; --dp and --ep are for models with routed "
    "experts, in engines with such groups"
)
"""The reason why no layout is searched."""
BUDGETS = (512, 1024, 2048, 4096)
"""The searched budgets of KV methods, in tokens."""
Rows = Sequence[AcceptanceRow]
Known = tuple[str, KVMethod, Acceptance]
Unknown = tuple[str, KVMethod, str]
"""A draft, its KV method, and either its acceptance or the reason why none is known."""


@dataclass(frozen=True, slots=True)
class Skip:
    """A draft and KV method that was not searched, and the reason."""

    draft: str
    draft_kv: str
    reason: str


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
        searched = {candidate.asked.draft for candidate in self.drafted}
        named = [*(query.draft or ()), *(draft_and_method(key)[0] for key in query.chain_rates)]
        reasons = {skip.draft: skip.reason for skip in self.skips}
        return tuple(
            f"{name} was not searched: {reasons[name]}"
            for name in dict.fromkeys(named)
            if name in reasons and name not in searched
        )


def find_candidates(query: AdviseQuery, layouts: Sequence[Layout] | None = None) -> Candidates:
    """Finds the candidates of the question.

    - layouts: the layouts to search; None means all layouts that the question allows.

    A layout is skipped if the model, the engine or the calibration does not allow it. If the question states
    `gpus`, drafts are only added to layouts with memory for at least one sequence. Raises InputError for
    unknown names.
    """
    named = Named.of(query)
    known, unknown = _accepted(query, named)
    named.gpu.check_peaks(named.precision(query).weights.computes, query.hardware)
    candidates = Candidates([], [], [])
    if layouts is None:
        layouts = searched_layouts(query, named.target, named.gpu)
    if not layouts:
        candidates.skips.append(Skip("any", "any", NO_LAYOUT))
    for layout in layouts:
        server = named.with_layers_on(layout.in_turn, query)
        try:
            alone = _baseline(query, server, layout)
        except InputError as error:
            candidates.skips.append(Skip("any", "any", as_names(error.as_flags)))
            continue
        if (why := _not_published(query, alone)) is not None:
            candidates.skips.append(Skip("any", "any", why))
            continue
        candidates.baselines.append(alone)
        if query.gpus is None or _has_room(query, alone):
            _add_drafts(query, server, layout, known, candidates)
    skips = [*candidates.skips]
    several = query.gpus not in (None, 1)
    if several and named.target.moe and may_have_groups(query) and not searches_groups(query, named.gpu):
        skips.append(Skip("any", "any", NO_GROUPS))
    skips += [Skip(name, kv.label().partition(",")[0], why) for name, kv, why in unknown]
    return Candidates(candidates.baselines, candidates.drafted, list(dict.fromkeys(skips)))


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
    query: AdviseQuery, named: Named, layout: Layout, known: list[Known], candidates: Candidates
) -> None:
    """Adds each draft with a known acceptance on one layout. If a draft cannot run there, the reason is added
    instead.
    """
    for name, kv, acceptance in known:
        for draft_tp in dict.fromkeys(query.draft_tp or (layout.server_gpus,)):
            try:
                candidates.drafted.append(_candidate(query, named, layout, name, kv, draft_tp, acceptance))
            except InputError as error:
                candidates.skips.append(Skip(name, kv.label(), as_names(error.as_flags)))


def without_acceptance(query: AdviseQuery) -> tuple[tuple[str, KVMethod], ...]:
    """The drafts whose acceptance is unknown, each with its KV method. The search skips these drafts."""
    _, unknown = _accepted(query, Named.of(query))
    return tuple((name, kv) for name, kv, _ in unknown)


def _candidate(
    query: AdviseQuery,
    named: Named,
    layout: Layout,
    name: str,
    kv: KVMethod,
    draft_tp: int,
    acceptance: Acceptance,
) -> Candidate:
    """Builds one candidate. Raises InputError if it cannot run."""
    asked = query.query(batch=1, draft=name, draft_kv=kv.label(), draft_tp=draft_tp, **layout.arguments())
    scenario = resolve(asked, acceptance, named)
    scenario.draft_pass_s(1.0, 1.0)
    vendor = scenario.machine.gpu.vendor
    runs = runs_in(engine_of(named.calibration), scenario.draft, query.engine, layout.dp, vendor)
    if runs is not None and runs.runs and (defect := slowing(scenario, float(query.context))) is not None:
        runs = RunsIn(False, f"{runs.text}, but {defect_warning(defect)}")
    key = _key(name, kv)
    rate = _keyed(query.chain_rates).get(key)
    tree_rates = _keyed(query.tree_rate).get(key)
    return Candidate(scenario, layout, asked, rate=rate, tree_rates=tree_rates, runs=runs)


def _accepted(query: AdviseQuery, named: Named) -> tuple[list[Known], list[Unknown]]:
    """Splits the pairs of draft and KV method into pairs with a known acceptance and pairs without one. Each
    pair of the second list has the reason why its acceptance is unknown.
    """
    precision = named.precision(query)
    rows = None if query.acceptance is None else read_acceptance(query.acceptance)
    if query.acceptance is not None:
        with about_file(query.acceptance):
            for row in _of_target(rows, named.target):
                make_draft(row.draft, named.target, precision, 1, _method(row))
    pairs = tuple(dict.fromkeys(_pairs(query, named.target, rows)))
    # an unknown name, or a head that does not exist, is refused and not skipped
    drafts = [make_draft(name, named.target, precision, 1, kv) for name, kv in pairs]
    for name, _ in pairs:
        check_head(name, named.target)
    drafting = {_key(name, kv): draft for (name, kv), draft in zip(pairs, drafts, strict=True)}
    by_level = _keyed(query.tree_rate)  # the same at every level, so chains may be of any length
    stated: dict[tuple[str, str], Acceptance] = {}
    for key, rate in query.chain_rates.items():
        named_draft = _key(*draft_and_method(key))
        if named_draft in by_level:
            stated[named_draft] = parse_rate(rate, f"--rate {key}")
        else:
            stated[named_draft] = given_rate(rate, f"--rate {key}", None, drafting[named_draft])
    known = list[Known]()
    unknown = list[Unknown]()
    lookup = float(query.context), rows, query.task, "acceptance"
    for (name, kv), draft in zip(pairs, drafts, strict=True):
        try:
            accepted = stated.get(_key(name, kv)) or measured_acceptance(
                query.model, named.target, draft, *lookup, head=name
            )
            known.append((name, kv, accepted))
        except UnknownAcceptance as error:
            unknown.append((name, kv, f"{error.why}; give a rate or an acceptance file"))
    return known, unknown


def _of_target(rows: Rows | None, target: ModelSpec) -> list[AcceptanceRow]:
    """The rows of a user's file that were measured with this target."""
    return [row for row in rows or () if row.target == target.name]


def _pairs(query: AdviseQuery, target: ModelSpec, rows: Rows | None) -> Iterator[tuple[str, KVMethod]]:
    """The drafts to search, each with a KV method; a draft may occur more than once."""
    for key in query.chain_rates:
        yield draft_and_method(key)
    for row in _of_target(rows, target):
        yield row.draft, _method(row)
    named = query.draft
    if named is None and (query.chain_rates or rows is not None):
        return  # the measured rows name the candidates
    given = tuple(map(parse_kv, query.draft_kv)) if query.draft_kv is not None else None
    for name in named if named is not None else _all_drafts(target):
        word = name.partition(":")[0].lower()
        kvs = given or (_all_methods() if word == "self" else (parse_kv("full"),))
        if word in kinds() and not kind_of(word).reads_cache:
            kvs = (parse_kv("full"),)
        yield from ((name, kv) for kv in kvs)


def _keyed(rates: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Stated rates by draft and KV method."""
    return {_key(*draft_and_method(key)): rate for key, rate in rates.items()}


def _method(row: AcceptanceRow) -> KVMethod:
    """The KV method of a row with the row's budget. All other options have the values of the method's
    example.
    """
    budget = "" if row.kv_budget_tokens is None else f":{row.kv_budget_tokens}"
    if row.draft_kv in names():
        options = "".join(method(row.draft_kv).example.partition(",")[1:])
    else:
        options = ""
    return parse_kv(row.draft_kv + budget + options, "--acceptance")


def _key(name: str, kv: KVMethod) -> tuple[str, str]:
    return name.lower(), kv.label()


def _all_methods() -> tuple[KVMethod, ...]:
    """Every sparse method with each budget of `BUDGETS`. A method without a budget occurs once."""
    every = []
    for name, kind in kv_methods().items():
        if ":" in kind.example:
            rest = "".join(kind.example.partition(",")[1:])
            every += [parse_kv(f"{name}:{budget}{rest}") for budget in BUDGETS]
        elif not kind.reads_all:
            every.append(parse_kv(kind.example))
    return tuple(every)


def _all_drafts(target: ModelSpec) -> tuple[str, ...]:
    """Every kind of draft and every bundled model that can draft for the target. The kind EAGLE is searched
    as EAGLE-3. A model must have the vocabulary size of the target and less than half of its parameters.
    """
    heads = [
        word
        for word, kind in kinds().items()
        if word != "self" and not kind.named_model and kind.suits(target)
    ]
    smaller = [
        m.name
        for m in map(load_model, files.bundled_names("models"))
        if m.vocab_size == target.vocab_size and 2 * m.total_params < target.total_params
    ]
    return ("self", *smaller, *("eagle3" if word == "eagle" else word for word in heads))
