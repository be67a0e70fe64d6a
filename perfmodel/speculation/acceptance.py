"""How many tokens one iteration of speculation gains: Omega, from every way acceptance is reported.

A draft of gamma tokens is accepted up to its first refused token, and verification adds one token of its own.
`alpha` is P(accept | all earlier ones of the iteration accepted); a_j the same at position j; survival
s_j = a_1 ... a_j, s_0 = 1. Arrays are float64 and broadcast over [batch, context, gamma]; positions are the last axis.
docs/model.md, section 3; Leviathan et al. 2023, arXiv 2211.17192.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InputError, refuse
from perfmodel.operations import Array, Floats
from perfmodel.specs.acceptance_rows import AcceptanceRow

MAX_GAMMA = 4096
"""Longest draft for which survival is tabulated."""

_QUADRATURE_NODES = 48
_STEPS, _ENOUGH = 200, 1e-15
"""Of Newton's method: at most so many, and until they are this small."""


def tokens_per_iteration(gamma: Floats, alpha: Floats) -> Floats:
    """Omega = (1 - alpha^(gamma+1)) / (1 - alpha), and gamma + 1 at alpha = 1; relative error below 1e-14.

    `gamma` and `alpha` broadcast. Raises InputError for alpha outside [0, 1] or gamma below 0.
    """
    _require("alpha", alpha, 0, 1)
    _require("gamma", gamma, 0, np.inf)
    refused = np.subtract(1.0, alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        closed = -np.expm1(np.add(gamma, 1.0) * np.log1p(-refused)) / refused
    return np.where(refused > 0, closed, np.add(gamma, 1.0))[()]


def alpha_from_tokens_per_iteration(omega: Floats, gamma: Floats) -> Floats:
    """The constant alpha with Omega(gamma, alpha) = omega; both broadcast, gamma a whole number from 1.

    Newton's method from alpha = 1: Omega is convex and rising, so the steps fall onto the root from above.
    Raises InputError for omega outside [1, gamma + 1].
    """
    omega, gamma = np.broadcast_arrays(np.asarray(omega, np.float64), np.asarray(gamma, np.float64))
    _whole("gamma", gamma, 1)
    if not np.all((omega >= 1) & (omega <= gamma + 1)):
        raise refuse("tokens per iteration", None, f"in [1, gamma + 1] (gamma {_brief(gamma)})", _brief(omega))
    order = np.arange(1.0, gamma.max() + 1)
    used = order <= gamma[..., None]
    alpha = np.ones_like(omega)
    for _ in range(_STEPS):
        powers = used * alpha[..., None] ** (order - 1)
        step = (1 + alpha * powers.sum(-1) - omega) / (powers @ order)
        alpha = np.clip(alpha - step, 0.0, 1.0)
        if np.max(np.abs(step), initial=0.0) <= _ENOUGH:
            break
    return alpha[()]


def survival_from_conditional(conditional: npt.ArrayLike) -> Array:
    """s_0 ... s_gamma, [..., gamma+1], from a_1 ... a_gamma, [..., gamma]. InputError outside [0, 1]."""
    a = np.asarray(conditional, np.float64)
    _require("conditional acceptance", a, 0, 1)
    return np.concatenate([np.ones((*a.shape[:-1], 1)), np.cumprod(a, -1)], -1)


def conditional_from_survival(survival: npt.ArrayLike) -> Array:
    """a_1 ... a_gamma from s_0 ... s_gamma; 0 at positions that are never reached.

    Raises InputError unless s_0 = 1 and survival falls or stays, within [0, 1].
    """
    s = np.asarray(survival, np.float64)
    _require("survival", s, 0, 1)
    if not (s.size and np.all(s[..., 0] == 1) and np.all(np.diff(s, axis=-1) <= 0)):
        raise InputError("survival: must start at 1 and never rise")
    before = s[..., :-1]
    return np.divide(s[..., 1:], before, out=np.zeros_like(before), where=before > 0)


def survival_from_histogram(counts: npt.ArrayLike) -> Array:
    """s_0 ... s_gamma from gamma+1 counts, [..., gamma+1], of iterations that accepted 0 ... gamma draft tokens."""
    n = np.asarray(counts, np.float64)
    _require("histogram", n, 0, np.inf)
    reached = np.flip(np.cumsum(np.flip(n, -1), -1), -1)
    if not (n.size and np.all(reached[..., 0] > 0)):
        raise InputError("histogram: must have a count above 0")
    return reached / reached[..., :1]


def tokens_from_survival(survival: npt.ArrayLike) -> Floats:
    """Omega = s_0 + ... + s_gamma: the accepted length with the bonus token."""
    omega: Floats = np.sum(np.asarray(survival, np.float64), -1)
    return omega


def tokens_from_conditional(conditional: npt.ArrayLike) -> Floats:
    """Omega = 1 + sum over j of a_1 ... a_j."""
    return tokens_from_survival(survival_from_conditional(conditional))


def accepted_from_tokens(omega: Floats) -> Floats:
    """Accepted length without the bonus token: Omega - 1. InputError for omega below 1."""
    _require("tokens per iteration", omega, 1, np.inf)
    return np.subtract(omega, 1.0)


def tokens_from_accepted(accepted: Floats) -> Floats:
    """Omega from the accepted length without the bonus token. InputError for a negative length."""
    _require("accepted length", accepted, 0, np.inf)
    return np.add(accepted, 1.0)


def accept_rate_from_tokens(omega: Floats, gamma: Floats) -> Floats:
    """Accepted over drafted tokens: (Omega - 1) / gamma. InputError outside [1, gamma + 1] or for gamma below 1."""
    _check_tokens(omega, gamma, least_gamma=1)
    return np.subtract(omega, 1.0) / gamma


def tokens_from_accept_rate(rate: Floats, gamma: Floats) -> Floats:
    """Omega = 1 + rate * gamma. InputError for a rate outside [0, 1] or gamma below 1."""
    _require("accept rate", rate, 0, 1)
    _require("gamma", gamma, 1, np.inf)
    return 1.0 + np.multiply(rate, gamma)


def sigma_from_tokens(omega: Floats, gamma: Floats) -> Floats:
    """sigma = Omega / (gamma + 1): the share of the most an iteration could gain. InputError as above."""
    _check_tokens(omega, gamma, least_gamma=0)
    return np.divide(omega, np.add(gamma, 1.0))


def tokens_from_sigma(sigma: Floats, gamma: Floats) -> Floats:
    """Omega = sigma * (gamma + 1). InputError for sigma outside [1/(gamma+1), 1]."""
    omega = np.multiply(sigma, np.add(gamma, 1.0))
    _require("sigma", sigma, 0, 1)
    # sigma = 1/(gamma+1) may round to a hair under one token
    if np.any(omega < 1 - 1e-12):
        raise refuse("sigma", None, "in [1/(gamma + 1), 1]", _brief(sigma))
    return np.maximum(omega, 1.0)


@cache
def beta_survival(a: float, b: float, gamma_max: int, weighting: str = "iteration") -> Array:
    """s_0 ... s_gamma_max of a mixture over requests, alpha ~ Beta(a, b); its cumulative sum is Omega by gamma.

    ``iteration``: the mean over iterations, Omega = sum of B(a+j, b) / B(a, b).
    ``request``: requests that each need the same number of tokens, Omega = 1 / E[1/Omega(alpha)] (Gauss-Jacobi).
    The result is kept and read-only.
    """
    j = np.arange(gamma_max + 1.0)
    if weighting == "iteration":
        return _read_only(survival_from_conditional((a + j[:-1]) / (a + b + j[:-1])))
    alpha, weight = beta_nodes(a, b)
    by_gamma = 1.0 / (weight @ (1.0 / np.cumsum(alpha[:, None] ** j, -1)))
    return _read_only(np.diff(by_gamma, prepend=0.0))


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def beta_nodes(a: float, b: float) -> tuple[Array, Array]:
    """Nodes and weights of E[f(x)], x ~ Beta(a, b): Gauss-Jacobi by an eigenproblem (Golub and Welsch 1969)."""
    n = np.arange(1.0, _QUADRATURE_NODES)
    p, q = b - 1.0, a - 1.0
    s = 2 * n + p + q
    diagonal = np.concatenate([[(q - p) / (p + q + 2)], (q * q - p * p) / (s * (s + 2))])
    off = 4 * n * (n + p) * (n + q) * (n + p + q)
    below = s * s * (s + 1) * (s - 1)
    # at n = 1 the factors (n + p + q) and (s - 1) are one and the same
    off[0], below[0] = 4 * (1 + p) * (1 + q), (p + q + 2) ** 2 * (p + q + 3)
    band = np.sqrt(off / below)
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(band, 1) + np.diag(band, -1))
    return np.clip((1 + nodes) / 2, 0.0, 1.0), vectors[0] ** 2


