"""The words of a point: its verdict, the reason, and warnings.

The only place where verdicts are worded, for the command line, the explorer and the notebooks.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from perfmodel.answers.question import CommonOptions, common_doubts, slowing
from perfmodel.answers.text import Note, seconds
from perfmodel.costs.pass_time import LIMITERS
from perfmodel.operations import Floats
from perfmodel.specs import BF16, ENGINES, Relation
from perfmodel.speculation import (
    Interval,
    Memory,
    Prediction,
    Scenario,
    doublings,
    is_measured,
    is_transferred,
    once,
    widening,
)

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
LIKELY: dict[Verdict, Verdict] = {"pays": "likely_pays", "does_not_pay": "likely_does_not_pay"}
"""A sure verdict -> the verdict of the same interval for a case without a measured speedup."""
PAYS: tuple[Verdict, Verdict] = ("pays", "likely_pays")
MAY_NOT_PAY: tuple[Verdict, ...] = ("too_close_to_call", "likely_does_not_pay", "does_not_pay")
SENTENCES: dict[str, str] = {
    "pays": "Speculation pays",
    "likely_pays": "Speculation likely pays",
    "does_not_pay": "Speculation does not pay",
    "likely_does_not_pay": "Speculation likely does not pay",
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
"""The same, as a cell of a table in the column "pays"."""
_WOULD = {
    "pays": "would pay",
    "likely_pays": "would likely pay",
    "does_not_pay": "would not pay",
    "likely_does_not_pay": "would likely not pay",
    "too_close_to_call": "would be too close to call",
    "unknown_acceptance": "would be undecided",
}
CLIFF = 1.1
"""A pass gets a warning if it takes this many times as long as one with one sequence or token less."""
MUCH_LONGER = 1.5
"""A verification that takes at most this many times as long for want of a split cache is only noted."""
WARN_PADDING = 1.25
"""Ratio of padded tokens to a batch's own tokens above which a warning is given."""
WARN_SLOWER = 0.01
"""Fraction by which a step with quantised weights must be longer for a warning."""
QUANTISING_SEQUENCES = 16
"""Number of sequences up to which quantising the inputs of a GEMM may take longer than its weights save."""
RESTS_ON: dict[Relation, str] = {
    "seen": "steps of this model on this device",
    "version": "steps of this model on this device, of other versions",
    "model": "steps of other models on this device",
    "gpu": "this device's kernels, and steps on other devices",
    "transferred": "another device's kernels",
    "maker": "the kernels of another vendor's device",
}
"""The engine's measurement that is nearest to the question -> a description of it."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The calibration of an answer: its name, stack and data, and whether it was made for this device.

    rests_on: the engine's measurement that is nearest to the question. None for a stack that is not a serving
    engine.
    """

    name: str
    stack: str
    kind: str
    fitted_on: tuple[str, ...]
    rests_on: str | None = None

    @classmethod
    def of(cls, scenario: Scenario) -> "Calibrated":
        """The calibration of a scenario. `kind` is ``transferred`` if it was made for another device, else
        the kind in its file.
        """
        c = scenario.machine.calibration
        gpu = scenario.machine.gpu
        rests_on = RESTS_ON[c.relation("target_s", scenario.target.name, gpu)] if c.errors else None
        if c.constants_of:
            rests_on = f"the constants of {ENGINES[c.constants_of]}"
        kind = "transferred" if is_transferred(scenario) else c.kind
        return cls(c.name, f"{c.stack} {c.version}".strip(), kind, c.fitted_on, rests_on)


def verdict(
    scenario: Scenario,
    context: float,
    speedup: float,
    interval: Interval | None,
    gamma: int,
    fits: bool = True,
) -> Verdict:
    """The verdict of a point. A point that does not fit never pays; otherwise the whole interval must be
    above 1, or below it, and the kind of case must be measured (`is_measured`), or the verdict is only
    likely.

    With a known defect of the engine that may slow this draft, no verdict says that speculation pays.
    """
    low, high = interval or (speedup, speedup)
    slow = slowing(scenario, context) is not None
    word: Any = verdicts(speedup, low, high, gamma, fits, is_measured(scenario), slow).item()
    return word


