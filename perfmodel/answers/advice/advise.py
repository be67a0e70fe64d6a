"""Finds the best layout of GPUs, draft, KV method and draft length. The best choice may be to decode without
a draft.

Without a load, each candidate is predicted at all batches and draft lengths at once. Under a load, each
candidate is predicted as in `traffic`.
"""

from dataclasses import replace

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.other_kinds import (
    OfKind,
    in_order,
    left_out,
    most_in_all,
    nearest_kind,
    over_kinds,
    with_smaller_weights_on_all,
)
from perfmodel.answers.declaration import asks


@asks(AdviseQuery)
def advise(question: AdviseQuery) -> Advice:
    """Find the best layout, draft, KV method and budget, gamma and batch. The best choice may be to use no
    draft.

    Only drafts with a measured acceptance are searched. The acceptance comes from `rate`, from a file, or
    from the bundled measurements. Raises InputError for wrong input.
    """
    kinds = question.by_kind
    found = [OfKind.of(each) for each in kinds]
    if len(found) == 1:
        return found[0].answer()
    feasible = in_order(found)
    if not feasible:
        return nearest_kind([each.answer() for each in found])
    best = feasible[0]
    answer = best.answer()
    picks = tuple(each.pick for each in feasible if each.pick is not None)
    lines = {each.line for each in answer.alternatives if each.line is not None}
    smaller = [each for each in with_smaller_weights_on_all(kinds, best) if each.line not in lines]
    most = most_in_all(feasible)
    lines |= {each.line for each in (*most, *smaller) if each.line is not None}
    others = [each for kind in feasible[1:] if (each := kind.alternative).line not in lines]
    return replace(
        answer,
        by_hardware=picks,
        over_kinds=over_kinds(feasible),
        alternatives=(*most, *smaller, *answer.alternatives, *others),
        warnings=(*answer.warnings, *left_out(each.answer() for each in found if each.pick is None)),
    )
