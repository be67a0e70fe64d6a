"""Decides the verdict of a point, and writes it in words."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.question import slowing
from perfmodel.operations import Floats
from perfmodel.speculation import Interval, Memory, Scenario, is_beyond_measured_context, is_measured

Verdict = Literal[
    "pays",
    "likely_pays",
    "too_close_to_call",
    "likely_does_not_pay",
    "does_not_pay",
    "unknown_acceptance",
    "does_not_fit",
]
SURE: tuple[Verdict, Verdict] = ("pays", "does_not_pay")
"""The certain verdicts."""
LIKELY: dict[Verdict, Verdict] = {"pays": "likely_pays", "does_not_pay": "likely_does_not_pay"}
"""A certain verdict -> the verdict that replaces it if no similar case was measured."""
PAYS: tuple[Verdict, Verdict] = ("pays", "likely_pays")
"""The verdicts with which speculation pays off."""
MAY_NOT_PAY: tuple[Verdict, ...] = ("too_close_to_call", "likely_does_not_pay", "does_not_pay")
"""The verdicts with which speculation may not pay off."""
SENTENCES: dict[str, str] = {
    "pays": "Speculation pays off",
    "likely_pays": "Speculation likely pays off",
    "does_not_pay": "Speculation does not pay off",
    "likely_does_not_pay": "Speculation likely does not pay off",
    "too_close_to_call": "Too close to call",
    "does_not_fit": "Does not fit in memory",
    "speculate": "Speculate",
    "likely_speculate": "Likely speculate",
    "do_not_speculate": "Do not speculate",
    "likely_do_not_speculate": "Likely do not speculate",
    "unknown_acceptance": "Undecided",
    "infeasible": "No feasible configuration",
}
"""Verdict of a point, or of `advise` -> its words."""
CELLS = {
    "pays": "yes",
    "likely_pays": "likely",
    "does_not_pay": "no",
    "likely_does_not_pay": "unlikely",
    "too_close_to_call": "unclear",
    "unknown_acceptance": "unknown",
    "does_not_fit": "no fit",
}
"""Verdict -> its word in the column "pays" of a table."""
_WOULD = {
    "pays": "would pay off",
    "likely_pays": "would likely pay off",
    "does_not_pay": "would not pay off",
    "likely_does_not_pay": "would likely not pay off",
    "too_close_to_call": "would be too close to call",
    "unknown_acceptance": "would be undecided",
}
"""Verdict for a larger memory -> its words."""


def verdict(
    scenario: Scenario,
    context: float,
    speedup: float,
    interval: Interval | None,
    gamma: int,
    fits: bool = True,
) -> Verdict:
    """The verdict of a point. The verdict is "pays" if the whole interval of the speedup is above 1, and
    "does not pay" if the whole interval is at most 1. In all other cases, the verdict is "too close to call".
    A point that does not fit in memory has its own verdict.

    If no similar case was measured (`is_measured`), the verdict is only "likely". "Pays" also becomes "likely
    pays" if the acceptance was only measured at shorter contexts. If a known defect of the engine may make
    this draft slower, "too close to call" replaces "pays".
    """
    low, high = interval or (speedup, speedup)
    slow = slowing(scenario, context) is not None
    beyond = is_beyond_measured_context(scenario, context)
    word: Any = verdicts(speedup, low, high, gamma, fits, is_measured(scenario), slow, beyond).item()
    return word


def verdicts(
    speedup: Floats,
    low: Floats,
    high: Floats,
    gamma: Floats,
    fits: Floats,
    measured: bool,
    slow: NDArray[np.bool_] | bool = False,
    beyond: NDArray[np.bool_] | bool = False,
) -> NDArray[np.str_]:
    """Like `verdict`, but for arrays of points.

    - low, high: ends of the interval; the speedup replaces an end that is NaN.
    - measured: whether similar cases were measured.
    - slow: whether a known defect makes the draft slower.
    - beyond: whether the acceptance was only measured at shorter contexts.
    """
    low = np.where(np.isnan(low), speedup, low)
    high = np.where(np.isnan(high), speedup, high)
    pays, does_not_pay = SURE if measured else (LIKELY["pays"], LIKELY["does_not_pay"])
    below_one = np.where(high <= 1, does_not_pay, "too_close_to_call")
    above_one = np.where(slow, "too_close_to_call", np.where(beyond, LIKELY["pays"], pays))
    drafting = np.where(low > 1, above_one, below_one)
    word = np.where(np.asarray(gamma) > 0, drafting, "does_not_pay")
    return np.where(fits, word, "does_not_fit")


NOT_ONE_FITS = "not one sequence fits"


def does_not_fit(room: Memory[float], gamma: int, otherwise: Verdict, margin_bytes: float = 0.0) -> str:
    """A text with the largest batch that fits in memory, and the verdict for a larger memory, such as ``at
    most batch 6 fits (with more memory it would pay off)``.

    - margin_bytes: memory that the engine can be started without (`Account.margin_bytes`).
    """
    if not room.max_batch and 0.0 < room.missing_bytes <= margin_bytes:
        fits = (
            f"fits only if {room.missing_bytes / 1e9:.1f} GB of the {margin_bytes / 1e9:.1f} GB that the "
            "engine leaves free are used, as with -ngl 999"
        )
        return f"{fits} (then it {_WOULD[otherwise]})" if gamma else fits
    fits = f"at most batch {room.max_batch} fits" if room.max_batch else NOT_ONE_FITS
    return f"{fits} (with more memory it {_WOULD[otherwise]})" if gamma else fits