def verdicts(
    speedup: Floats,
    low: Floats,
    high: Floats,
    gamma: Floats,
    fits: Floats,
    measured: bool,
    slow: NDArray[np.bool_] | bool = False,
) -> NDArray[np.str_]:
    """`verdict` of many points. If an end of the interval is NaN, the speedup replaces it.

    measured: whether their kind of case has a measured speedup. slow: whether a known defect slows the draft.
    """
    low, high = (np.where(np.isnan(end), speedup, end) for end in (low, high))
    drafts = np.asarray(gamma) > 0
    above = drafts & (low > 1)
    pays, does_not_pay = (word if measured else LIKELY[word] for word in SURE)
    word = np.where(high <= 1, does_not_pay, "too_close_to_call")
    word = np.where(above, np.where(slow, "too_close_to_call", pays), word)
    word = np.where(drafts, word, "does_not_pay")
    return np.where(fits, word, "does_not_fit")


def does_not_fit(room: Memory[float], gamma: int, otherwise: Verdict) -> str:
    """What fits, and the verdict: ``at most batch 6 fits (with more memory it would pay)``."""
    fits = f"at most batch {room.max_batch} fits" if room.max_batch else "not one sequence fits"
    return f"{fits} (with more memory it {_WOULD[otherwise]})" if gamma else fits


def reason(p: Prediction, limiter: str) -> str:
    """One sentence: the time that an iteration saves, the time that it adds, and the term that decides.

    limiter: of a baseline step (`roofline.LIMITERS`).
    """
    best = float(p.speedup_at_gamma_optimal)
    if int(p.gamma) == 0:
        if int(p.gamma_optimal) == 0:
            return "no draft length is faster than the baseline here, so gamma is 0"
        return f"gamma 0 is the baseline; gamma {int(p.gamma_optimal)} would give {best:.2f}x"
    terms = {
        "draft steps": float(p.gamma * p.draft_s),
        "verifying more than one token": float(p.verify_s - p.target_s),
        "overhead outside the passes": float(p.overhead_s),
    }
    added = sum(terms.values())
    tokens = float(p.tokens_per_iteration)
    gained = (tokens - 1.0) * float(p.target_s)
    worst = max(terms, key=lambda name: terms[name])
    relation = "more" if gained > added else "no more"
    return (
        f"an iteration saves {seconds(gained)} of baseline decoding ({tokens:.2f} tokens; "
        f"limited by {LIMITERS[limiter]}), {relation} than the {seconds(added)} it adds "
        f"({worst}: {seconds(terms[worst])})"
    )


def warnings(
    question: CommonOptions,
    scenario: Scenario,
    batch: float,
    context: float,
    gamma: int,
    room: Memory[float],
) -> tuple[str, ...]:
    """Warnings about a point: doubts of its question, kernels, and what the calibration was fitted to."""
    return (
        *common_doubts(question, scenario, batch, context, gamma, room),
        *uncut(scenario, batch, context, gamma),
        *unlike_measured(scenario, batch, context, gamma),
        *steps_ahead(scenario, batch, context, gamma),
        *slower_than_wide(scenario, batch, context),
    )


def uncut(scenario: Scenario, batch: float, context: float, gamma: int) -> Iterator[str]:
    """A warning if the attention backend gives a verification to few multiprocessors, with the factor by
    which it takes longer.
    """
    machine = scenario.machine
    name = machine.attention.backend(scenario.target.head, scenario.precision.narrow_kv)
    if not gamma or name is None or machine.kv_reread is not None:
        return
    verify_s, once_s = (
        float(each.formulas.target.at(batch, context, gamma + 1.0, scenario.context_std))
        for each in (scenario, _reading_once(scenario))
    )
    if verify_s > CLIFF * once_s:
        longer = verify_s / once_s
        text = (
            f"{name} does not split the cache for several query tokens: verification takes "
            f"{longer:.1f} times as long as with one read of the cache (--attention-backend)"
        )
        yield text if longer > MUCH_LONGER else Note(text)


@once
def _reading_once(scenario: Scenario) -> Scenario:
    """The scenario in which every pass reads the cache once."""
    return scenario.on_same_shards(machine=replace(scenario.machine, kv_reread=1.0))