def lockstep_tokens_per_iteration(survival: npt.ArrayLike, batch: Floats) -> Floats:
    """Tokens an iteration gains where all `batch` sequences advance by the least of them: sum of s_j^B.

    `survival` is [..., gamma+1]; `batch` broadcasts with the axes before the last.
    """
    _require("batch", batch, 1, np.inf)
    omega: Floats = np.sum(np.asarray(survival, np.float64) ** np.asarray(batch, np.float64)[..., None], -1)
    return omega


def static_batch_tokens_per_iteration(survival: npt.ArrayLike, batch: Floats, new_tokens: int) -> Floats:
    """Tokens per iteration and sequence of a batch that ends with its slowest sequence: N / E[max of B iterations].

    Each of `batch` independent sequences needs `new_tokens` (N); what its last iteration drafts beyond N is lost.
    Exact: E[max] = sum over n of 1 - (1 - F_n)^B with F_n = P(n iterations gain fewer than N tokens), from convolving
    the distribution of one iteration's gain, P(gain > j) = s_j (`survival`, one axis); what is less likely than 1e-30
    is left out, and as long as F_n is 1 iterations are taken many at a time. Takes about N * gamma operations. `batch`
    has any shape. Raises InputError for N outside [1, 100000].
    """
    s = np.asarray(survival, np.float64)
    _require("batch", batch, 1, np.inf)
    _require("new tokens", float(new_tokens), 1, 100_000)
    certain, unfinished = _unfinished(s - np.append(s[1:], 0.0), new_tokens)
    batches, where = np.unique(np.asarray(batch, np.float64), return_inverse=True)
    waiting = np.array([-np.expm1(size * np.log1p(-unfinished)).sum() for size in batches])
    omega: Floats = new_tokens / (certain + waiting)[where.reshape(np.shape(batch))]
    return omega


