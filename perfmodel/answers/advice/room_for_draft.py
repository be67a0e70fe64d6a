"""Finds a smaller format of the KV cache with which a draft fits in memory together with the target."""

from dataclasses import replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import find_candidates
from perfmodel.answers.advice.prices import Priced, price
from perfmodel.answers.advice.ranking import PricedPoint, best_of
from perfmodel.answers.advice.ways import smaller_caches
from perfmodel.answers.point.whatif_answer import Remedy
from perfmodel.errors import InputError


def room_for_draft(query: AdviseQuery, chosen: PricedPoint, searched: list[Priced]) -> tuple[Remedy, ...]:
    """The first smaller format of the KV cache with which a draft fits in memory and gains, in the layout of
    the choice. The acceptance of the draft must be known. The result is empty if a draft fits already, or if
    the question states the format.
    """
    if not searched or any(x.fits.any() for x in searched) or query.kv_dtype is not None:
        return ()
    for cache in smaller_caches(chosen.candidate):
        changed = replace(query, kv_dtype=cache)
        try:
            found = find_candidates(changed, [chosen.layout])
            drafted = price(found.baselines, found.drafted, changed).drafted
        except InputError:
            continue
        allowed = [x for x in drafted if query.may_choose(x.candidate.runs)]
        point = best_of(allowed, changed)
        if point is not None and (gain := point.times(chosen, query)) > 1.0:
            return (Remedy(f"--kv-dtype {cache}", point.gamma, gain, None, {"kv_dtype": cache}),)
    return ()
