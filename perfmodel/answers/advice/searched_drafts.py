"""Lists the drafts that `advise` searches, each with a KV method."""

from collections.abc import Iterator, Sequence

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.rates_by_draft import draft_and_method
from perfmodel.drafts import kind_of, kinds
from perfmodel.kv import KVMethod, method, methods as kv_methods, names, parse_kv
from perfmodel.specs import AcceptanceRow, ModelSpec, load_model
from perfmodel.specs.boundary import files

BUDGETS = (512, 1024, 2048, 4096)
"""The searched budgets of KV methods, in tokens."""


def searched_drafts(
    query: AdviseQuery, target: ModelSpec, rows: Sequence[AcceptanceRow] | None
) -> Iterator[tuple[str, KVMethod]]:
    """The drafts to search, each with a KV method; a draft may occur more than once."""
    for key in query.chain_rates:
        yield draft_and_method(key)
    for row in rows_of(target, rows):
        yield row.draft, method_of(row)
    named = query.draft
    if named is None and (query.chain_rates or rows is not None):
        return  # rates and rows name the drafts to search
    for name in named if named is not None else _all_drafts(target):
        yield from ((name, kv) for kv in _methods_for(name, query))


def _methods_for(name: str, query: AdviseQuery) -> tuple[KVMethod, ...]:
    """The KV methods to search for one draft: those of the question, every sparse method for a self-draft, or
    the full cache.
    """
    full = (parse_kv("full"),)
    kind = name.partition(":")[0].lower()
    if kind in kinds() and not kind_of(kind).reads_cache:
        return full
    if query.draft_kv:
        return tuple(map(parse_kv, query.draft_kv))
    return _all_methods() if kind == "self" else full


def rows_of(target: ModelSpec, rows: Sequence[AcceptanceRow] | None) -> list[AcceptanceRow]:
    """The rows of a user's file that were measured with this target."""
    return [row for row in rows or () if row.target == target.name]


def method_of(row: AcceptanceRow) -> KVMethod:
    """The KV method of a row with the row's budget. All other options have the values of the method's
    example.
    """
    budget = "" if row.kv_budget_tokens is None else f":{row.kv_budget_tokens}"
    options = ""
    if row.draft_kv in names():
        options = "".join(method(row.draft_kv).example.partition(",")[1:])
    return parse_kv(row.draft_kv + budget + options, "--acceptance")


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
