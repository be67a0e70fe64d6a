"""What `advise` searches: drafts x KV methods x tensor-parallel degrees, each with a measured acceptance.

A candidate without an acceptance is skipped and says so; no rate is ever made up.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from perfmodel.costs import check_tensor_parallel
from perfmodel.costs.roofline import Machine
from perfmodel.drafts import kinds, make_draft
from perfmodel.errors import InputError, refuse
from perfmodel.kv import method, methods, names, parse_kv
from perfmodel.kv.base import KVMethod
from perfmodel.specs import files
from perfmodel.specs.acceptance_file import read_acceptance
from perfmodel.specs.acceptance_rows import AcceptanceRow, find_acceptance, published_rows
from perfmodel.specs.calibration import load_calibration
from perfmodel.specs.gpu import load_gpu
from perfmodel.specs.model import ModelSpec, load_model, precision_of
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.capacity import DEFAULT_MEMORY_FRACTION
from perfmodel.speculation.chain import DEFAULT_MAX_GAMMA
from perfmodel.speculation.scenario import Scenario
from perfmodel.speculation.tree import TreeAcceptance
from perfmodel.speculation.tree_cost import check_draftable

Objective = Literal["throughput", "latency", "cost"]
BUDGETS = (512, 1024, 2048, 4096)
BATCHES = tuple(range(1, 257))


@dataclass(frozen=True)
class Request:
    """A question to `advise`; every field is a flag of ``perfmodel advise``.

    rates: draft, or ``draft@METHOD:BUDGET``, -> ``0.8`` (alpha), ``0.8/0.7/0.5`` (by position), ``0.6x3.5`` (n-gram:
    hit probability x run length) or ``tree:0.6/0.1`` (a tree's, by rank of the child). acceptance: a file of rows,
    instead of the bundled ones, for what rates leave out.
    drafts and draft_kvs: None searches what rates and file name, and all kinds and methods where there is neither.
    draft_tps of 0 means the target's degree.
    """

    model: str
    hardware: str
    context: float
    batches: tuple[int, ...] = BATCHES
    tps: tuple[int, ...] = (1,)
    drafts: tuple[str, ...] | None = None
    draft_kvs: tuple[str, ...] | None = None
    draft_tps: tuple[int, ...] = (0,)
    rates: Mapping[str, str] = field(default_factory=dict)
    acceptance: str | None = None
    objective: Objective = "throughput"
    max_tpot_s: float | None = None
    price_per_gpu_hour: float | None = None
    weights: str | None = None
    kv_dtype: str | None = None
    calibration: str | None = None
    max_gamma: int = DEFAULT_MAX_GAMMA
    memory_fraction: float = DEFAULT_MEMORY_FRACTION

    def check(self) -> None:
        """Refuse what no flag allows (InputError)."""
        if self.objective not in get_args(Objective):
            raise refuse("--objective", None, f"one of {', '.join(get_args(Objective))}", self.objective)
        if self.objective == "cost" and self.price_per_gpu_hour is None:
            raise InputError("--objective cost: needs --price, dollars per device and hour")
        for flag, value in (("--max-tpot-ms", self.max_tpot_s), ("--price", self.price_per_gpu_hour)):
            if value is not None and not 0 < value < float("inf"):
                raise refuse(flag, None, "a finite number above 0", value)
        if not self.batches or not all(1 <= b <= 2**20 for b in self.batches):
            raise refuse("--batch", None, "whole numbers from 1 to 2^20", self.batches)
        if not 1 <= self.max_gamma <= 256:
            raise refuse("--max-gamma", None, "a whole number from 1 to 256", self.max_gamma)
        if not 1 <= self.context <= 2**40:
            raise refuse("--context", None, "a number of tokens from 1 to 2^40", self.context)
        if not 0 < self.memory_fraction <= 1:
            raise refuse("--memory-fraction", None, "a number above 0 and at most 1", self.memory_fraction)


@dataclass(frozen=True, slots=True)
class Skip:
    """A candidate that was not searched, and why."""

    draft: str
    draft_kv: str
    reason: str


@dataclass(frozen=True, slots=True)
class Head:
    """One candidate but for its batch and draft length. tree: its acceptance where it drafts trees, not chains."""

    scenario: Scenario
    tree: TreeAcceptance | None = None

    @property
    def tp(self) -> int:
        """The target's degree."""
        return self.scenario.machine.tensor_parallel


def parse_rate(text: str, flag: str) -> Acceptance | TreeAcceptance:
    """``0.8``, ``0.8/0.7/0.5``, ``0.6x3.5`` or ``tree:0.6/0.1`` as an acceptance. Raises InputError naming `flag`."""
    form, separator = ("tree", "/") if text.startswith("tree:") else ("n-gram", "x") if "x" in text else ("rate", "/")
    try:
        numbers = [float(part) for part in text.removeprefix("tree:").split(separator)]
    except ValueError:
        numbers = []
    if not numbers or (form == "n-gram" and len(numbers) != 2):
        raise refuse(flag, None, "a rate 0.8, by position 0.8/0.7/0.5, hit x run 0.6x3.5, or tree:0.6/0.1", text)
    source = f"{flag} {text}"
    try:
        if form == "tree":
            return TreeAcceptance.of(numbers, source)
        if form == "n-gram":
            return Acceptance.from_ngram(numbers[0], numbers[1], source)
        if len(numbers) == 1:
            return Acceptance.from_alpha(numbers[0], source)
        return Acceptance.from_positions(numbers, source)
    except InputError as error:
        raise InputError(f"{flag}: {error}") from None


def heads(request: Request) -> tuple[list[Head], list[Head], list[Skip]]:
    """Plain decoding by degree, candidates with an acceptance, and what was skipped.

    Raises InputError for unknown names. A degree that the model or the calibration cannot have is a skip.
    """
    request.check()
    target, gpu = load_model(request.model), load_gpu(request.hardware)
    calibration = load_calibration(request.calibration or gpu.calibration)
    precision = precision_of(target, gpu.peak, request.weights, request.kv_dtype)
    gpu.check_peaks(precision.weights.computes)
    own_on = gpu.peak if request.weights is None else None
    if gpu.memory is None:
        raise InputError(f"--hardware: {gpu.name} has no memory size; put it in a file of your own")
    found = _Rates(target, request)
    for name, kv in found.pairs:
        make_draft(name, target, precision, 1, kv)  # an unknown name is a mistake, not a skip
    plain, candidates, skips = [], [], list[Skip]()
    for tp in request.tps:
        try:
            check_tensor_parallel(target, tp)
            machine = Machine(gpu, calibration, tp)
            alone = make_draft("self", target, precision, tp, parse_kv("full"))
            scenario = Scenario(target, machine, precision, alone, Acceptance.from_alpha(0.0, "none needed"))
            scenario.target_pass_s(1.0, 1.0)
        except InputError as error:
            skips.append(Skip("any", "any", str(error)))
            continue
        plain.append(Head(scenario))
        for name, kv, acceptance in found.known:
            for draft_tp in dict.fromkeys(d or tp for d in request.draft_tps):
                try:
                    if draft_tp > tp:
                        raise refuse("--draft-tp", None, f"at most the target's --tp {tp}", draft_tp)
                    draft = make_draft(name, target, precision, tp, kv, tensor_parallel=draft_tp, own_on=own_on)
                    check_tensor_parallel(draft.model, draft_tp, "--draft-tp")
                    tree = acceptance if isinstance(acceptance, TreeAcceptance) else None
                    # a tree's acceptance is not a chain's: the scenario's own is not asked then
                    chain = acceptance if isinstance(acceptance, Acceptance) else Acceptance(acceptance.source, 0.0)
                    made = Scenario(target, machine, precision, draft, chain)
                    made.draft_pass_s(1.0, 1.0)
                    if tree is not None:
                        check_draftable(made, 2)
                except InputError as error:
                    skips.append(Skip(name, kv.label(), str(error)))
                else:
                    candidates.append(Head(made, tree))
    return plain, candidates, list(dict.fromkeys([*skips, *found.skips]))


class _Rates:
    """Which drafts have an acceptance: `known` (draft, method, acceptance) in order, and the skips."""

    def __init__(self, target: ModelSpec, request: Request) -> None:
        self.target, self.request = target, request
        self.rows: Iterable[AcceptanceRow] = (
            read_acceptance(request.acceptance) if request.acceptance is not None else published_rows()
        )
        self.given = {_key(*_split(key)): parse_rate(value, f"--rate {key}") for key, value in request.rates.items()}
        self.known: list[tuple[str, KVMethod, Acceptance | TreeAcceptance]] = []
        self.skips: list[Skip] = []
        self.pairs = tuple(dict.fromkeys(self._pairs()))
        for name, kv in self.pairs:
            try:
                self.known.append((name, kv, self._of(name, kv)))
            except InputError as error:
                why = f"{str(error).partition('; give ')[0]}; give --rate or --acceptance FILE"
                self.skips.append(Skip(name, kv.label().partition(",")[0], why))

    def _pairs(self) -> Iterator[tuple[str, KVMethod]]:
        for key in self.request.rates:
            name, kv = _split(key)
            yield name, kv
        if self.request.acceptance is not None:
            for row in self.rows:
                if row.target == self.target.name:
                    yield row.draft, _method(row)
        named, asked = self.request.drafts, self.request.draft_kvs
        if named is None and (self.request.rates or self.request.acceptance is not None):
            return  # what was measured names the candidates
        kvs = tuple(parse_kv(text) for text in asked) if asked is not None else None
        for name in named if named is not None else _all_drafts(self.target):
            word = name.partition(":")[0].lower()
            if word in ("ngram", "suffix", "medusa"):
                yield name, parse_kv("full")
            else:
                yield from ((name, kv) for kv in kvs or (_all_methods() if word == "self" else (parse_kv("full"),)))

    def _of(self, name: str, kv: KVMethod) -> Acceptance | TreeAcceptance:
        if (given := self.given.get(_key(name, kv))) is not None:
            return given
        row = find_acceptance(
            self.target.name, name, kv.name, kv.budget, self.request.context, self.rows, flag="acceptance"
        )
        return Acceptance.from_row(row)


def _split(key: str) -> tuple[str, KVMethod]:
    name, at, method = key.partition("@")
    if not name.strip():
        raise refuse("--rate", None, "DRAFT=RATE or DRAFT@METHOD:BUDGET=RATE", key)
    return name.strip(), parse_kv(method, "--rate") if at else parse_kv("full")


def _method(row: AcceptanceRow) -> KVMethod:
    """A row's method at its budget, other options as in the method's example."""
    budget = "" if row.kv_budget_tokens is None else f":{row.kv_budget_tokens}"
    options = "".join(method(row.draft_kv).example.partition(",")[1:]) if row.draft_kv in names() else ""
    return parse_kv(row.draft_kv + budget + options, "--acceptance")


def _key(name: str, kv: KVMethod) -> tuple[str, str]:
    return name.lower(), kv.label()


def _all_methods() -> tuple[KVMethod, ...]:
    """Every method at every budget of `BUDGETS`, or once where it takes none; never the whole cache."""
    found = []
    for name, kind in methods().items():
        if ":" in kind.example:
            rest = "".join(kind.example.partition(",")[1:])
            found += [parse_kv(f"{name}:{budget}{rest}") for budget in BUDGETS]
        elif name != "full":
            found.append(parse_kv(kind.example))
    return tuple(found)


def _all_drafts(target: ModelSpec) -> tuple[str, ...]:
    """Every kind, and every bundled model that shares the vocabulary's size and is less than half as large."""
    smaller = [
        model.name
        for model in map(load_model, files.bundled_names("models"))
        if model.vocab_size == target.vocab_size and 2 * model.total_params < target.total_params
    ]
    heads = [word for word, kind in kinds().items() if word not in ("self", "model", "parallel") and kind.suits(target)]
    return ("self", *smaller, *heads)
