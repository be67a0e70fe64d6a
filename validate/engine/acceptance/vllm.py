"""vLLM's acceptance figures: counters of ``/metrics``, the JSON of ``vllm bench serve``, log lines (0.20 to
0.33).

In all of them a position's rate is survival: drafts whose token there was accepted, over all drafts.
"""

import itertools
import re
from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.reading import parse_json
from perfmodel.speculation.acceptance import MAX_GAMMA
from perfmodel.validate.engine.acceptance.counters import AcceptanceSubject, Counters
from perfmodel.validate.engine.acceptance.prometheus import samples
from perfmodel.validate.engine.text import floats, is_count

CONVENTION = "vLLM per-position counters: accepted at position j over all drafts (survival, not conditional)"
_POSITION = re.compile(r'(?:^|,)\s*position="(\d{1,9})"')
_LOG = re.compile(
    r"SpecDecoding metrics:.*?Accepted: (\d+) tokens, Drafted: (\d+) tokens, "
    r"Per-position acceptance rate: ([\d., ]*\d)"
)
WORDS = ("spec_decode_", "SpecDecoding metrics:", '"num_accepted_tokens_per_pos"')
BENCH = "spec_decode_per_position_acceptance_rates"


def read(where: str, text: str, subject: AcceptanceSubject) -> tuple[dict[str, Any], str]:
    """The rates of an acceptance file's row, and the convention that they came in. Raises InputError."""
    counters = read_counters(where, text)
    said = counters.draft_length_note(subject.lengths)
    return counters.rates(
        where, subject.draft, subject.lengths
    ), f"{CONVENTION}; {said}" if said else CONVENTION


def read_counters(where: str, text: str) -> Counters:
    """The counters in a text of any of the three kinds. Raises InputError."""
    if text.lstrip().startswith("{"):
        data = parse_json(where, text)
        return of_bench(where, data) if BENCH in data else _stated(where, data)
    if "SpecDecoding metrics:" in text:
        return _logged(where, text)
    drafts, accepted, tokens = _page(where, text)
    if drafts is None or not accepted:
        raise _lacking(where)
    generated, finished = (
        [value for _, value in samples(where, text, f"vllm:{name}")]
        for name in ("generation_tokens", "request_success")
    )
    decoded = sum(generated) - sum(finished) if generated and finished else None
    return Counters(drafts, tuple(accepted), tokens, decoded)


def of_bench(where: str, data: dict[str, Any]) -> Counters:
    """The counters of a ``vllm bench serve`` result: rates over all drafts of the run."""
    rates, drafts = data.get(BENCH), data.get("spec_decode_num_drafts")
    if not isinstance(rates, list) or not rates or not all(is_count(rate) and rate <= 1 for rate in rates):
        raise refuse(where, BENCH, "a list of rates from 0 to 1 by position", rates)
    if not is_count(drafts):
        raise refuse(where, "spec_decode_num_drafts", "a finite count, 0 or more", drafts)
    tokens = data.get("spec_decode_draft_tokens")
    generated, completed = data.get("total_output_tokens"), data.get("completed")
    return Counters(
        drafts=float(drafts),
        accepted=tuple(rate * drafts for rate in rates),
        draft_tokens=float(tokens) if is_count(tokens) else None,
        decoded=float(generated - completed) if is_count(generated) and is_count(completed) else None,
    )


def _stated(where: str, data: dict[str, Any]) -> Counters:
    """Totals that somebody wrote down under the counters' own names."""
    drafts, accepted = data.get("num_drafts"), data.get("num_accepted_tokens_per_pos")
    tokens = data.get("num_draft_tokens")
    if not isinstance(accepted, list) or not accepted or not all(map(is_count, [drafts, *accepted])):
        raise _lacking(where)
    return Counters(float(drafts), tuple(map(float, accepted)), float(tokens) if is_count(tokens) else None)  # type: ignore[arg-type]


def _lacking(where: str) -> InputError:
    return InputError(
        f"{where}: must hold spec_decode counters num_drafts and num_accepted_tokens_per_pos, finite "
        "and 0 or more"
    )


def _page(where: str, text: str) -> tuple[float | None, list[float], float | None]:
    """Drafts, those accepted by position, tokens drafted; several engines' counters are added."""
    prefix, positions = "vllm:spec_decode_num_", dict[int, float]()
    totals = [[v for _, v in samples(where, text, prefix + name)] for name in ("drafts", "draft_tokens")]
    for labels, value in samples(where, text, prefix + "accepted_tokens_per_pos"):
        at = _POSITION.search(labels)
        if not at:
            raise refuse(
                where, "spec_decode_num_accepted_tokens_per_pos", "labelled with its position", labels
            )
        positions[int(at[1])] = positions.get(int(at[1]), 0.0) + value
    if len(positions) > MAX_GAMMA:
        raise refuse(where, "positions", f"at most {MAX_GAMMA}", len(positions))
    if sorted(positions) != list(range(len(positions))):
        raise refuse(where, "positions", "0, 1, 2, ... without gaps", sorted(positions))
    drafts, tokens = (sum(values) if values else None for values in totals)
    return drafts, [positions[j] for j in range(len(positions))], tokens


def _logged(where: str, text: str) -> Counters:
    """All log lines together, each weighted by its drafts."""
    drafts = tokens = 0.0
    accepted: list[float] = []
    for found in _LOG.finditer(text):
        gained, drafted, *rates = floats(
            [found[1], found[2], *filter(None, found[3].replace(" ", "").split(","))]
        )
        if (
            not rates
            or not all(map(is_count, [gained, drafted]))
            or not all(0 <= rate <= 1 for rate in rates)
        ):
            raise refuse(where, "SpecDecoding metrics", "counts, and rates from 0 to 1 by position", found[0])
        count = gained / sum(rates) if sum(rates) else drafted / len(rates)
        accepted = [a + count * r for a, r in itertools.zip_longest(accepted, rates, fillvalue=0.0)]
        drafts, tokens = drafts + count, tokens + drafted
    if not accepted:
        raise InputError(f"{where}: its lines 'SpecDecoding metrics' must state a rate for each position")
    return Counters(drafts, tuple(accepted), tokens)
