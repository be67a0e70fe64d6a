"""Computes tokens per iteration (Omega) from all forms in which acceptance is reported.

A draft of gamma tokens is accepted up to its first refused token, and verification adds one token. `alpha` is
the probability that a token is accepted, given that all earlier tokens of the iteration were accepted. a_j is
this probability at position j. The survival s_j is the product a_1 ... a_j, with s_0 = 1. Arrays are float64
and broadcast over [batch, context, gamma]. Positions are the last axis. See docs/model.md, section 3, and
Leviathan et al. 2023, arXiv 2211.17192.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InputError, refuse
from perfmodel.immutable import Immutable
from perfmodel.operations import Array, Floats
from perfmodel.specs import AcceptanceRow
from perfmodel.specs.acceptance.acceptance_library import LEAST_KNOWN
from perfmodel.speculation.isotonic import pooled

BEYOND_MEASURED = 2
"""Largest number of positions beyond the measured ones to which an acceptance is extrapolated."""
MAX_POSITIONS = 4096
"""The longest draft for which the survival is computed, in tokens."""

_STEPS = 200
"""Largest number of steps of Newton's method."""
_ENOUGH = 1e-15
"""Newton's method ends at a step of this size."""
_LEAST_GAIN = 1e-9
"""Replaces a gain of 0 tokens in a division."""