def _unfinished(gain: Array, new_tokens: int) -> tuple[int, Array]:
    """For how many n (from 0) F_n is 1, and F_n after that until it vanishes."""
    powers = [_likely(1, gain)]  # the sum of 2^k iterations' gains: its least value, and the probabilities from there
    while 2 * powers[-1][0] < new_tokens:
        least, mass = powers[-1]
        powers.append(_likely(2 * least, np.convolve(mass, mass)))
    iterations, (least, total) = 0, (0, np.ones(1))
    for k in reversed(range(len(powers))):
        start, mass = powers[k]
        if least + start + total.size + mass.size - 2 < new_tokens:
            ahead = _likely(least + start, np.convolve(total, mass))
            iterations, (least, total) = iterations + 2**k, ahead
    found: list[float] = []
    while True:
        least, total = least + 1, np.convolve(total, gain)[: max(new_tokens - least - 1, 0)]
        found.append(min(float(total.sum()), 1.0 - 2**-53))
        if found[-1] <= 1e-18:
            return iterations + 1, np.array(found)
        least, total = _likely(least, total)


def _likely(least: int, mass: Array) -> tuple[int, Array]:
    """A distribution from `least` on, without the ends that are next to impossible."""
    kept = np.flatnonzero(mass > 1e-30)
    return least + int(kept[0]), mass[kept[0] : kept[-1] + 1]


