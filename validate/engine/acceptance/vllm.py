"""vLLM's acceptance figures: counters of ``/metrics``, the JSON of ``vllm bench serve``, log lines (0.20 to
0.33).

In all of them the rate of a position is survival: drafts whose token there was accepted, over all drafts.
"""

import itertools
import re
from dataclasses import dataclass
from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.reading import parse_json
from perfmodel.speculation.acceptance import MAX_POSITIONS
from perfmodel.validate.engine.acceptance.contexts import Contexts, octaves, quantile
from perfmodel.validate.engine.acceptance.counters import AcceptanceSubject, Counted, Counters
from perfmodel.validate.engine.acceptance.prometheus import samples
from perfmodel.validate.engine.formats.fields import found as value_at
from perfmodel.validate.engine.text import floats, is_count, parse_objects

CONVENTION = "vLLM per-position counters: accepted at position j over all drafts (survival, not conditional)"
_POSITION = re.compile(r'(?:^|,)\s*position="(\d{1,9})"')
_LOG = re.compile(
    r"SpecDecoding metrics:.*?Accepted: (?P<accepted>\d+) tokens, Drafted: (?P<drafted>\d+) tokens, "
    r"Per-position acceptance rate: (?P<rates>[\d., ]*\d)"
    r"|KV cache size: (?P<size>[\d,]*\d) tokens"
    r"|Running: (?P<running>\d+) reqs.*?KV cache usage: (?P<used>[\d.]+)%"
)
_BOUND = re.compile(r'(?:^|,)\s*le="(\+Inf|[\d.e+]+)"')
LENGTHS, ENDS = ("prompt", "generation"), (0.05, 0.95)
"""Histograms of requests by their tokens, and the shares of requests that end a range."""
LEAST_USED = 0.01
"""Least share of the cache in use from which a context is computed, because a line rounds the share to 0.1
%.
"""
WORDS = (
    "spec_decode_",
    "SpecDecoding metrics:",
    '"num_accepted_tokens_per_pos"',
    '"acceptance_histogram"',
)
OF_ANSWER, USAGE = "metrics.speculative_decoding", ("prompt", "completion")
"""Where an answer of vLLM (0.32) counts its verifications, and whose tokens it counts."""
BENCH = "spec_decode_per_position_acceptance_rates"


def read(where: str, text: str, subject: AcceptanceSubject) -> tuple[list[Counted], str]:
    """The rates of an acceptance file's rows, and the convention of the text. Raises InputError."""
    counts = _by_context(where, text, whole=bool(subject.context))
    for counters, _ in counts:
        counters.check(where)
    notes = "; ".join(
        dict.fromkeys(note for counters, _ in counts if (note := counters.draft_length_note(subject.lengths)))
    )
    rows = [
        (counters.rates(where, subject.draft, subject.lengths), contexts) for counters, contexts in counts
    ]
    return rows, f"{CONVENTION}; {notes}" if notes else CONVENTION


def _by_context(where: str, text: str, whole: bool) -> list[tuple[Counters, Contexts | None]]:
    """The counters of each octave of contexts in a log; for any other text, and with `whole`, all counters
    together.
    """
    if "SpecDecoding metrics:" in text and not whole and not _is_json(text):
        lines = _lines(where, text)
        drafts = [line.drafts for line, _ in lines]
        contexts = [context for _, context in lines]
        return [(_added([lines[i][0] for i in g]), held) for held, g in octaves(contexts, drafts)]
    return [(read_counters(where, text), served_contexts(where, text))]


def served_contexts(where: str, text: str) -> Contexts | None:
    """Contexts from the requests of a bench file, or from the histograms of a page of metrics; None without
    any.
    """
    if _is_json(text):
        answers = parse_objects(where, text)
        if any(value_at(answer, OF_ANSWER) for answer in answers):
            usage = ([value_at(each, f"usage.{of}_tokens") for each in answers] for of in USAGE)
            return Contexts.of_requests(*usage)
        data = parse_json(where, text)
        lists = [data.get(name) for name in ("input_lens", "output_lens")]
        completed, *totals = (
            data.get(name) for name in ("completed", "total_input_tokens", "total_output_tokens")
        )
        if not all(lists) and is_count(completed) and completed:
            lists = [[total / completed] if is_count(total) else None for total in totals]
        return Contexts.of_requests(*lists)
    inputs_histogram, outputs_histogram = (
        _histogram(where, text, f"vllm:request_{kind}_tokens") for kind in LENGTHS
    )
    if inputs_histogram is None or outputs_histogram is None:
        return None
    high = quantile(inputs_histogram.bounds, ENDS[1]) + quantile(outputs_histogram.bounds, ENDS[1])
    mean = inputs_histogram.mean + outputs_histogram.mean / 2
    low = min(max(quantile(inputs_histogram.bounds, ENDS[0]), 1.0), mean)
    return Contexts(mean, low, max(high, mean))


@dataclass(frozen=True, slots=True)
class _Histogram:
    """Cumulative counts by upper bound, and the mean of the counted values."""

    bounds: list[tuple[float, float]]
    mean: float


def _histogram(where: str, text: str, name: str) -> _Histogram | None:
    """The histogram over all engines of a page; None if it is missing or empty."""
    counts: dict[float, float] = {}
    for labels, value in samples(where, text, f"{name}_bucket"):
        bound = _BOUND.search(labels)
        if bound:
            at = float(bound[1].replace("Inf", "inf"))
            counts[at] = counts.get(at, 0.0) + value
    total, number = (sum(v for _, v in samples(where, text, f"{name}_{part}")) for part in ("sum", "count"))
    if counts and number:
        return _Histogram(sorted(counts.items()), total / number)
    return None


