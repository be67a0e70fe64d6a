"""Predicts millions of points for one question, for planners, routers and simulators. The question is only
resolved once.
"""

from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from perfmodel.answers.declaration import argument, asks, question
from perfmodel.answers.question import Options, arguments as arg, resolve, resolve_costs, with_draft
from perfmodel.answers.readers import Whole, whole
from perfmodel.errors import InputError, in_names, refuse
from perfmodel.operations import Array, Floats
from perfmodel.queueing.prompts import PromptPrograms
from perfmodel.specs import UnknownAcceptance
from perfmodel.speculation import (
    MAX_BATCH,
    MAX_CONTEXT,
    MAX_GAMMA,
    Interval,
    Passes,
    Scenario,
    Workload,
    check_draft_length,
    interval_of,
    iteration_log_error,
    kv_cache_of,
    ratio_log_error,
    step_log_error,
)
from perfmodel.speculation.programs import PassPrograms

USUAL_CONTEXT = 4096
"""Context at which the acceptance is looked up if the question states no context."""
Counts = int | float | Array
"""A plain number, or an array of numbers."""


@question
class PredictorQuery(Options):
    """The arguments of ``pm.predictor``, which are those of ``pm.whatif`` without the batch.

    - context: the context at which the acceptance is looked up. The methods of `Predictor` have their own
      argument for the context of a prediction.
    - gamma: the draft length of calls that state none, and the length at which `tokens_per_iteration` was
      measured.
    """

    tp: arg.TP = argument(default=1)
    context: arg.Context = argument(default=USUAL_CONTEXT)
    gamma: Whole = argument(
        "Number of drafted tokens per iteration for calls that do not set gamma.",
        "N",
        "-g",
        read=whole,
        limits=(0, MAX_GAMMA),
        default=0,
    )
    draft_kv: arg.DraftKV = argument(default=None)
    alpha: arg.Alpha = argument(default=None)
    rate: arg.ChainRate = argument(default=None)


@asks(PredictorQuery)
def predictor(query: PredictorQuery) -> "Predictor":
    """Resolve a question once and return a `Predictor`. The methods of the `Predictor` return the times of
    `whatif` and `traffic` in seconds, for any batch, context and draft length. A call takes microseconds.
    Raises InputError for an impossible question.
    """
    point = query.query(batch=1, gamma=query.gamma or None)
    try:
        return Predictor(query, resolve(point))
    except UnknownAcceptance:
        return Predictor(query, resolve_costs(with_draft(point)))