def one_more_pays(
    gamma: Floats, alpha: Floats, draft_ratio: Floats, verify_ratio: Floats, verify_rise: Floats, overhead_ratio: Floats
) -> npt.NDArray[np.bool_]:
    """True where drafting gamma + 1 tokens beats gamma: alpha^(gamma+1) / Omega > (c + dv) / (gamma c + v + o).

    c = (T_D + T_select)/T_T, v = T_V(gamma)/T_T, dv = v(gamma+1) - v(gamma), o = overhead/T_T; all broadcast. A local
    rule: v need not be convex and gamma = 0 stands apart, so the best gamma is a scan (docs/model.md, section 3).
    """
    gained = np.power(alpha, np.add(gamma, 1.0)) / tokens_per_iteration(gamma, alpha)
    paid = np.add(draft_ratio, verify_rise) / (np.multiply(gamma, draft_ratio) + verify_ratio + overhead_ratio)
    return np.asarray(gained > paid)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What a draft's tokens are worth, for any gamma up to `max_gamma`; build it with one of the `from_...`.

    `prefix` holds a_1, a_2, ... and `tail` the constant acceptance of all later positions (None: nothing is known of
    them, and a longer draft is refused). `alpha` is set where acceptance is one constant: a float or [batch, context].
    measured_at: the draft length at which a constant was measured, exact there and modelled elsewhere.
    """

    source: str
    alpha: Floats | None = None
    prefix: tuple[float, ...] = ()
    tail: float | None = None
    beta: tuple[float, float, str] | None = None
    measured_at: float = 1.0

    @classmethod
    def from_alpha(cls, alpha: Floats, source: str = "given alpha") -> "Acceptance":
        """The same conditional acceptance at every position. InputError outside [0, 1]."""
        _require("alpha", alpha, 0, 1)
        return cls(source, alpha=alpha)

    @classmethod
    def from_tokens_per_iteration(cls, omega: Floats, gamma: Floats, source: str = "") -> "Acceptance":
        """The constant alpha that gives `omega` tokens per iteration at `gamma`."""
        alpha = alpha_from_tokens_per_iteration(omega, gamma)
        text = source or f"alpha of {_brief(omega)} tokens per iteration at gamma {_brief(gamma)}"
        return cls(text, alpha=alpha, measured_at=float(np.max(gamma)))

    @classmethod
    def from_positions(cls, positions: Sequence[float], source: str = "given positions") -> "Acceptance":
        """Conditional acceptance a_1 ... a_gamma; drafts longer than that are refused."""
        _require("positions", np.asarray(positions, np.float64), 0, 1)
        if not 1 <= len(positions) <= MAX_GAMMA:
            raise refuse("positions", None, f"1 to {MAX_GAMMA} rates", len(positions))
        return cls(source, prefix=tuple(float(a) for a in positions))

    @classmethod
    def from_beta(cls, a: float, b: float, weighting: str = "iteration", source: str = "") -> "Acceptance":
        """Requests with alpha ~ Beta(a, b); `weighting` is ``iteration`` or ``request`` (see `beta_survival`)."""
        for name, value in (("a", a), ("b", b)):
            if not 1e-3 <= value <= 1e6:
                raise refuse("Beta mixture", name, "in [0.001, 1e6]", value)
        if weighting not in ("iteration", "request"):
            raise refuse("Beta mixture", "weighting", "iteration or request", weighting)
        return cls(source or f"alpha ~ Beta({a:g}, {b:g}), mean per {weighting}", beta=(float(a), float(b), weighting))

    @classmethod
    def from_decay(cls, alpha: float, decay: float, source: str = "") -> "Acceptance":
        """a_j = alpha decay^(j-1): what heads that see nothing of each other's tokens do. InputError outside [0, 1]."""
        _require("alpha", alpha, 0, 1)
        _require("decay", decay, 0, 1)
        text = source or f"alpha {alpha:g}, times {decay:g} at each further position"
        return cls(text, prefix=tuple(float(alpha * decay**j) for j in range(64)), tail=float(alpha * decay**64))

    @classmethod
    def from_ngram(cls, hit: float, run_length: float, source: str = "") -> "Acceptance":
        """An n-gram draft that finds a match with probability `hit`; then `run_length` (1 or more) tokens are right.

        Runs are geometric with that mean, before gamma cuts them: a_1 = hit, later a_j = 1 - 1/run_length.
        """
        _require("hit probability", hit, 0, 1)
        _require("run length", run_length, 1, np.finfo(float).max)
        text = source or f"n-gram hits {hit:g} of the time, runs of {run_length:g}"
        return cls(text, prefix=(float(hit),), tail=1.0 - 1.0 / run_length)

    @classmethod
    def from_row(cls, row: AcceptanceRow) -> "Acceptance":
        """A measured row (`specs.acceptance_rows.find_acceptance`), its source kept."""
        if row.positions is not None:
            return cls.from_positions(row.positions, row.source)
        if row.alpha is None:
            raise InputError(f"{row.source}: must have alpha or positions")
        return cls.from_alpha(row.alpha, row.source)

    def carried(self, gamma: npt.ArrayLike) -> Array:
        """How far a modelled acceptance is carried from where it was measured: |ln (gamma + 1)/(measured_at + 1)|.

        0 at positions that were measured each, and without a draft.
        """
        drafted = np.asarray(gamma, np.float64)
        if self.max_gamma is not None:
            return np.zeros_like(drafted)
        return np.where(drafted == 0, 0.0, np.abs(np.log((drafted + 1.0) / (self.measured_at + 1.0))))

    @property
    def max_gamma(self) -> int | None:
        """The longest draft this says anything of; None where there is no end."""
        ends = self.alpha is None and self.beta is None and self.tail is None
        return len(self.prefix) if ends else None

    def survival(self, gamma_max: int) -> Array:
        """s_0 ... s_gamma_max, [..., gamma_max + 1] after the axes of `alpha`; ``cumsum(-1)`` of it is Omega by gamma.

        Raises InputError for gamma_max above `max_gamma`.
        """
        if not 0 <= gamma_max <= MAX_GAMMA:
            raise refuse("gamma", None, f"in [0, {MAX_GAMMA}]", gamma_max)
        if self.alpha is not None:
            return np.asarray(self.alpha, np.float64)[..., None] ** np.arange(gamma_max + 1.0)
        if self.beta is not None:
            return beta_survival(self.beta[0], self.beta[1], gamma_max, self.beta[2])
        known = self.prefix[:gamma_max]
        if len(known) < gamma_max:
            if self.tail is None:
                allowed = f"at most {len(known)}, the positions that were measured ({self.source})"
                raise refuse("gamma", None, allowed, gamma_max)
            known += (self.tail,) * (gamma_max - len(known))
        return survival_from_conditional(known)

    def tokens_per_iteration(self, gamma: npt.ArrayLike) -> Floats:
        """Omega at each gamma (whole numbers, any shape; broadcast with the axes of `alpha`), the bonus token counted.

        Raises InputError for gamma above `max_gamma`.
        """
        g = np.asarray(gamma, np.float64)
        if self.alpha is not None:
            return tokens_per_iteration(g, self.alpha)
        _whole("gamma", g, 0)
        return np.cumsum(self.survival(int(g.max(initial=0))))[g.astype(np.int64)]

    def effective_alpha(self, gamma: int) -> Floats:
        """The constant alpha that would gain as many tokens at this gamma (1 or more)."""
        if self.alpha is not None:
            return self.alpha
        return alpha_from_tokens_per_iteration(self.tokens_per_iteration(gamma), float(gamma))