def _is_json(text: str) -> bool:
    return text.lstrip().startswith(("{", "["))


def read_counters(where: str, text: str) -> Counters:
    """The counters in a text of any of the three kinds. Raises InputError."""
    if _is_json(text):
        answers = parse_objects(where, text)
        if any(value_at(answer, OF_ANSWER) for answer in answers):
            return _of_answers(where, answers)
        data = parse_json(where, text)
        return of_bench(where, data) if BENCH in data else _stated(where, data)
    if "SpecDecoding metrics:" in text:
        return _added([line for line, _ in _lines(where, text)])
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
    rates = data.get(BENCH)
    drafts = data.get("spec_decode_num_drafts")
    if not isinstance(rates, list) or not rates or not all(is_count(rate) and rate <= 1 for rate in rates):
        raise refuse(where, BENCH, "a list of rates from 0 to 1 by position", rates)
    if not is_count(drafts):
        raise refuse(where, "spec_decode_num_drafts", "a finite count, 0 or more", drafts)
    tokens = data.get("spec_decode_draft_tokens")
    generated = data.get("total_output_tokens")
    completed = data.get("completed")
    decoded = None
    if is_count(generated) and is_count(completed):
        decoded = float(generated - completed)
    return Counters(
        drafts=float(drafts),
        accepted=tuple(rate * drafts for rate in rates),
        draft_tokens=float(tokens) if is_count(tokens) else None,
        decoded=decoded,
    )


def _of_answers(where: str, answers: list[dict[str, Any]]) -> Counters:
    """The histograms of answers (``--per-request-spec-decode-metrics``): verifications by accepted tokens."""
    counted = [value_at(answer, f"{OF_ANSWER}.acceptance_histogram") for answer in answers]
    for each in counted:
        if not isinstance(each, list) or len(each) < 2 or not all(map(is_count, each)):
            raise refuse(where, f"{OF_ANSWER}.acceptance_histogram", "a list of counts in each answer", each)
    passes = [sum(column) for column in itertools.zip_longest(*counted, fillvalue=0)]
    survivors = [float(sum(passes[length:])) for length in range(len(passes))]
    return Counters(survivors[0], tuple(survivors[1:]))


def _stated(where: str, data: dict[str, Any]) -> Counters:
    """Totals under the counters' own names."""
    drafts = data.get("num_drafts")
    accepted = data.get("num_accepted_tokens_per_pos")
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
    """Drafts, those accepted by position, and drafted tokens. The counters of several engines are added."""
    prefix = "vllm:spec_decode_num_"
    positions = dict[int, float]()
    totals = [[v for _, v in samples(where, text, prefix + name)] for name in ("drafts", "draft_tokens")]
    for labels, value in samples(where, text, prefix + "accepted_tokens_per_pos"):
        at = _POSITION.search(labels)
        if not at:
            raise refuse(
                where, "spec_decode_num_accepted_tokens_per_pos", "labelled with its position", labels
            )
        positions[int(at[1])] = positions.get(int(at[1]), 0.0) + value
    if len(positions) > MAX_POSITIONS:
        raise refuse(where, "positions", f"at most {MAX_POSITIONS}", len(positions))
    if sorted(positions) != list(range(len(positions))):
        raise refuse(where, "positions", "0, 1, 2, ... without gaps", sorted(positions))
    drafts, tokens = (sum(values) if values else None for values in totals)
    return drafts, [positions[j] for j in range(len(positions))], tokens


def _lines(where: str, text: str) -> list[tuple[Counters, float | None]]:
    """Every log line, with the mean context of the running sequences if earlier lines state the cache's size,
    the share in use and the number of requests.
    """
    lines: list[tuple[Counters, float | None]] = []
    size = context = None
    for found in _LOG.finditer(text):
        if found["size"]:
            size = float(found["size"].replace(",", ""))
        elif found["running"]:
            running = float(found["running"])
            used = floats([found["used"]])[0] / 100
            context = size * used / running if size and running and used >= LEAST_USED else None
        else:
            lines.append((_line(where, found), context))
    if not lines:
        raise InputError(f"{where}: its lines 'SpecDecoding metrics' must state a rate for each position")
    return lines


def _line(where: str, found: re.Match[str]) -> Counters:
    """One line. The rates of positions are relative to its drafts, whose number follows from them."""
    gained, drafted, *rates = floats(
        [found["accepted"], found["drafted"], *filter(None, found["rates"].replace(" ", "").split(","))]
    )
    if not all(map(is_count, [gained, drafted, *rates])) or max(rates) > 1:
        raise refuse(where, "SpecDecoding metrics", "counts, and rates from 0 to 1 by position", found[0])
    count = gained / sum(rates) if sum(rates) else drafted / len(rates)
    return Counters(count, tuple(count * rate for rate in rates), drafted)


def _added(lines: list[Counters]) -> Counters:
    """The sum of all lines, each weighted by its drafts."""
    columns = itertools.zip_longest(*(line.accepted for line in lines), fillvalue=0.0)
    return Counters(
        drafts=sum(line.drafts for line in lines),
        accepted=tuple(map(sum, columns)),
        draft_tokens=sum(line.draft_tokens or 0.0 for line in lines),
    )
