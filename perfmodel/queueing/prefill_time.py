"""The time that prompts add to a pass, as a function of its prompt tokens and decoding tokens."""

from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from perfmodel.operations import Array, Floats
from perfmodel.specs.engines.served_requests import PassOrder

REMEMBERED = 4096
"""Number of passes with prompts whose times a replay remembers."""


@dataclass(frozen=True, slots=True, eq=False)
class PrefillTime:
    """The time that prompts add to a pass. The time of the layers depends on all tokens of the pass. The time
    of attention and of the draft depends only on the prompt tokens.

    - tokens, seconds: times of a pass without attention at some numbers of tokens. Between these numbers, the
      time is interpolated linearly.
    - token_s: seconds that attention and the draft take per prompt token.
    - pass_s: seconds that a pass takes in addition if it reads any prompts.
    - cached_s: seconds of attention for each pair of a prompt token and a cached token before it.
    - order: whether prompts share passes with decoding requests.
    - groups: number of data-parallel attention groups. A pass ends when the fullest group is done.
    - balanced: whether prompts wait until every group has one, so that they are evenly spread.
    - expert_seconds: the part of `seconds` that depends on the tokens of all groups.

    All other times depend on the tokens of the fullest group.
    """

    tokens: Array
    seconds: Array
    token_s: Array | float
    pass_s: float = 0.0
    cached_s: float = 0.0
    order: PassOrder = PassOrder.MIXED
    groups: int = 1
    expert_seconds: Array | float = 0.0
    balanced: bool = False

    @property
    def uneven_groups(self) -> int:
        """Number of groups that wait for the group with the most prompt tokens. It is 1 if all groups have
        the same number.
        """
        return 1 if self.balanced else self.groups

    @property
    def alone(self) -> bool:
        """Whether prompts run in separate passes, without decoding requests."""
        return self.order is not PassOrder.MIXED

    def slowed(self, factor: float) -> "PrefillTime":
        """A copy with all times multiplied by a factor."""
        times = ("seconds", "token_s", "pass_s", "cached_s", "expert_seconds")
        return replace(self, **{name: factor * getattr(self, name) for name in times})

    def __call__(self, decoding: Array, read: Array, fullest: Array | None = None) -> Array:
        """Seconds that `read` prompt tokens add to a pass that also runs `decoding` tokens.

        - fullest: prompt tokens of the fullest group, times the number of groups. None means that the tokens
          are evenly spread.
        """
        if fullest is None:
            fullest = read
        waiting_s = self._added_s(self.seconds - self.expert_seconds, decoding, fullest)
        if self.groups > 1:
            experts_s = np.broadcast_to(self.expert_seconds, self.tokens.shape)
            waiting_s += self._added_s(experts_s, decoding, read)
        return np.asarray(waiting_s + self.token_s * fullest + self.pass_s)

    def _added_s(self, seconds: Array, decoding: Array, read: Array) -> Array:
        """Seconds that prompt tokens add to the layers.

        - seconds: times of a pass at `tokens`.
        """
        if self.alone:
            return np.interp(read, self.tokens, seconds)
        both = np.interp(decoding + read, self.tokens, seconds)
        return np.maximum(both - np.interp(decoding, self.tokens, seconds), 0.0)

    def fullest_tokens(self, prompts: Array, tokens: Floats, alone: Array, left: Array) -> Array:
        """Mean prompt tokens of the fullest group in a pass that reads prompts, times the number of groups.

        Prompts are distributed evenly. Of N prompts at once, the fullest group therefore has N / groups,
        rounded up. Rounding up adds (groups - 1) / (2 groups) on average.

        - prompts: mean number of prompts that a pass reads. A part of a prompt counts as a fraction.
        - tokens, alone, left: as in `prompt_s_of`.
        """
        at_once = np.maximum(prompts * alone + (self.groups - 1.0) / 2.0, self.groups)
        return np.clip(at_once * tokens / alone, prompts * tokens, np.maximum(left, prompts * tokens))

    def for_numbers(self) -> Callable[[float, float, float], float]:
        """`__call__` as a function of plain numbers, which are faster than arrays. The third argument is the
        number of groups times the prompt tokens of the fullest group. Times are cached, because a replay
        repeats the same passes.
        """
        remembered = lru_cache(maxsize=REMEMBERED)
        token_s = float(self.token_s)
        pass_s = self.pass_s
        if self.groups == 1:
            layers_s = self._added_for_numbers(self.seconds)
            return remembered(lambda decoding, read, _: layers_s(decoding, read) + token_s * read + pass_s)
        waiting_s = self._added_for_numbers(self.seconds - self.expert_seconds)
        experts_s = self._added_for_numbers(np.asarray(self.expert_seconds))
        return remembered(
            lambda decoding, read, fullest: (
                waiting_s(decoding, fullest) + experts_s(decoding, read) + token_s * fullest + pass_s
            )
        )

    def _added_for_numbers(self, seconds: Array) -> Callable[[float, float], float]:
        """`_added_s` as a function of plain numbers."""
        knots = self.tokens.tolist()
        values = seconds.tolist()
        slopes = (np.diff(seconds) / np.diff(self.tokens)).tolist()
        last = len(knots) - 1

        def pass_s(tokens: float) -> float:
            knot = bisect(knots, tokens, 1, last) - 1
            return float(values[knot] + (tokens - knots[knot]) * slopes[knot])

        if self.alone:
            return lambda decoding, read: pass_s(read)
        return lambda decoding, read: max(pass_s(decoding + read) - pass_s(decoding), 0.0)


def prompt_s_of(
    prefill: PrefillTime,
    left: Array,
    decoding: Array,
    ending: Array,
    alone: Array,
    tokens: Floats,
    pairs: Floats = 0.0,
) -> Array:
    """Seconds that one prompt adds to a pass, at each running batch.

    - tokens: mean number of computed tokens of a prompt.
    - pairs: mean number of pairs of a computed token and a cached token of a prompt.
    - left: number of prompt tokens for which a pass has room.
    - decoding: number of other tokens in the pass.
    - ending: mean number of requests that end in the pass. This number is Poisson-distributed.
    - alone: number of passes that read a prompt if no other prompt shares them. Where groups are uneven, one
      group reads the prompt, and it has only its share of `left`.
    """
    # prompts of a pass that reads any, at most as many as fill it
    together = np.minimum(ending / -np.expm1(-alone * ending), left / tokens)
    fullest = prefill.fullest_tokens(together, tokens, alone, left) if prefill.uneven_groups > 1 else None
    return prefill(decoding, together * tokens, fullest) / together + prefill.cached_s * pairs