def _brief(value: object) -> str:
    array = np.asarray(value)
    return f"{array.item():g}" if array.size == 1 else f"{array.size} values from {array.min():g} to {array.max():g}"


def _require(name: str, value: Floats, low: float, high: float) -> None:
    """Refuse values outside [low, high] and NaN."""
    array = np.asarray(value, np.float64)
    if array.size and not (array.min() >= low and array.max() <= high):
        allowed = f"in [{low:g}, {high:g}]" if np.isfinite(high) else f"{low:g} or more"
        raise refuse(name, None, allowed, _brief(array))


def _whole(name: str, value: Array, low: int) -> None:
    """Refuse what is not a whole number in [low, MAX_GAMMA]."""
    _require(name, value, low, MAX_GAMMA)
    if np.any(value != np.floor(value)):
        raise refuse(name, None, "a whole number", _brief(value))


def _check_tokens(omega: Floats, gamma: Floats, least_gamma: int) -> None:
    """Refuse tokens per iteration outside [1, gamma + 1]."""
    _require("gamma", gamma, least_gamma, np.inf)
    _require("tokens per iteration", omega, 1, np.inf)
    if not np.all(np.less_equal(omega, np.add(gamma, 1.0))):
        raise refuse("tokens per iteration", None, f"in [1, gamma + 1] (gamma {_brief(gamma)})", _brief(omega))
