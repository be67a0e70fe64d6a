"""Acceptance figures of vLLM, from the counters of ``/metrics``, the JSON of ``vllm bench serve``, log lines
(0.20 to 0.33), and the output of an example script.

In all of them, the rate of a position is the *survival*: the number of drafts whose token at this position
was accepted, divided by the number of all drafts.
"""

import itertools
import re
from dataclasses import dataclass
from typing import Any

from perfmodel.errors import InputError, refuse
from perfmodel.reading import parse_json
from perfmodel.speculation.acceptance import MAX_POSITIONS, alpha_from_tokens_per_iteration
from perfmodel.validate.engine.acceptance.contexts import Contexts, octaves, quantile
from perfmodel.validate.engine.acceptance.counters import (
    AcceptanceSubject,
    Counted,
    CountedText,
    Counters,
    states_positions,
)
from perfmodel.validate.engine.acceptance.prometheus import samples, total
from perfmodel.validate.engine.acceptance.vllm_printed import (
    OF_EXAMPLE,
    printed_contexts,
    printed_counters,
)
from perfmodel.validate.engine.formats.fields import value_at
from perfmodel.validate.engine.text import floats, is_count, is_json, parse_objects

CONVENTION = "vLLM per-position counters: accepted at position j over all drafts (survival, not conditional)"
_POSITION = re.compile(r'(?:^|,)\s*position="(\d{1,9})"')
_LOG = re.compile(
    r"SpecDecoding metrics:.*?Accepted: (?P<accepted>\d+) tokens, Drafted: (?P<drafted>\d+) tokens, "
    r"Per-position acceptance rate: (?P<rates>[\d., ]*\d)"
    r"|KV cache size: (?P<size>[\d,]*\d) tokens"
    r"|Running: (?P<running>\d+) reqs.*?KV cache usage: (?P<used>[\d.]+)%"
)
_MEAN = re.compile(
    r"SpecDecoding metrics:(?:.*?Mean acceptance length: (?P<mean>[\d.]+))?"
    r".*?Accepted: (?P<accepted>\d+) tokens, Drafted: (?P<drafted>\d+) tokens"
)
"""A line without the rates of positions (0.8)."""
_FIRST_ENGINE = re.compile(
    r"Speculative metrics: .*?Number of speculative tokens: (?P<length>\d+), Number of accepted tokens: "
    r"\d+, Number of draft tokens: (?P<drafted>\d+), Number of emitted tokens: (?P<emitted>\d+)"
)
"""A line of the engine before 0.9 (V0). Its totals count from the start of the server."""
_BOUND = re.compile(r'(?:^|,)\s*le="(\+Inf|[\d.e+]+)"')
LOW_END = 0.05
"""Quantile of lengths at which the range of contexts begins."""
HIGH_END = 0.95
"""Quantile of lengths at which the range of contexts ends."""
LEAST_USED = 0.01
"""Smallest share of the cache in use from which a context is computed. A line rounds the share to 0.1 %."""
WORDS = (
    "spec_decode_",
    "SpecDecoding metrics:",
    "Speculative metrics:",
    OF_EXAMPLE,
    '"num_accepted_tokens_per_pos"',
    '"acceptance_histogram"',
)
OF_ANSWER = "metrics.speculative_decoding"
"""The field in which an answer of vLLM (0.32) counts its verifications."""
TOTALS = "vLLM before 0.9: emitted tokens over drafts, bonus token included"
MEANS = "vLLM: accepted tokens over drafts, without rates of positions"
BENCH = "spec_decode_per_position_acceptance_rates"
"""The key of the rates by position in a result of ``vllm bench serve``."""


def read(where: str, text: str, subject: AcceptanceSubject) -> CountedText:
    """The rates for the rows of an acceptance file. Raises InputError."""
    first_engine = list(_FIRST_ENGINE.finditer(text))
    if first_engine:
        return CountedText([Counted(_of_totals(where, first_engine[-1]), None)], TOTALS)
    mean = _mean_of_lines(where, text, subject) or _mean_of_page(where, text)
    if mean is not None:
        return CountedText([Counted(mean, served_contexts(where, text))], MEANS)
    counts = _by_context(where, text, whole=bool(subject.context))
    for counters, _ in counts:
        counters.check(where)
    rows = []
    notes = [CONVENTION]
    for counters, contexts in counts:
        rates = counters.rates(where, subject.draft, subject.lengths)
        rows.append(Counted(rates, contexts))
        note = counters.draft_length_note(subject.lengths)
        if note and note not in notes:
            notes.append(note)
    return CountedText(rows, "; ".join(notes))


