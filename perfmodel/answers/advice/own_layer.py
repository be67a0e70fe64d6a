"""Names the target's own multi-token prediction (MTP) layer as an alternative to the best draft, if the
acceptance of the layer is unknown.
"""

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.likely import likely_gains, typical_point
from perfmodel.answers.advice.ranking import PricedPoint

OWN = "mtp"


def own_layer(
    query: AdviseQuery,
    baseline: PricedPoint | None,
    asked: AdviseQuery | None = None,
    seats: int | None = None,
) -> Alternative | None:
    """The likely gain of the MTP layer, with a server with which to measure its acceptance. The result is
    None if the target has no such layer, if it would not gain, or if the question names its drafts.

    - query: a question without a load.
    - asked: the question with its load, for the command line; None means `query`.
    - seats: largest number of sequences that the server runs at once; None means its best batch.
    """
    if baseline is None or query.names_drafts:
        return None
    gains = tuple(gain for gain in likely_gains(query, baseline) if gain.draft == OWN)
    if not gains or gains[0].speedups[1] <= 1.0:
        return None
    text = f"The checkpoint has its own {OWN} layer, whose acceptance is not known: likely {gains[0].text}"
    point = typical_point(query, baseline, OWN)
    if point is None:
        return Alternative(text, 1, None)
    return Alternative.of(f"{text}; to measure it", asked or query, point, seats)