class Predictor:
    """Predicts the times of one server. If all arguments of a method are plain numbers, the result is a plain
    number. Arrays are broadcast, and the result is an array.

    All times are in seconds.

    - batch: number of sequences that decode together.
    - context: cached tokens per sequence.
    - gamma: drafted tokens per sequence and iteration; None means the gamma of the question.

    All methods raise InputError for numbers out of range.
    """

    def __init__(self, question: PredictorQuery, scenario: Scenario) -> None:
        check_draft_length(scenario.draft, question.gamma)
        self.question = question
        self.scenario = scenario
        self.gamma = question.gamma
        most = question.max_gamma if scenario.draft.max_gamma is None else scenario.draft.max_gamma
        self.max_gamma = max(min(question.max_gamma, most), question.gamma)
        self._deviation = float(question.context_std)
        gammas = np.arange(self.max_gamma + 1)
        passes = scenario.drafting(gammas)
        share = 0.0 if passes.share is None else passes.share
        self._draft_query = np.broadcast_to(passes.query, gammas.shape)
        self._draft_share = np.broadcast_to(share, gammas.shape)
        known_to = 0 if scenario.acceptance is None else scenario.longest(self.max_gamma)
        self._gained = scenario.tokens_per_iteration(gammas[: known_to + 1])

    def __repr__(self) -> str:
        machine = self.scenario.machine
        where = f"{machine.tensor_parallel} x {machine.gpu.label}"
        return f"Predictor({self.scenario.target.name} on {where}, draft {self.scenario.draft.name})"

    def step_s(self, batch: Counts, context: Counts) -> Floats:
        """Time of a decoding step without speculation, in seconds. The value equals `target_step.predicted_s`
        of `whatif`.
        """
        return self.verify_s(batch, context, 0)

    def verify_s(self, batch: Counts, context: Counts, gamma: Counts | None = None) -> Floats:
        """Time of the target's pass over gamma + 1 tokens of each sequence, in seconds."""
        sequences, cached, drafted = self._point(batch, context, gamma)
        return self._passes.target.at(sequences, cached, drafted + 1.0, self._deviation)

    def draft_s(self, batch: Counts, context: Counts, gamma: Counts | None = None) -> Floats:
        """Drafting time per drafted token, in seconds. This includes the time in which a sparse draft selects
        the cached tokens that it reads.
        """
        sequences, cached, drafted = self._point(batch, context, gamma)
        query = _looked_up(self._draft_query, drafted)
        return self._passes.draft.at(sequences, cached, query) * _looked_up(self._draft_share, drafted)

    def iteration_s(self, batch: Counts, context: Counts, gamma: Counts | None = None) -> Floats:
        """Time of an iteration, in seconds: drafting gamma tokens, verifying them, and the overhead. With
        gamma 0, the result is the time of a decoding step without speculation.
        """
        return self._iteration_s(*self._point(batch, context, gamma), self._deviation)

    def tokens_per_iteration(self, gamma: Counts | None = None) -> Floats:
        """Expected number of output tokens per iteration of one sequence. Raises InputError if no acceptance
        is known.
        """
        _, _, drafted = self._point(1, 1, gamma)
        known_to = self._gained.size - 1
        if np.max(drafted) > known_to:
            raise self._refusal(f"--alpha: must be given for gamma above {known_to}: no acceptance is known")
        return _looked_up(self._gained, drafted)

    def tpot_s(self, batch: Counts, context: Counts, gamma: Counts | None = None) -> Floats:
        """Time per output token of one sequence, in seconds."""
        return self.iteration_s(batch, context, gamma) / self.tokens_per_iteration(gamma)

    def prefill_s(self, tokens: Counts, past: Counts = 0) -> Floats:
        """Time of a prefill pass over `tokens` new tokens of one prompt, in seconds.

        - past: number of tokens of the prompt that are already cached.
        """
        try:
            new, old = np.broadcast_arrays(tokens, past)
        except ValueError:
            raise self._refusal("tokens, past: must be numbers, or arrays that broadcast") from None
        if new.ndim == 0:
            return self.forward_s(np.reshape(new, 1), np.reshape(old, 1))
        each = [self.forward_s((n,), (o,)) for n, o in zip(new.flat, old.flat, strict=True)]
        return np.reshape(each, new.shape)

    def forward_s(self, new_tokens: ArrayLike, past_tokens: ArrayLike, gamma: int | None = None) -> float:
        """Time of a pass over a mixed batch, in seconds.

        - new_tokens, past_tokens: the number of new and of cached tokens of each request.

        A request with one new token and a cache decodes: one token with gamma 0, otherwise it drafts and
        verifies. All remaining requests are prompts or chunks of prompts. If the engine runs prompts in
        separate passes, as SGLang does, the result is the time of both passes.
        """
        _, _, drafted = self._point(1, 1, gamma)
        new, past = self._requests(new_tokens, past_tokens)
        decodes = (new == 1.0) & (past > 0.0)
        running = int(np.count_nonzero(decodes))
        seconds = 0.0
        if running:
            contexts = past[decodes]
            mean = float(contexts.mean())
            deviation = float(np.sqrt(np.square(contexts - mean).mean()))
            seconds = float(self._iteration_s(float(running), mean, drafted, deviation))
        if running < new.size:
            prompts = ~decodes
            decoding = running * (drafted + 1.0)
            seconds += self._prompts.added_s(new[prompts], past[prompts], decoding, bool(drafted))
        return seconds

    def interval_s(self, batch: float, context: float, gamma: int | None = None) -> Interval | None:
        """The 90 % interval of `iteration_s` at one batch, context and gamma, in seconds. A call takes
        milliseconds.

        The result is None if no error of the calibration is known.
        """
        if not all(isinstance(each, Real | None) for each in (batch, context, gamma)):
            raise self._refusal("batch, context, gamma: must be single numbers for an interval")
        sequences, cached, drafted = self._point(batch, context, gamma)
        step = self.scenario.target_step_at(sequences, cached, 1.0)
        step_error = step_log_error(self.scenario, step, float(sequences), float(cached))
        if step_error is None:
            return None
        passes = Passes(self.scenario, sequences, cached, np.array([drafted]))
        iteration_s = float(self.iteration_s(batch, context, gamma))
        ratio_error = ratio_log_error(self.scenario, passes, iteration_s / step.predicted_s) or 0.0
        error = iteration_log_error(self.scenario, float(step_error), ratio_error)
        return interval_of(iteration_s, error)

    @cached_property
    def kv_tokens(self) -> int:
        """The number of tokens that fit in the KV cache of one server, at the gamma of the question. A server
        logs this number when it starts.
        """
        return kv_cache_of(self.scenario, self.gamma, self.question.memory_fraction).kv_tokens

    @cached_property
    def _passes(self) -> PassPrograms:
        return self.scenario.formulas.compiled()

    @cached_property
    def _prompts(self) -> PromptPrograms:
        return PromptPrograms.of(self.scenario)

    def _iteration_s(self, batch: Floats, context: Floats, drafted: Any, deviation: float) -> Floats:
        verify = self._passes.target.at(batch, context, drafted + 1.0, deviation)
        if not np.any(drafted):
            return verify
        share = _looked_up(self._draft_share, drafted) * drafted
        draft = self._passes.draft.at(batch, context, _looked_up(self._draft_query, drafted)) * share
        overhead = self._passes.overhead.at(batch, context) * (drafted > 0)
        return draft + verify + overhead

    def _point(self, batch: Counts, context: Counts, gamma: Counts | None) -> tuple[Any, Any, Any]:
        """The numbers of a point as floats and a whole gamma, or as arrays. Raises InputError for values out
        of range.
        """
        drafted = self.gamma if gamma is None else gamma
        plain = isinstance(batch, int | float) and isinstance(context, int | float)
        drafts = type(drafted) is int and 0 <= drafted <= self.max_gamma  # True would be an index of its own
        if plain and drafts and 1 <= batch <= MAX_BATCH and 1 <= context <= MAX_CONTEXT:
            return float(batch), float(context), drafted
        workload = in_names(Workload.of)(batch, context, drafted)
        if workload.gamma.max() > self.max_gamma:
            raise self._refusal(f"--gamma: must be at most {self.max_gamma} (--max-gamma), given {gamma}")
        return workload.batch, workload.context, workload.gamma

    def _requests(self, new_tokens: ArrayLike, past_tokens: ArrayLike) -> tuple[Array, Array]:
        """New and cached tokens of each request. Raises InputError for values that are not a batch."""
        try:
            new = np.asarray(new_tokens, float)
            past = np.asarray(past_tokens, float)
        except (TypeError, ValueError, OverflowError):
            raise self._refusal("new_tokens, past_tokens: must be sequences of numbers") from None
        if new.ndim != 1 or new.shape != past.shape or not new.size:
            raise self._refusal("new_tokens, past_tokens: must have one entry per request, at least one")
        if not ((new >= 1.0).all() and (past >= 0.0).all() and (new + past <= MAX_CONTEXT).all()):
            allowed = f"new tokens from 1 and cached ones from 0, up to {MAX_CONTEXT:.0f} together"
            raise refuse("new_tokens, past_tokens", None, allowed, f"{new.tolist()}, {past.tolist()}")
        return new, past

    def _refusal(self, message: str) -> InputError:
        error = InputError(message)
        error.named = True
        return error


def _looked_up(table: Array, drafted: Any) -> Floats:
    """The values of a table by draft length, as a plain number for a plain length."""
    values: Array = table[drafted]
    return values if isinstance(drafted, np.ndarray) else float(values)