def draft_length(text: str) -> int | None:
    """The draft length that a log of vLLM before 0.9 states, or that follows from the means of a log or page
    without positions. None for any other text.
    """
    lines = _FIRST_ENGINE.findall(text)
    if lines:
        return int(lines[-1][0]) or None
    if is_json(text) or states_positions(text):
        return None
    drafts = total("", text, "vllm:spec_decode_num_drafts")
    if drafts:
        return round(total("", text, "vllm:spec_decode_num_draft_tokens") / drafts) or None
    lengths = {_length_of(line) for line in _MEAN.finditer(text)} - {None}
    return lengths.pop() if len(lengths) == 1 else None


def _length_of(line: re.Match[str]) -> int | None:
    """The draft length that follows from the mean length in a line; None if the line does not determine
    it.
    """
    gained = float(line["mean"] or 1.0) - 1.0
    accepted = float(line["accepted"])
    if gained <= 0.0 or not accepted:
        return None
    return round(float(line["drafted"]) * gained / accepted) or None


def _of_totals(where: str, line: re.Match[str]) -> dict[str, Any]:
    """The constant acceptance rate that gives the emitted tokens per draft. Raises InputError."""
    length = float(line["length"])
    drafted = float(line["drafted"])
    if not length or not drafted:
        raise InputError(f"{where}: counts no draft: nothing was drafted")
    return _constant(where, "Number of emitted tokens", float(line["emitted"]) * length / drafted, length)


def _constant(where: str, name: str, gained: float, length: float) -> dict[str, Any]:
    """The constant acceptance rate that gives `gained` tokens per draft of this length. Raises InputError."""
    if not 1.0 <= gained <= length + 1.0:
        allowed = f"from 1 to {length + 1:g} for each draft of {length:g} tokens"
        raise refuse(where, name, allowed, gained)
    return {"alpha": float(alpha_from_tokens_per_iteration(gained, length))}


def _mean_of_lines(where: str, text: str, subject: AcceptanceSubject) -> dict[str, Any] | None:
    """The constant rate of lines that state no positions; None for any other text."""
    if is_json(text) or states_positions(text):
        return None
    lines = list(_MEAN.finditer(text))
    if not lines:
        return None
    accepted = sum(float(line["accepted"]) for line in lines)
    drafted = sum(float(line["drafted"]) for line in lines)
    if not drafted:
        raise InputError(f"{where}: counts no draft: nothing was drafted")
    return _constant(where, "Accepted", 1.0 + accepted * subject.gamma / drafted, float(subject.gamma))


def _mean_of_page(where: str, text: str) -> dict[str, Any] | None:
    """The constant rate of a page without positions; None for any other text."""
    prefix = "vllm:spec_decode_num_"
    drafts = total(where, text, f"{prefix}drafts")
    accepted = total(where, text, f"{prefix}accepted_tokens")
    drafted = total(where, text, f"{prefix}draft_tokens")
    if not drafts or not drafted or states_positions(text):
        return None
    return _constant(where, "accepted_tokens", 1.0 + accepted / drafts, round(drafted / drafts))


def _by_context(where: str, text: str, whole: bool) -> list[tuple[Counters, Contexts | None]]:
    """The counters of each octave of contexts in a log; for any other text, and with `whole`, all counters
    together.
    """
    if "SpecDecoding metrics:" in text and not whole and not is_json(text):
        lines = _lines(where, text)
        counters = [of_line for of_line, _ in lines]
        drafts = [of_line.drafts for of_line in counters]
        groups = octaves([context for _, context in lines], drafts)
        return [(_added([counters[i] for i in group]), contexts) for contexts, group in groups]
    return [(read_counters(where, text), served_contexts(where, text))]


def served_contexts(where: str, text: str) -> Contexts | None:
    """The contexts of the requests in a file of answers or of ``vllm bench serve``, or those that follow from
    the histograms of a page of metrics. None if there are none.
    """
    if is_json(text):
        answers = parse_objects(where, text)
        if any(value_at(answer, OF_ANSWER) for answer in answers):
            prompts = [value_at(answer, "usage.prompt_tokens") for answer in answers]
            outputs = [value_at(answer, "usage.completion_tokens") for answer in answers]
            return Contexts.of_requests(prompts, outputs)
        return _bench_contexts(parse_json(where, text))
    if (printed := printed_contexts(where, text)) is not None:
        return printed
    inputs = _histogram(where, text, "vllm:request_prompt_tokens")
    outputs_histogram = _histogram(where, text, "vllm:request_generation_tokens")
    if inputs is None or outputs_histogram is None:
        return None
    longest = quantile(inputs.bounds, HIGH_END) + quantile(outputs_histogram.bounds, HIGH_END)
    shortest = max(quantile(inputs.bounds, LOW_END), 1.0)
    mean = inputs.mean + outputs_histogram.mean / 2
    return Contexts(mean, min(shortest, mean), max(longest, mean))


def _bench_contexts(run: dict[str, Any]) -> Contexts | None:
    """Contexts from the lengths of a run's requests, or from their means."""
    inputs = run.get("input_lens")
    outputs = run.get("output_lens")
    completed = run.get("completed")
    if (not inputs or not outputs) and is_count(completed) and completed:
        inputs = _mean(run.get("total_input_tokens"), completed)
        outputs = _mean(run.get("total_output_tokens"), completed)
    return Contexts.of_requests(inputs, outputs)


