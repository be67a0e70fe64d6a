"""The alternatives to a choice of `advise`, in sentences: a little better, simpler, sooner, with no bound."""

from collections.abc import Iterator

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.advise import READING_S
from perfmodel.answers.advice.picks import Pick
from perfmodel.answers.advice.ranking import FrontPoint
from perfmodel.answers.text import seconds

NEARLY = 1.15
"""Factor of the shortest time per token up to which smaller servers are named beside the choice."""
NEARLY_GOOD = 1.1
"""Factor by which a simpler layout may be worse than the choice and still be named."""
SOONER = 2.0
"""Factor by which another layout must begin its answers sooner to be named."""
LONG_WAIT_S = 1.0
"""Time to the first token from which a shorter one matters."""


def alternatives(a: Advice) -> Iterator[str]:
    """What a reader may prefer to the choice."""
    known = [_harder(a), _simpler(a), _sooner(a), _fewer_gpus(a)]
    known += [_slow(a), _at_reading_pace(a), _smaller_weights(a), _shorter(a)]
    yield from (sentence for sentence in known if sentence is not None)


def draft_text(p: Pick | FrontPoint) -> str:
    """The draft of a configuration and its view of the cache."""
    name = p.draft or "-"
    if p.draft_kv in (None, "full"):
        return name
    method = p.draft_kv.partition(",")[0]
    return f"{name} {method}"


def _harder(a: Advice) -> str | None:
    """The layout that is a little better than the choice and takes more to run; None without one."""
    if a.query.has_load or a.chosen is None or not a.layouts or a.layouts[0].layout == a.chosen.layout:
        return None
    first = a.layouts[0]
    gain = (a.gain(first) or 1.0) / (a.gain(a.chosen) or 1.0) - 1.0
    return f"{first.layout} would be {gain:.1%} better, too little to decide for it."


def _simpler(a: Advice) -> str | None:
    """The simplest layout of as many GPUs that is nearly as good as the choice; None without one."""
    chosen = a.chosen
    if chosen is None or a.objective.name == "latency":
        return None
    as_many = [p for p in a.layouts if p.gpus == chosen.gpus and p.simplicity < chosen.simplicity]
    near = [(p, _behind(a, p)) for p in as_many if _behind(a, p) <= NEARLY_GOOD]
    if not near:
        return None
    p, behind = min(near, key=lambda each: each[0].simplicity)
    what = "more time per request" if a.query.has_load else "fewer tokens per second"
    share = behind - 1.0 if a.query.has_load else 1.0 - 1.0 / behind
    return f"{p.layout} is simpler to run, for {share:.0%} {what}."


def _sooner(a: Advice) -> str | None:
    """The layout of as many GPUs with a much earlier first token and requests that end hardly later; None
    without one. Requests that wait for room have such long waits.
    """
    chosen = a.chosen
    if chosen is None or not chosen.ttft_s:
        return None
    as_many = [p for p in a.layouts if p.gpus == chosen.gpus and p.ttft_s is not None]
    near = [p for p in as_many if _behind(a, p) <= NEARLY_GOOD]
    sooner = [p for p in near if (p.ttft_s or 0.0) < chosen.ttft_s / SOONER]
    if chosen.ttft_s < LONG_WAIT_S or not sooner:
        return None
    p = min(sooner, key=lambda p: _behind(a, p))
    wait = f"{seconds(p.ttft_s or 0.0)} instead of {seconds(chosen.ttft_s)}"
    return f"{p.layout}: first token after {wait}, for {_behind(a, p) - 1.0:.0%} more time per request."


def _fewer_gpus(a: Advice) -> str | None:
    """The layout with the smallest servers that is nearly as fast for one stream; None without one."""
    chosen = a.chosen
    if chosen is None or a.objective.name != "latency":
        return None
    near = [p for p in a.layouts if p.tp < chosen.tp and p.tpot_s <= NEARLY * chosen.tpot_s]
    if not near:
        return None
    p = min(near, key=lambda p: (p.tp, p.tpot_s))
    slower = p.tpot_s / chosen.tpot_s - 1.0
    more = p.throughput_tokens_per_s_per_device / chosen.throughput_tokens_per_s_per_device
    return f"{p.layout} is {slower:.0%} slower and gives {more:.1f} times the tokens per GPU."


def _slow(a: Advice) -> str | None:
    """That a sequence of the choice is slower than people read, where no bound says that it may be."""
    bounded = a.query.has_load or a.query.max_tpot_ms is not None
    if bounded or a.chosen is None or a.chosen.tpot_s <= READING_S:
        return None
    return f"Each sequence gets {1 / a.chosen.tpot_s:.1f} tokens/s; --max-tpot-ms bounds its time per token."


def _at_reading_pace(a: Advice) -> str | None:
    """That the choice keeps up with a reader, and what would be chosen if it need not."""
    if (unbounded := a.unbounded) is None:
        return None
    bound = f"Every sequence gets at least {1 / READING_S:g} tokens/s, the pace of reading"
    draft = f"{draft_text(unbounded)}, gamma {unbounded.gamma}" if unbounded.gamma else "no draft"
    rate = f"{unbounded.throughput_tokens_per_s_per_device:.0f} tokens/s/GPU"
    free = f"{unbounded.layout}, {draft}, batch {unbounded.batch}: {rate} at {seconds(unbounded.tpot_s)}"
    return f"{bound}; if nobody reads along (--max-tpot-ms): {free} per token."


def _shorter(a: Advice) -> str | None:
    """The shorter draft that is nearly as fast."""
    if (shorter := a.shorter) is None:
        return None
    kept = f"gamma {shorter.gamma} keeps {shorter.share:.0%} of the speedup"
    return f"A shorter draft loses less on text of which less is accepted: {kept}."


def _smaller_weights(a: Advice) -> str | None:
    """What smaller weights would change where memory is full."""
    if (smaller := a.smaller_weights) is None:
        return None
    batch = f"With --weights {smaller.weights} memory holds batch {smaller.batch}"
    return f"{batch}: {smaller.gain:.1f} times the tokens per second of the best baseline, without a draft."


def _behind(a: Advice, p: Pick) -> float:
    """The factor by which a configuration is worse than the choice."""
    assert a.chosen is not None
    if a.query.has_load:
        return _request_s(a, p) / _request_s(a, a.chosen)
    return (a.gain(a.chosen) or 1.0) / (a.gain(p) or 1.0)


def _request_s(a: Advice, p: Pick) -> float:
    """The mean time of a request under a load."""
    assert a.query.output_len is not None
    return (p.ttft_s or 0.0) + (a.query.output_len - 1) * p.tpot_s
