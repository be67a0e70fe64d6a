"""Names the target's own multi-token prediction (MTP) layer as an alternative to the best draft, if the
acceptance of the layer is unknown.
"""

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.likely import cautious_point, likely_gains
from perfmodel.answers.advice.ranking import PricedPoint

OWN = "mtp"


def own_layer(query: AdviseQuery, baseline: PricedPoint | None) -> Alternative | None:
    """The likely gain of the MTP layer. If the layer is worth measuring, there is also a server with which to
    measure its acceptance. The result is None if the target has no such layer, if it would not gain, or if
    the question names its drafts.
    """
    named = query.draft is not None or query.chain_rates or query.acceptance is not None
    if baseline is None or named:
        return None
    gains = tuple(gain for gain in likely_gains(query, baseline) if gain.draft == OWN)
    if not gains or gains[0].speedups[1] <= 1.0:
        return None
    text = f"The checkpoint has its own {OWN} layer, whose acceptance is not known: likely {gains[0].text}"
    point = cautious_point(query, baseline, gains)
    if point is None:
        return Alternative(text, 1, None)
    return Alternative.of(f"{text}; to measure it", query, point)
