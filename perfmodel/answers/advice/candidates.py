"""The question of `advise` and its search space: drafts x KV methods x tensor-parallel degrees.

A candidate without a measured acceptance is skipped and listed; no acceptance is ever assumed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perfmodel.answers.advice.draft_lengths import MAX_BATCHES
from perfmodel.answers.advice.llama_server import SLOTS
from perfmodel.answers.declaration import POSITIVE, argument, question
from perfmodel.answers.question import (
    UNUSED,
    CommonOptions,
    Named,
    Query,
    RunsIn,
    arguments as arg,
    check_head,
    defect_warning,
    measured_acceptance,
    parse_rate,
    resolve,
    runs_in,
    slowing,
)
from perfmodel.answers.readers import (
    MaybeReal,
    MaybeWholes,
    MaybeWords,
    Parsed,
    Wholes,
    methods,
    texts,
)
from perfmodel.drafts import kind_of, kinds, make_draft
from perfmodel.errors import InputError, as_names, refuse
from perfmodel.kv import KVMethod, method, methods as kv_methods, names, parse_kv
from perfmodel.operations import Array
from perfmodel.parse import items
from perfmodel.specs import LLAMACPP, AcceptanceRow, ModelSpec, UnknownAcceptance, engine_of, load_model
from perfmodel.specs.acceptance.acceptance_file import read_acceptance
from perfmodel.specs.boundary import files
from perfmodel.speculation import DEFAULT_MAX_GAMMA, Acceptance, Scenario

OBJECTIVES = ("throughput", "latency", "cost")
BUDGETS = (512, 1024, 2048, 4096)
Rows = Sequence[AcceptanceRow]
Known = tuple[str, KVMethod, Acceptance]
Unknown = tuple[str, KVMethod, str]
"""A draft, its KV method, and either its acceptance or the reason why none is known."""


def _rates(given: Any, flag: str) -> dict[str, str]:
    """Reads a mapping, or a list of ``DRAFT=RATE``."""
    if isinstance(given, Mapping):
        return {str(key): str(rate) for key, rate in given.items()}
    rates: dict[str, str] = {}
    for text in items(given):
        key, _, rate = str(text).rpartition("=")
        if not key:
            raise refuse(flag, None, "DRAFT=RATE or DRAFT@METHOD:BUDGET=RATE", text)
        if key in rates:
            raise InputError(f"{flag}: {key} is given twice")
        rates[key] = rate
    return rates


@question
class AdviseQuery(CommonOptions):
    """A question to `advise`.

    rate: maps a draft, or ``draft@METHOD:BUDGET``, to ``0.8`` (alpha), ``0.8/0.7/0.5`` (by position) or
    ``0.6x3.5`` (n-gram: hit probability x run length). acceptance: a file of rows. It replaces the bundled
    rows for drafts without a rate. draft, draft_kv: None searches the drafts and methods that `rate` and the
    file name, or all of them if neither is given.
    """

    context: arg.Context = argument(default=8192)
    batch: MaybeWholes = argument(
        "Batch sizes to search.",
        arg.COUNTS,
        "--batch-size -b",
        shown=f"1..{MAX_BATCHES}; 1..{SLOTS} with llama.cpp",
        default=None,
    )
    tp: Wholes = argument(
        "Tensor-parallel degrees of the target to search.", arg.COUNTS, "--tensor-parallel", default=1
    )
    draft: MaybeWords = argument(
        "A draft to search; may be repeated.",
        "self|KIND|NAME|PATH",
        "--draft-model",
        texts,
        repeated=True,
        default=None,
        group="Draft",
    )
    draft_kv: MaybeWords = argument(
        "KV methods to search.",
        "METHOD[:BUDGET],...",
        read=methods,
        shown="all that are known",
        default=None,
        group="Draft",
    )
    draft_tp: MaybeWholes = argument(
        "Tensor-parallel degrees of the draft to search.",
        arg.COUNTS,
        shown="as --tp",
        default=None,
        group="Draft",
    )
    rate: Parsed[dict[str, str], Mapping[str, str | float] | Sequence[str]] = argument(
        "Measured acceptance: 0.8, by position 0.8/0.7/0.5, n-gram 0.4x3; may be repeated.",
        "DRAFT[@KV]=RATE",
        read=_rates,
        repeated=True,
        default=(),
        group="Acceptance",
    )
    acceptance: arg.AcceptanceFile = None
    task: arg.Task = None
    draft_path: arg.DraftPath = None
    model_path: arg.ModelPath = None
    any_draft: bool = argument(
        "Also choose among drafts that the engine does not run.", default=False, group="Draft"
    )
    objective: str = argument("Quantity to optimise.", choices=OBJECTIVES, default="throughput")
    max_tpot_ms: MaybeReal = argument(
        "Upper bound on TPOT, in milliseconds.", "MS", limits=POSITIVE, default=None
    )
    max_gamma: arg.MaxGamma = argument(default=DEFAULT_MAX_GAMMA)
    power_limit: arg.PowerLimit = argument(default=None)
    price: arg.Price = argument(default=None)

    def check(self) -> None:
        super().check()
        if self.objective == "cost" and self.price is None:
            raise InputError("--objective cost: needs --price, dollars per device and hour")
        if not all(1 <= b <= 2**20 for b in self.batches):
            raise refuse("--batch", None, "whole numbers from 1 to 2^20", f"{self.batches.min():g}")
        if self.draft_kv is not None and self.draft is None and (self.rate or self.acceptance):
            raise InputError(
                "--draft-kv: needs --draft; a rate names its method, as in --rate self@quest:1k=0.8"
            )
        self.within("max_gamma", 1, 256, "a whole number from 1 to 256")
        self.within("context", 1, 2**40, "a number of tokens from 1 to 2^40")

    @property
    def batches(self) -> Array:
        """Distinct batch sizes in rising order."""
        return np.unique(np.asarray(self.batch or range(1, MAX_BATCHES + 1), float))

    @property
    def with_slots(self) -> "AdviseQuery":
        """The question with the batches of llama.cpp's server, if it is about llama.cpp and names no
        batches.
        """
        if self.batch is not None or engine_of(Named.of(self).calibration) != LLAMACPP:
            return self
        return replace(self, batch=tuple(range(1, SLOTS + 1)))

    def query(self, **changes: Any) -> Query:
        """As `CommonOptions.query`; the rates are of many drafts, so each candidate gets its acceptance."""
        return super().query(**{"rate": None} | changes)

    def may_choose(self, runs: RunsIn | None) -> bool:
        """Whether a draft may be recommended, given where it runs."""
        return self.any_draft or runs is None or runs.runs

    @property
    def max_tpot_s(self) -> float | None:
        """The bound on the time per token in seconds."""
        return None if self.max_tpot_ms is None else self.max_tpot_ms / 1e3

    def as_dict(self) -> dict[str, Any]:
        """As `Question.as_dict`, with only the smallest and the largest batch size."""
        return super().as_dict() | {"batch": [int(end) for end in self.batches[[0, -1]]]}


@dataclass(frozen=True, slots=True)
class Skip:
    """A candidate that was not searched, and the reason."""

    draft: str
    draft_kv: str
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration without its batch and draft length.

    runs: whether the given engine runs the draft. None for the baseline and for a stack that is not a serving
    engine.
    """

    scenario: Scenario
    runs: RunsIn | None = None

    @property
    def tp(self) -> int:
        """The target's tensor-parallel degree."""
        return self.scenario.machine.tensor_parallel


