"""Measured acceptance rates, which were published or come from a user's file. Rows are looked up by target,
draft, KV method and KV budget.

This module only looks up rows. `perfmodel.speculation.acceptance` computes tokens per iteration from a row.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from perfmodel.errors import InputError, about_file, shortened
from perfmodel.reading import data_folder, read_rows

CONTEXT_DRIFT = 0.11
"""Typical change of ln(tokens per iteration) when the context doubles. For several doublings, the squares of
the changes add up.

The value comes from the four steps between 1.4K, 4.6K and 7.8K tokens of DeepSeek-R1 with MTP at K = 1 and 3
(tokens per iteration in engine_speculation.csv: 1.72, 1.92, 1.81 and 2.30, 2.86, 2.52). How 0.11 was computed
is not recorded. The mean absolute change per doubling is 0.11. The root mean square of the steps, each
divided by the square root of its number of doublings, is 0.12. With EAGLE-3, Kimi-K2.5 went from 2.21 tokens
per iteration at 1K to 1.82 at 132K (public_runs.csv, local-inference-lab/rtx6kpro). This is a change of 0.19
in the logarithm. For this distance, the constant gives 0.29.
"""

HEAD_DRIFT = 0.16
"""The change that replaces `CONTEXT_DRIFT` for the published acceptance of separately trained heads. Their
acceptance falls further at long contexts than that of other drafts.

