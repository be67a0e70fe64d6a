"""The possible reasons for a slow server that a text does not show, and the log lines of each engine that
would show them.
"""

from perfmodel.specs import serving_engines
from perfmodel.specs.engines.serving import Unseen

OF_ALL = "a power or clock limit, other programs on the device, another format than was asked"
OTHER = Unseen(
    step="layers or experts on the host, a fallback of the attention",
    draft=(
        "a verification that reads weights or cache once for each token, a draft that the host launches, "
        "prompts of other requests"
    ),
)
"""The possible reasons for an engine whose file states none."""


def unseen(stack: str, *, of_the_draft: bool) -> str:
    """The possible reasons for an engine, and how to find them in its log.

    - stack: the engine as a calibration names it.
    - of_the_draft: whether only steps with a draft are slow.
    """
    known = _of_engine(stack.partition(" ")[0])
    reasons = known.draft if of_the_draft else f"{known.step}, {OF_ALL}"
    if not known.shown_by:
        return reasons
    return f"{reasons}; its log from the start shows more of them: grep -iE '{known.shown_by}' LOG"


def _of_engine(word: str) -> Unseen:
    """The reasons in the engine's file, or in that of the engine from which it was forked."""
    engine = serving_engines().get(word)
    if engine is None:
        return OTHER
    if engine.unseen is None and engine.own_kernel is not None:
        return _of_engine(engine.own_kernel.over)
    return engine.unseen or OTHER