def _mean(tokens: object, completed: float) -> list[float] | None:
    """The mean length of the requests of a run; None if their tokens are not stated."""
    return [tokens / completed] if is_count(tokens) else None


@dataclass(frozen=True, slots=True)
class _Histogram:
    """Cumulative counts by upper bound, and the mean of the counted values."""

    bounds: list[tuple[float, float]]
    mean: float


def _histogram(where: str, text: str, name: str) -> _Histogram | None:
    """The histogram over all engines of a page; None if it is missing or empty."""
    counts: dict[float, float] = {}
    for labels, value in samples(where, text, f"{name}_bucket"):
        label = _BOUND.search(labels)
        if label:
            bound = float(label[1].replace("Inf", "inf"))
            counts[bound] = counts.get(bound, 0.0) + value
    number = total(where, text, f"{name}_count")
    if counts and number:
        return _Histogram(sorted(counts.items()), total(where, text, f"{name}_sum") / number)
    return None


def read_counters(where: str, text: str) -> Counters:
    """The counters in a JSON file, in printed text, in a log or on a page of metrics. Raises InputError."""
    if is_json(text):
        answers = parse_objects(where, text)
        if any(value_at(answer, OF_ANSWER) for answer in answers):
            return _of_answers(where, answers)
        data = parse_json(where, text)
        return of_bench(where, data) if BENCH in data else _stated(where, data)
    printed = printed_counters(where, text)
    if printed is not None:
        return printed
    if "SpecDecoding metrics:" in text:
        return _added([line for line, _ in _lines(where, text)])
    drafts, accepted, tokens = _page(where, text)
    if drafts is None or not accepted:
        raise _lacking(where)
    generated = [value for _, value in samples(where, text, "vllm:generation_tokens")]
    finished = [value for _, value in samples(where, text, "vllm:request_success")]
    decoded = sum(generated) - sum(finished) if generated and finished else None
    return Counters(drafts, tuple(accepted), tokens, decoded)


def of_bench(where: str, data: dict[str, Any]) -> Counters:
    """The counters in a result of ``vllm bench serve``. Its rates are relative to all drafts of the run.
    Raises InputError.
    """
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
    """The counters in the histograms of answers (``--per-request-spec-decode-metrics``). A histogram counts
    verifications by their number of accepted tokens. Raises InputError.
    """
    key = f"{OF_ANSWER}.acceptance_histogram"
    histograms = [value_at(answer, key) for answer in answers]
    for histogram in histograms:
        if not isinstance(histogram, list) or len(histogram) < 2 or not all(map(is_count, histogram)):
            raise refuse(where, key, "a list of counts in each response", histogram)
    passes = [sum(column) for column in itertools.zip_longest(*histograms, fillvalue=0)]
    survivors = [float(sum(passes[length:])) for length in range(len(passes))]
    return Counters(survivors[0], tuple(survivors[1:]))


def _stated(where: str, data: dict[str, Any]) -> Counters:
    """The counters in a JSON object that has vLLM's names for them. Raises InputError."""
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
    """The number of drafts, the accepted tokens by position, and the number of drafted tokens on a page of
    metrics. The counters of all engines of the page are added.
    """
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
    for line in _LOG.finditer(text):
        if line["size"]:
            size = float(line["size"].replace(",", ""))
        elif line["running"]:
            running = float(line["running"])
            (used_percent,) = floats([line["used"]])
            used = used_percent / 100
            context = size * used / running if size and running and used >= LEAST_USED else None
        else:
            lines.append((_line(where, line), context))
    if not lines:
        raise InputError(f"{where}: its lines 'SpecDecoding metrics' must state a rate for each position")
    return lines


def _line(where: str, line: re.Match[str]) -> Counters:
    """The counters in one line. The number of drafts follows from the accepted tokens and the rates by
    position.
    """
    words = filter(None, line["rates"].replace(" ", "").split(","))
    accepted, drafted, *rates = floats([line["accepted"], line["drafted"], *words])
    if not all(map(is_count, [accepted, drafted, *rates])) or max(rates) > 1:
        raise refuse(where, "SpecDecoding metrics", "counts, and rates from 0 to 1 by position", line[0])
    drafts = accepted / sum(rates) if sum(rates) else drafted / len(rates)
    return Counters(drafts, tuple(drafts * rate for rate in rates), drafted)


def _added(lines: list[Counters]) -> Counters:
    """The counters of all lines together."""
    columns = itertools.zip_longest(*(line.accepted for line in lines), fillvalue=0.0)
    return Counters(
        drafts=sum(line.drafts for line in lines),
        accepted=tuple(map(sum, columns)),
        draft_tokens=sum(line.draft_tokens or 0.0 for line in lines),
    )
