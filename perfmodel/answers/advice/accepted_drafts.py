"""Finds the acceptance of each draft that `advise` searches. No acceptance is ever assumed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.rates_by_draft import draft_and_method, key_of, rates_by_key
from perfmodel.answers.advice.searched_drafts import method_of, rows_of, searched_drafts
from perfmodel.answers.question import Named, check_head, given_rate, measured_acceptance, parse_rate
from perfmodel.drafts import make_draft, names
from perfmodel.drafts.base import Draft
from perfmodel.errors import about_file
from perfmodel.kv import KVMethod
from perfmodel.specs import AcceptanceRow, ModelSpec, UnknownAcceptance, load_model
from perfmodel.specs.acceptance.acceptance_file import read_acceptance
from perfmodel.speculation import Acceptance


class KnownDraft(NamedTuple):
    """A draft with its KV method and its acceptance."""

    name: str
    kv: KVMethod
    acceptance: Acceptance


class UnknownDraft(NamedTuple):
    """A draft with its KV method and the reason why its acceptance is unknown."""

    name: str
    kv: KVMethod
    reason: str


def accepted_drafts(query: AdviseQuery, named: Named) -> tuple[list[KnownDraft], list[UnknownDraft]]:
    """The drafts of the search in two lists: those with a known acceptance, and those without one. Raises
    InputError for an unknown name, and for a head that does not exist.
    """
    rows = None if query.acceptance is None else read_acceptance(query.acceptance)
    _check_rows(query, named, rows)
    drafts = _made(query, named, rows)
    stated = _stated(query, drafts)
    known = list[KnownDraft]()
    unknown = list[UnknownDraft]()
    lookup = float(query.context), rows, query.task, "acceptance"
    for (name, kv), draft in drafts.items():
        try:
            acceptance = stated.get(key_of(name, kv)) or measured_acceptance(
                query.model, named.target, draft, *lookup, head=name
            )
            known.append(KnownDraft(name, kv, acceptance))
        except UnknownAcceptance as error:
            unknown.append(UnknownDraft(name, kv, f"{error.why}; give a rate or an acceptance file"))
    return known, unknown


def without_acceptance(query: AdviseQuery) -> tuple[tuple[str, KVMethod], ...]:
    """The drafts whose acceptance is unknown, each with its KV method. The search skips these drafts. Unless
    the question names its drafts, models of other makers are left out: they have the vocabulary size of the
    target, but hardly its vocabulary.
    """
    named = Named.of(query)
    _, unknown = accepted_drafts(query, named)
    maker = _maker(named.target)
    return tuple(
        (draft.name, draft.kv)
        for draft in unknown
        if query.draft is not None
        or draft.name in ("eagle3", *names())
        or _maker(load_model(draft.name)) == maker
    )


def _maker(model: ModelSpec) -> str:
    """The organisation in the Hugging Face id of a model; empty without an id."""
    return (model.hf_id or "").partition("/")[0]


def left_out_by_rates(query: AdviseQuery) -> tuple[str, ...]:
    """The drafts with a published acceptance that are not searched, because the rates or the acceptance file
    of the question name the drafts of the search.
    """
    if query.draft is not None or not query.names_drafts:
        return ()
    named = Named.of(query)
    published, _ = accepted_drafts(replace(query, rate={}, tree_rate={}, acceptance=None), named)
    searched, _ = accepted_drafts(query, named)
    names = {draft.name.lower() for draft in searched}
    return tuple(dict.fromkeys(draft.name for draft in published if draft.name.lower() not in names))


def _check_rows(query: AdviseQuery, named: Named, rows: Sequence[AcceptanceRow] | None) -> None:
    """Raises InputError, with the name of the user's file, for a draft of the file that cannot be made."""
    if query.acceptance is None:
        return
    precision = named.precision(query)
    with about_file(query.acceptance):
        for row in rows_of(named.target, rows):
            make_draft(row.draft, named.target, precision, 1, method_of(row))


def _made(
    query: AdviseQuery, named: Named, rows: Sequence[AcceptanceRow] | None
) -> dict[tuple[str, KVMethod], Draft]:
    """The searched drafts by name and KV method. Raises InputError for an unknown name or head."""
    precision = named.precision(query)
    drafts = {
        (name, kv): make_draft(name, named.target, precision, 1, kv)
        for name, kv in dict.fromkeys(searched_drafts(query, named.target, rows))
    }
    for name, _ in drafts:
        check_head(name, named.target)
    return drafts


def _stated(
    query: AdviseQuery, drafts: dict[tuple[str, KVMethod], Draft]
) -> dict[tuple[str, str], Acceptance]:
    """The acceptances that the question states, by the key of the draft (`key_of`). A chain of a draft with
    tree rates may have any length, because these rates are the same at every level.
    """
    by_key = {key_of(name, kv): draft for (name, kv), draft in drafts.items()}
    with_trees = rates_by_key(query.tree_rate)
    stated: dict[tuple[str, str], Acceptance] = {}
    for text, rate in query.chain_rates.items():
        flag = f"--rate {text}"
        key = key_of(*draft_and_method(text))
        stated[key] = (
            parse_rate(rate, flag) if key in with_trees else given_rate(rate, flag, None, by_key[key])
        )
    return stated