def tokens_per_iteration(gamma: Floats, alpha: Floats) -> Floats:
    """Tokens per iteration: Omega = (1 - alpha^(gamma+1)) / (1 - alpha), and gamma + 1 at alpha = 1. The
    relative error is below 1e-14.

    `gamma` and `alpha` broadcast. Raises InputError for alpha outside [0, 1] or gamma below 0.
    """
    _require("alpha", alpha, 0, 1)
    _require("gamma", gamma, 0, np.inf)
    refused = np.subtract(1.0, alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        closed = -np.expm1(np.add(gamma, 1.0) * np.log1p(-refused)) / refused
    return np.where(refused > 0, closed, np.add(gamma, 1.0))[()]


def alpha_from_tokens_per_iteration(omega: Floats, gamma: Floats) -> Floats:
    """The constant acceptance alpha with Omega(gamma, alpha) = omega. The arguments broadcast. gamma is a
    whole number from 1.

    Alpha is found by Newton's method, which starts from alpha = 1. Omega is convex and rising in alpha, so
    the steps approach the solution from above. Raises InputError for omega outside [1, gamma + 1].
    """
    omega, gamma = np.broadcast_arrays(np.asarray(omega, np.float64), np.asarray(gamma, np.float64))
    _whole("gamma", gamma, 1)
    _check_tokens(omega, gamma)
    order = np.arange(1.0, gamma.max() + 1)
    used = order <= gamma[..., None]
    alpha = np.ones_like(omega)
    for _ in range(_STEPS):
        powers = used * alpha[..., None] ** (order - 1)
        step = (1 + alpha * powers.sum(-1) - omega) / (powers @ order)
        alpha = np.maximum(alpha - step, 0.0)
        if np.max(np.abs(step)) <= _ENOUGH:
            break
    return alpha[()]


def conditional_from_survival(survival: npt.ArrayLike) -> Array:
    """Conditional acceptance a_1 ... a_gamma from survival s_0 ... s_gamma. It is 0 at positions that are
    never reached.

    Raises InputError unless s_0 = 1, and survival never rises and is within [0, 1].
    """
    s = np.asarray(survival, np.float64)
    _require("survival", s, 0, 1)
    if not (s.size and np.all(s[..., 0] == 1) and np.all(np.diff(s, axis=-1) <= 0)):
        raise InputError("survival: must start at 1 and never rise")
    before = s[..., :-1]
    return np.divide(s[..., 1:], before, out=np.zeros_like(before), where=before > 0)


class Acceptance(Immutable):
    """The acceptance of drafted tokens for every gamma up to `max_gamma`. The functions whose names begin
    with ``from_`` create an acceptance.

    `prefix` has the acceptance of the first positions: a_1, a_2 and so on. `tail` is the constant acceptance
    of all later positions. If `tail` is None, the acceptance of later positions is unknown, and longer drafts
    are refused.

    - measured_to: the last position to which `tail` applies unchanged. Each later position has `decay` times
      the acceptance of the position before. A draft longer than `measured_to` + `BEYOND_MEASURED` is refused.
      None means that `tail` applies to all later positions.
    - measured_at: the measured draft lengths. The acceptance at other lengths is modelled. It is empty if
      every position was measured.
    - spread: standard deviation of ln(tokens per iteration) at the longest measured length. It is the spread
      between texts, or the uncertainty at a context that was not measured.
    - bins: see `AcceptanceRow`.
    - measured_context: the longest context in tokens at which the acceptance was measured. It is None if this
      is unknown, or if the acceptance applies at every context.
    - head: the Hugging Face id of the head for which the acceptance was published. It is None for an
      acceptance from another source, and for a draft without a named head.
    - tasks: the kinds of text for which the acceptance was published, such as ``chat``. It is empty for an
      acceptance from another source.
    """

    source: str
    prefix: tuple[float, ...] = ()
    tail: float | None = None
    measured_at: tuple[float, ...] = (1.0,)
    spread: float = 0.0
    bins: tuple[tuple[float, tuple[float, ...]], ...] = ()
    measured_to: int | None = None
    decay: float = 1.0
    measured_context: float | None = None
    head: str | None = None
    tasks: tuple[str, ...] = ()

    @classmethod
    def from_alpha(cls, alpha: float, source: str = "given alpha") -> "Acceptance":
        """An acceptance that is the same at every position. Raises InputError for an alpha outside [0, 1]."""
        _require("alpha", alpha, 0, 1)
        return cls(source, tail=float(alpha))

    @classmethod
    def from_tokens_per_iteration(
        cls, omega: float, gamma: float, source: str = "given tokens", decay: float | None = None
    ) -> "Acceptance":
        """An acceptance with the constant alpha that gives `omega` tokens per iteration at draft length
        `gamma`.

        - decay: acceptance of each position beyond `gamma`, divided by the acceptance of the position before.
          None means that alpha is the same at every position.
        """
        alpha = float(alpha_from_tokens_per_iteration(omega, gamma))
        whole = cls(source, tail=alpha, measured_at=(float(gamma),))
        return whole if decay is None else whole.replace(measured_to=int(gamma), decay=decay)

    @classmethod
    def from_positions(cls, positions: Sequence[float], source: str = "given positions") -> "Acceptance":
        """An acceptance with the given conditional acceptance a_1 ... a_gamma. Longer drafts are refused."""
        _require("positions", np.asarray(positions, np.float64), 0, 1)
        if not 1 <= len(positions) <= MAX_POSITIONS:
            raise refuse("positions", None, f"1 to {MAX_POSITIONS} rates", len(positions))
        return cls(source, prefix=tuple(float(a) for a in positions), measured_at=())

    @classmethod
    def from_lengths(
        cls,
        drafted: Sequence[int],
        omega: Sequence[float],
        source: str,
        survival: Sequence[float] = (),
        spread: float = 0.0,
        decay: float = 1.0,
    ) -> "Acceptance":
        """An acceptance that gives the tokens per iteration `omega` at the draft lengths `drafted`, which
        must rise.

        - survival: the probability that at least j drafted tokens are accepted, for j from 1. The survival is
          used instead of `omega` if it reaches the longest length.

        Published curves are noisy. The gain of each further token is therefore smoothed so that it never
        grows with the length (pool adjacent violators). Between two lengths, the conditional acceptance is
        constant. The acceptance is known up to the longest length. If the longest length is below
        `LEAST_KNOWN`, further positions up to `LEAST_KNOWN` are added, each with `decay` times the acceptance
        of the position before. Raises InputError for tokens per iteration outside [1, gamma + 1].
        """
        lengths, gains = _smoothed(np.asarray(drafted, np.float64), np.asarray(omega, np.float64))
        positions: list[float] = []
        if len(survival) >= lengths[-1]:
            falling = np.minimum.accumulate([1.0, *np.maximum(survival, 0.0)])
            positions = conditional_from_survival(falling).tolist()
        else:
            alive = 1.0
            for length, gain in zip(lengths, gains, strict=True):
                more = int(length) - len(positions)
                added = float(min(gain / alive, more)) if alive > 0 else 0.0
                alpha = float(alpha_from_tokens_per_iteration(1.0 + added, more))
                positions += [alpha] * more
                alive *= alpha**more
        while len(positions) < LEAST_KNOWN:
            positions.append(positions[-1] * decay)
        return cls(source, prefix=tuple(positions), measured_at=tuple(map(float, lengths)), spread=spread)

    @classmethod
    def from_ngram(cls, hit: float, run_length: float, source: str = "given n-grams") -> "Acceptance":
        """The acceptance of an n-gram draft that finds a match with probability `hit`. On average, the first
        `run_length` tokens (1 or more) of a match are right.

        The number of right tokens is assumed to be geometrically distributed with this mean, before it is cut
        at gamma. Therefore a_1 = hit, and every later a_j = 1 - 1/run_length.
        """
        _require("hit probability", hit, 0, 1)
        _require("run length", run_length, 1, np.finfo(float).max)
        return cls(source, prefix=(float(hit),), tail=1.0 - 1.0 / run_length)

    @classmethod
    def from_row(cls, row: AcceptanceRow) -> "Acceptance":
        """The acceptance of a measured row, with its source (see
        `specs.acceptance.acceptance_rows.find_acceptance`).
        """
        if row.positions is not None:
            of_row = cls.from_positions(row.positions, row.source).replace(bins=row.bins)
        elif row.alpha is not None:
            of_row = cls.from_alpha(row.alpha, row.source)
        else:
            raise InputError(f"{row.source}: must have alpha or positions")
        return of_row.replace(spread=row.spread, measured_context=row.measured_context)

    def extended(self, gamma: int, decay: float) -> "Acceptance":
        """A copy for drafts of up to `gamma` tokens. Each position beyond the known ones has `decay` times
        the acceptance of the position before.
        """
        known = len(self.prefix)
        if self.tail is not None or not known or gamma <= known:
            return self
        later = (self.prefix[-1] * decay ** (position + 1) for position in range(gamma - known))
        more = f"; each position beyond {known} at {decay:.2f} of the one before, as is usual"
        return self.replace(prefix=(*self.prefix, *later), source=self.source + more)

    def log_distance(self, gamma: npt.ArrayLike) -> Array:
        """Distance of each gamma from the nearest measured draft length m: |ln((gamma + 1) / (m + 1))|.

        The distance is 0 at gamma 0. If every position was measured, it is 0 at every gamma.
        """
        drafted = np.asarray(gamma, np.float64)
        if not self.measured_at:
            return np.zeros_like(drafted)
        apart = np.log((drafted[..., None] + 1.0) / (np.asarray(self.measured_at) + 1.0))
        return np.where(drafted == 0, 0.0, np.abs(apart).min(-1))

    def log_spread(self, gamma: npt.ArrayLike) -> Array:
        """Standard deviation of ln(tokens per iteration) between texts, at each gamma. The number of
        accepted tokens is assumed to have the same relative spread at every length.
        """
        drafted = np.asarray(gamma)
        if not self.spread:
            return np.zeros(drafted.shape)
        last = max(self.measured_at, default=len(self.prefix))
        tokens = self.tokens_per_iteration(drafted)
        longest = self.tokens_per_iteration(last)
        share = np.subtract(tokens, 1.0) / tokens
        return np.asarray(self.spread * share * longest / max(float(longest) - 1.0, _LEAST_GAIN))

    @property
    def alpha(self) -> float | None:
        """The conditional acceptance if it is the same at every position, otherwise None."""
        return None if self.prefix else self.tail

    @property
    def max_gamma(self) -> int | None:
        """The longest draft whose acceptance is known. None means that there is no limit."""
        if self.tail is None:
            return len(self.prefix)
        return None if self.measured_to is None else self.measured_to + BEYOND_MEASURED

    def survival(self, gamma_max: int) -> Array:
        """The survival s_0 ... s_gamma_max. The ``cumsum()`` of the survival gives Omega for each gamma.

        Raises InputError if gamma_max is above `max_gamma`.
        """
        if not 0 <= gamma_max <= MAX_POSITIONS:
            raise refuse("--gamma", None, f"from 0 to {MAX_POSITIONS}", gamma_max)
        longest = self.max_gamma
        if longest is not None and gamma_max > longest:
            beyond = "" if self.tail is None else f" and {BEYOND_MEASURED} more"
            allowed = f"at most {longest}, the positions that were measured{beyond} ({self.source})"
            raise refuse("--gamma", None, allowed, gamma_max)
        known = self.prefix[:gamma_max]
        accepted = np.ones(gamma_max + 1)
        accepted[1 : len(known) + 1] = known
        if self.tail is not None:
            accepted[len(known) + 1 :] = self.tail
        if self.tail is not None and self.measured_to is not None:
            later = np.arange(len(known) + 1, gamma_max + 1)
            accepted[len(known) + 1 :] *= self.decay ** np.maximum(later - self.measured_to, 0.0)
        return np.asarray(np.cumprod(accepted))

    def tokens_per_iteration(self, gamma: npt.ArrayLike) -> Array:
        """Tokens per iteration (Omega) at each gamma, including the bonus token. gamma is an array of whole
        numbers of any shape.

        Raises InputError if a gamma is above `max_gamma`.
        """
        g = np.asarray(gamma)
        _whole("gamma", g, 0)
        return np.asarray(self.survival(int(g.max(initial=0))).cumsum()[g.astype(np.int64)])

    def effective_alpha(self, gamma: int) -> float:
        """The constant alpha that gives the same tokens per iteration at this gamma, which must be 1 or
        more.
        """
        if self.alpha is not None:
            return self.alpha
        return float(alpha_from_tokens_per_iteration(self.tokens_per_iteration(gamma), float(gamma)))


def _smoothed(lengths: Array, omega: Array) -> tuple[Array, Array]:
    """The lengths, and the tokens that each length gains over the previous one. The gain per drafted token
    never grows with the length (`pooled`).
    """
    _require("gamma", lengths, 1, np.inf)
    _check_tokens(omega, lengths)
    widths = np.diff(lengths, prepend=0.0)
    each = np.maximum(np.diff(omega, prepend=1.0), 0.0) / widths
    falling, steps, _ = map(np.array, zip(*pooled(-each, widths), strict=True))
    return np.cumsum(steps), -falling * steps


def _brief(value: object) -> str:
    array = np.asarray(value)
    if array.size == 1:
        return f"{array.item():g}"
    return f"{array.size} values from {array.min():g} to {array.max():g}"


def _require(name: str, value: Floats, low: float, high: float) -> None:
    """Raises InputError for values outside [low, high] and for NaN."""
    array = np.asarray(value, np.float64)
    if array.size and not (array.min() >= low and array.max() <= high):
        if np.isfinite(high):
            allowed = f"in [{low:g}, {high:g}]"
        else:
            allowed = f"{low:g} or more"
        raise refuse(name, None, allowed, _brief(array))


def _whole(name: str, value: Array, low: int) -> None:
    """Refuses a value that is not a whole number in [low, MAX_POSITIONS]."""
    _require(name, value, low, MAX_POSITIONS)
    if value.dtype.kind == "f" and np.any(value != np.floor(value)):
        raise refuse(name, None, "a whole number", _brief(value))


def _check_tokens(omega: Array, gamma: Array) -> None:
    """Raises InputError for tokens per iteration outside [1, gamma + 1]."""
    if not np.all((omega >= 1) & (omega <= gamma + 1)):
        raise refuse(
            "tokens per iteration", None, f"in [1, gamma + 1] (gamma {_brief(gamma)})", _brief(omega)
        )