def find_candidates(query: AdviseQuery) -> tuple[list[Candidate], list[Candidate], list[Skip]]:
    """Finds the baselines (one per degree), the drafts with a known acceptance, and the skipped candidates.

    A degree that the model or the calibration does not allow is skipped. Raises InputError for unknown names.
    """
    named = Named.of(query)
    known, unknown = _accepted(query, named)
    named.gpu.check_peaks(named.precision(query).weights.computes, query.hardware)
    baseline = []
    candidates = []
    skips = list[Skip]()
    for tp in query.tp:
        try:
            alone = resolve(
                query.query(batch=1, tp=tp, draft="self", draft_kv="full", draft_tp=None), UNUSED, named
            )
            alone.target_pass_s(1.0, 1.0)
        except InputError as error:
            skips.append(Skip("any", "any", as_names(error.as_flags)))
            continue
        baseline.append(Candidate(alone))
        for name, kv, acceptance in known:
            for draft_tp in dict.fromkeys(query.draft_tp or (tp,)):
                try:
                    candidates.append(_candidate(query, named, tp, name, kv, draft_tp, acceptance))
                except InputError as error:
                    skips.append(Skip(name, kv.label(), as_names(error.as_flags)))
    skips += [Skip(name, kv.label().partition(",")[0], why) for name, kv, why in unknown]
    return baseline, candidates, list(dict.fromkeys(skips))


def without_acceptance(query: AdviseQuery) -> tuple[tuple[str, KVMethod], ...]:
    """The skipped drafts without a known acceptance, each with its KV method."""
    _, unknown = _accepted(query, Named.of(query))
    return tuple((name, kv) for name, kv, _ in unknown)


