"""The reason of a verdict in words: the time that an iteration saves, and the time that it adds."""

from perfmodel.answers.text import seconds
from perfmodel.costs.pass_time import LIMITERS
from perfmodel.speculation import Prediction


def reason(p: Prediction, limiter: str) -> str:
    """The reason as a part of a sentence: the time that an iteration saves, the time that it adds, and the
    largest part of the added time.

    - limiter: the resource or cost that takes most of the time of a baseline step (a key of
      `pass_time.LIMITERS`).
    """
    if int(p.gamma) == 0:
        return _of_the_baseline(p)
    added_s = {
        "draft steps": float(p.gamma * p.draft_s),
        "verifying more than one token": float(p.verify_s - p.target_s),
        "work outside the passes": float(p.overhead_s),
    }
    all_added_s = sum(added_s.values())
    largest = max(added_s, key=lambda part: added_s[part])
    tokens = float(p.tokens_per_iteration)
    saved_s = (tokens - 1.0) * float(p.target_s)
    verb = "and adds" if saved_s > all_added_s else "but adds"
    return (
        f"an iteration of {tokens:.2f} tokens saves {seconds(saved_s)} of baseline decoding (limited by "
        f"{LIMITERS[limiter]}) {verb} {seconds(all_added_s)} ({seconds(added_s[largest])} of it for "
        f"{largest})"
    )


def _of_the_baseline(p: Prediction) -> str:
    """The reason of gamma 0: no length is faster, or the question asks for the baseline."""
    if int(p.gamma_optimal) == 0:
        return "no draft length is faster than the baseline here, so gamma is 0"
    best = float(p.speedup_at_gamma_optimal)
    return f"gamma 0 is the baseline; gamma {int(p.gamma_optimal)} would give {best:.2f}x"