The value is the smallest one, rounded up, with which the low end of the 90 % interval covers 12 of 13
published runs of heads at 16K to 132K tokens. With `CONTEXT_DRIFT`, the low end covers 7 of them. The runs
are six of mlx-dspark (mlx_runs.csv, compared with its own runs at 130 tokens), four of Kimi-K2.5 with EAGLE-3
(public_runs.csv, local-inference-lab/rtx6kpro), and one each of Kimi-K3 with EAGLE-3
(lightseekorg/tokenspeed#1305), MiniMax-M3 with EAGLE-3 (vllm-project/vllm-project.github.io@c3a01c4) and
Qwen3.8-27B with DFlash2 (vllm-project/recipes#839). If each of the five sources is left out in turn, the
value from the others covers 11 of the 13 runs (85 %).
"""


@dataclass(frozen=True, slots=True)
class AcceptanceRow:
    """One measured acceptance. It is a constant conditional acceptance `alpha`, or the conditional acceptance
    at each position (`positions`, a_1 ... a_gamma).

    Exactly one of `alpha` and `positions` is set. `kv_budget_tokens` is None if the draft reads the whole
    cache.

    - counted_at: range of the contexts at which a server counted acceptance. None means only
      `context_tokens`.
    - spread: standard deviation of ln(tokens per iteration) at a context outside this range.
    - measured_context: the longest measured context in tokens, if the row is used at a longer context.
    - bins: groups of drafts by confidence. Each has its share of drafts and its conditional acceptance at
      each position. `positions` is the acceptance of all groups together.
    """

    source: str
    target: str
    draft: str
    draft_kv: str
    kv_budget_tokens: int | None
    context_tokens: float
    alpha: float | None
    positions: tuple[float, ...] | None = None
    counted_at: tuple[float, float] | None = None
    spread: float = 0.0
    bins: tuple[tuple[float, tuple[float, ...]], ...] = ()
    measured_context: float | None = None

    @property
    def subject(self) -> tuple[str, str, str, int | None]:
        """The fields that must match a question exactly: target, draft, KV method and KV budget."""
        return self.target, self.draft, self.draft_kv, self.kv_budget_tokens


@cache
def published_rows() -> tuple[AcceptanceRow, ...]:
    """The rows of the bundled ``results/published/acceptance_vs_context.csv``."""
    return read_rows(data_folder("results") / "published" / "acceptance_vs_context.csv", AcceptanceRow)


def positions_from_histogram(counts: Sequence[float]) -> tuple[float, ...]:
    """Conditional acceptance a_1 ... a_gamma from a histogram: gamma + 1 counts of the iterations that
    accepted 0 ... gamma tokens.

    A position that was never reached gets 0. Raises InputError if there are fewer than 2 counts, if a count
    is negative, or if all counts are 0.
    """
    if len(counts) < 2 or not all(math.isfinite(c) and c >= 0 for c in counts) or sum(counts) <= 0:
        raise InputError("histogram: must be 2 or more counts, none negative and not all 0")
    return positions_from_survival([sum(counts[j:]) for j in range(len(counts))])


def positions_from_survival(reached: Sequence[float]) -> tuple[float, ...]:
    """Conditional acceptance at each position, from the numbers of drafts with at least 0, 1, ... accepted
    tokens.
    """
    return tuple(after / before if before else 0.0 for before, after in itertools.pairwise(reached))


def positions_of_bins(bins: Sequence[tuple[float, Sequence[float]]]) -> tuple[float, ...]:
    """Conditional acceptance of all groups of drafts together, at each position. The result is 0 at positions
    that are never reached.
    """
    reached = [
        [share, *(share * math.prod(rates[:j]) for j in range(1, len(rates) + 1))] for share, rates in bins
    ]
    return positions_from_survival([sum(column) for column in zip(*reached, strict=True)])


class UnknownAcceptance(InputError):
    """The error that is raised if the acceptance of exactly this draft was not measured, or not at this
    context.

    All fields are parts of the message.

    - flag: the argument to change.
    - why: a description of the missing measurement.
    - remedy: the arguments that can be given instead.
    - known: the existing measurements.
    """

    def __init__(self, flag: str, why: str, remedy: str, known: str = "") -> None:
        super().__init__(f"{flag}: {why}; {remedy}" + (f"; {known}" if known else ""))
        self.flag = flag
        self.why = why
        self.remedy = remedy
        self.known = known


def find_acceptance(
    target: str,
    draft: str,
    kv_name: str,
    kv_budget: int | None,
    context: float,
    rows: Iterable[AcceptanceRow] | None = None,
    flag: str = "--alpha",
    named: str = "",
    doublings: float = 0.0,
) -> AcceptanceRow:
    """The acceptance that was measured for exactly this target, draft, KV method and KV budget, at this
    context.

    Between two measured contexts, the conditional acceptance is interpolated linearly in log(context). The
    field `source` of the result mentions this. Counters of a server apply at all contexts at which it
    counted. At other contexts they apply with a spread (`CONTEXT_DRIFT`). By default, `rows` are the
    published rows.

    - named: the name of the target for messages, if the user gave an alias.
    - doublings: a number of doublings. The row at the longest measured context also applies, with a spread,
      at contexts that are longer by at most this many doublings.

    Raises UnknownAcceptance if no row matches, or if the context is outside the measured contexts and no rule
    above applies.
    """
    subject = (target, draft, kv_name, kv_budget)
    if rows is None:
        return _of_subject(subject, context, published_rows(), flag, "--context", named, doublings)
    with about_file("--acceptance"):
        return _of_subject(subject, context, tuple(rows), "--acceptance", "--acceptance", named, doublings)


def _of_subject(
    subject: tuple[str, str, str, int | None],
    context: float,
    known: tuple[AcceptanceRow, ...],
    flag: str,
    beyond: str,
    named: str,
    doublings: float,
) -> AcceptanceRow:
    """`find_acceptance` among rows.

    - beyond: the flag to change at a context that was not measured.
    """
    target, draft, kv_name, kv_budget = subject
    measured = sorted((row for row in known if row.subject == subject), key=lambda row: row.context_tokens)
    remedy = f"give --draft {draft} with --alpha, --tokens-per-iteration or --acceptance FILE"
    what = f"{named or target} with draft {draft}, {_spell(kv_name, kv_budget)}"
    if not measured:
        have = sorted(
            {
                f"{shortened(r.target)} with draft {shortened(r.draft)}, "
                f"{_spell(shortened(r.draft_kv), r.kv_budget_tokens)}"
                for r in known
            }
        )
        shown = "; ".join(have[:3]) + ("; ..." if len(have) > 3 else "")
        raise UnknownAcceptance(
            flag, f"no acceptance is known for {what}", f"{remedy} (measured: {shown or 'none'})"
        )
    for row in measured:
        if row.context_tokens == context:
            return row
    first = measured[0]
    last = measured[-1]
    below = [row for row in measured if row.context_tokens < context]
    if 0 < len(below) < len(measured):
        return _between(below[-1], measured[len(below)], context, f"{flag}: {what}")
    end = last if below else first
    if end.counted_at is not None:
        return _beyond(end, end.counted_at, context)
    span = f"{first.context_tokens:g}" + (f" to {last.context_tokens:g}" if first is not last else "")
    if last.context_tokens < context <= last.context_tokens * 2.0**doublings:
        source = f"{last.source} (measured at {span} tokens: wider at {context:.0f})"
        spread = context_spread(math.log2(context / last.context_tokens))
        return replace(last, source=source, spread=spread, measured_context=last.context_tokens)
    raise UnknownAcceptance(
        beyond,
        f"acceptance of {what} was measured at {span} tokens, given {context:.0f}",
        remedy,
    )


def _beyond(row: AcceptanceRow, served: tuple[float, float], context: float) -> AcceptanceRow:
    """The row at a context. It has a spread if the server did not serve that context."""
    low, high = served
    doublings = max(math.log2(context / high), math.log2(low / context), 0.0)
    if not doublings:
        return row
    source = f"{row.source} (counted at {low:.0f} to {high:.0f} tokens: wider at {context:.0f})"
    return replace(row, source=source, spread=context_spread(doublings))


def context_spread(doublings: float, drift: float = CONTEXT_DRIFT) -> float:
    """The standard deviation of ln(tokens per iteration) at a context that is this many doublings away from a
    measured context.

    - drift: the deviation after one doubling.
    """
    return drift * math.sqrt(doublings)


def _spell(kv_name: str, kv_budget: int | None) -> str:
    return kv_name if kv_budget is None else f"{kv_name}:{kv_budget}"


def _between(low: AcceptanceRow, high: AcceptanceRow, context: float, where: str) -> AcceptanceRow:
    """Interpolates two rows of one subject linearly in log(context)."""
    one = low.positions if low.alpha is None else (low.alpha,)
    two = high.positions if high.alpha is None else (high.alpha,)
    if one is None or two is None or len(one) != len(two) or (low.alpha is None) != (high.alpha is None):
        contexts = f"{low.context_tokens:g} and {high.context_tokens:g}"
        why = f"{where}: rows at {contexts} tokens differ in kind or length, so {context:.0f} has no value"
        raise InputError(
            f"{why}; they are from {low.source}" + (f" and {high.source}" * (low.source != high.source))
        )
    share = math.log(context / low.context_tokens) / math.log(high.context_tokens / low.context_tokens)
    rates = tuple(a + share * (b - a) for a, b in zip(one, two, strict=True))
    names = low.source if low.source == high.source else f"{low.source}; {high.source}"
    contexts = f"{low.context_tokens:g} and {high.context_tokens:g} tokens"
    source = f"{names} (interpolated in log context between {contexts})"
    if low.alpha is not None:
        return AcceptanceRow(source, *low.subject, context, rates[0], None)
    return AcceptanceRow(source, *low.subject, context, None, rates)