def _candidate(
    query: AdviseQuery,
    named: Named,
    tp: int,
    name: str,
    kv: KVMethod,
    draft_tp: int,
    acceptance: Acceptance,
) -> Candidate:
    """Builds one candidate. Raises InputError if it cannot run."""
    scenario = resolve(
        query.query(batch=1, tp=tp, draft=name, draft_kv=kv.label(), draft_tp=draft_tp), acceptance, named
    )
    scenario.draft_pass_s(1.0, 1.0)
    runs = runs_in(engine_of(named.calibration), scenario.draft, query.engine)
    if runs is not None and runs.runs and (defect := slowing(scenario, float(query.context))) is not None:
        runs = RunsIn(False, f"{runs.text}, but {defect_warning(defect)}")
    return Candidate(scenario, runs)


def _accepted(query: AdviseQuery, named: Named) -> tuple[list[Known], list[Unknown]]:
    """Splits the pairs of draft and KV method, in order: those with an acceptance, and those without one,
    each with the reason.
    """
    precision = named.precision(query)
    rows = None if query.acceptance is None else read_acceptance(query.acceptance)
    given = {_key(*_split(key)): parse_rate(rate, f"--rate {key}") for key, rate in query.rate.items()}
    pairs = tuple(dict.fromkeys(_pairs(query, named.target, rows)))
    # an unknown name, or a head that does not exist, is refused and not skipped
    drafts = [make_draft(name, named.target, precision, 1, kv) for name, kv in pairs]
    for name, _ in pairs:
        check_head(name, named.target)
    known = list[Known]()
    unknown = list[Unknown]()
    lookup = float(query.context), rows, query.task, "acceptance"
    for (name, kv), draft in zip(pairs, drafts, strict=True):
        try:
            rate = given.get(_key(name, kv))
            known.append((name, kv, rate or measured_acceptance(query.model, named.target, draft, *lookup)))
        except UnknownAcceptance as error:
            unknown.append((name, kv, f"{error.why}; give a rate or an acceptance file"))
    return known, unknown


def _pairs(query: AdviseQuery, target: ModelSpec, rows: Rows | None) -> Iterator[tuple[str, KVMethod]]:
    """The drafts to search, each with a KV method; a draft may occur more than once."""
    for key in query.rate:
        yield _split(key)
    for row in rows or ():
        if row.target == target.name:
            yield row.draft, _method(row)
    named = query.draft
    if named is None and (query.rate or rows is not None):
        return  # the measured rows name the candidates
    given = tuple(map(parse_kv, query.draft_kv)) if query.draft_kv is not None else None
    for name in named if named is not None else _all_drafts(target):
        word = name.partition(":")[0].lower()
        kvs = given or (_all_methods() if word == "self" else (parse_kv("full"),))
        if word in kinds() and not kind_of(word).reads_cache:
            kvs = (parse_kv("full"),)
        yield from ((name, kv) for kv in kvs)


def _split(key: str) -> tuple[str, KVMethod]:
    name, at, method = key.partition("@")
    if not name.strip():
        raise refuse("--rate", None, "DRAFT=RATE or DRAFT@METHOD:BUDGET=RATE", key)
    return name.strip(), parse_kv(method, "--rate") if at else parse_kv("full")


def _method(row: AcceptanceRow) -> KVMethod:
    """The KV method of a row at the row's budget; other options are those of the method's example."""
    budget = "" if row.kv_budget_tokens is None else f":{row.kv_budget_tokens}"
    if row.draft_kv in names():
        options = "".join(method(row.draft_kv).example.partition(",")[1:])
    else:
        options = ""
    return parse_kv(row.draft_kv + budget + options, "--acceptance")


def _key(name: str, kv: KVMethod) -> tuple[str, str]:
    return name.lower(), kv.label()


def _all_methods() -> tuple[KVMethod, ...]:
    """Every method except ``full``, at each budget of `BUDGETS`; once if it has no budget."""
    every = []
    for name, kind in kv_methods().items():
        if ":" in kind.example:
            rest = "".join(kind.example.partition(",")[1:])
            every += [parse_kv(f"{name}:{budget}{rest}") for budget in BUDGETS]
        elif name != "full":
            every.append(parse_kv(kind.example))
    return tuple(every)


def _all_drafts(target: ModelSpec) -> tuple[str, ...]:
    """Every kind (EAGLE as EAGLE-3) and every bundled model that can draft for the target."""
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