def steps_ahead(scenario: Scenario, batch: float, context: float, gamma: int) -> Iterator[str]:
    """Warnings about a CUDA graph much larger than its batch, and about a pass that takes much longer than
    with one sequence or token less.
    """
    runs = float(scenario.target_shard.rows(batch))
    tokens = batch * (gamma + 1)
    batches = np.array([[batch], [max(batch - 1.0, 1.0)]])
    queries = np.array([gamma + 1.0, max(gamma, 1.0), 1.0])
    target_s = np.broadcast_to(scenario.target_pass_s(batches, context, queries), (2, 3))
    padded = runs > batch
    climb = decoding = _climb(target_s[0, 2], (target_s[1, 2], batch))
    if padded and gamma and not climb:
        here_s, fewer_s = np.broadcast_to(scenario.draft_pass_s(batches, context), (2, 1)).ravel()
        climb = _climb(here_s, (fewer_s, batch))
    if runs >= WARN_PADDING * batch or (padded and climb):
        yield Note(
            f"CUDA graphs pad batch {batch:.0f} to {runs:.0f}: up to {runs:.0f} sequences take the same time"
        )
    if decoding and not padded:
        yield f"decoding {batch:.0f} sequences takes {decoding:.0%} longer than with one fewer"
    longer = _climb(target_s[0, 0], (target_s[1, 0], batch), (target_s[0, 1], gamma + 1.0))
    if gamma and longer:
        rows = float(scenario.target_shard.rows(tokens))
        graphs = f" (CUDA graphs: {rows:.0f})" if rows > tokens else ""
        yield (
            f"verifying {tokens:.0f} tokens{graphs} takes {longer:.0%} longer than with one sequence "
            "or token fewer"
        )


def _climb(here_s: float, *fewer: tuple[float, float]) -> float:
    """Fraction by which a pass takes longer than with one sequence or query less; 0 if it is small or
    proportional.

    fewer: seconds of a pass with one less, and the number to which that pass belongs.
    """
    more = (here_s / s - 1 for s, of in fewer if of > 1 and here_s > max(CLIFF, of / (of - 1)) * s > 0)
    return float(max(more, default=0.0))


def slower_than_wide(scenario: Scenario, batch: float, context: float) -> Iterator[str]:
    """A warning if quantised weights take longer here than 16-bit ones; it also says whether a measured step
    confirms this.
    """
    weights = scenario.precision.weights
    c = scenario.machine.calibration
    gpu = scenario.machine.gpu
    if weights.base.input_bytes is None or batch > QUANTISING_SEQUENCES:
        return  # nothing is quantised on the way, or loading decides
    wide = _with_wide_weights(scenario)
    slower = float(scenario.target_pass_s(batch, context)) / float(wide.target_pass_s(batch, context)) - 1.0
    if slower > WARN_SLOWER:
        evidence = (
            "as measured"
            if c.relation("target_s", scenario.target.name, gpu) == "seen"
            else "not measured here"
        )
        yield (
            f"a step with {weights.name} takes {slower:.0%} longer than with bf16: quantising the inputs of "
            f"small GEMMs takes time ({evidence})"
        )


@once
def _with_wide_weights(scenario: Scenario) -> Scenario:
    """The scenario with weights of 16 bits."""
    return replace(scenario, precision=scenario.precision.replace(weights=BF16))


def unlike_measured(scenario: Scenario, batch: float, context: float, gamma: int) -> Iterator[str]:
    """The parts of a question that are outside the measured rows behind an engine's calibration."""
    if (measured := scenario.machine.calibration.measured) is None:
        return
    kv = scenario.draft.kv.label()
    draft = scenario.draft.name
    wider = np.ravel(widening(scenario, np.asarray(batch), np.asarray(context), np.array([gamma])))[0]
    timed = f"{scenario.machine.calibration.name} was timed"
    so = f"intervals are {wider:.1f} times as wide"
    if scenario.target.name != measured.model:
        yield f"{timed} serving {measured.model}, not {scenario.target.name}: {so}"
    if gamma and (draft, kv) != (measured.draft, measured.draft_kv):
        yield f"{timed} with draft {measured.draft} ({measured.draft_kv}), not {draft} ({kv}): {so}"
    places = (
        ("batch", batch, measured.batch),
        ("context", context, measured.context),
        ("gamma", float(gamma), measured.gamma),
    )
    for name, value, (low, high) in places:
        shift = float(name == "gamma")
        if (gamma or not shift) and doublings(value + shift, (low + shift, high + shift)):
            yield f"{timed} at {name} {low:g} to {high:g}, not {value:g}: {so}"
