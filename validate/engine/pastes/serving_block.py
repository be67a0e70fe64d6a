"""The block of results that ``vllm bench serve`` (0.9 to 0.33) prints, anywhere in a log. Most public runs
have this format.

SGLang's client prints the same words; its ``Accept length`` is the number of tokens per iteration.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from perfmodel.errors import InputError
from perfmodel.validate.engine.acceptance.vllm_json import BENCH
from perfmodel.validate.engine.drafting_words import (
    LONGEST_HEADING,
    drafted_tokens,
    is_drafting,
    stated,
)
from perfmodel.validate.engine.formats import vllm
from perfmodel.validate.engine.formats.fields import number
from perfmodel.validate.engine.pastes.base import TextForm
from perfmodel.validate.engine.timing import GivenFacts, MissingFact, Timing

BLOCK_TITLE = "Serving Benchmark Result"
KEYS = {
    "successful requests": "completed",
    "failed requests": "failed",
    "mean tpot (ms)": "mean_tpot_ms",
    "maximum request concurrency": "max_concurrency",
    "max request concurrency": "max_concurrency",
    "benchmark duration (s)": "duration",
    "total input tokens": "total_input_tokens",
    "total generated tokens": "total_output_tokens",
    "median tpot (ms)": "median_tpot_ms",
    "median ttft (ms)": "median_ttft_ms",
    "acceptance length": "accepted",
    "accept length": "accepted",
    "concurrency": "concurrency",
    "drafts": "spec_decode_num_drafts",
    "draft tokens": "spec_decode_draft_tokens",
}
"""Printed words -> the key in the client's JSON file."""
AT_ONCE = ("maximum request concurrency", "max request concurrency")
"""Printed words for the number of concurrent requests."""
_TITLE_LINE = re.compile(rf"=* ?{BLOCK_TITLE} ?=*")
_LINE = re.compile(r"^[^\n:]*?([A-Za-z][A-Za-z (./)]*?):\s+([0-9][0-9.eE+-]*)\s*$", re.M)
ACCEPTED = re.compile(r"^[^\n:]*?(?:accept length|acceptance length|acceptance rate \(%\)):", re.M | re.I)
"""A line that shows that a block counts drafts."""
_POSITION = re.compile(r"^[^\n:]*?Position (\d{1,4}):\s+([0-9.]+)\s*$", re.M)


class _Block(NamedTuple):
    """The text of a block, and the text between it and the block before it."""

    before: str
    text: str


class ServingBlock(TextForm):
    """A block is one step. If only some blocks count drafts, the others are baselines. If the lines before
    the blocks say which of them ran without a draft, these are the baselines. A truncated block is an error.
    """

    title = f"block {BLOCK_TITLE!r} of vllm bench serve or sglang.bench_serving"

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return BLOCK_TITLE in text

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        blocks = list(_blocks(text))
        headings = [_heading(block.before) for block in blocks]
        titled = {is_drafting(heading) for heading in headings} == {True, False}
        counting = [ACCEPTED.search(block.text) is not None for block in blocks]
        timings = []
        for n, block in enumerate(blocks):
            place = where if len(blocks) == 1 else f"{where}: block {n + 1}"
            of_block = facts
            if titled:
                of_block = _of_heading(place, headings[n], facts)
            elif any(counting) and not counting[n]:
                of_block = replace(facts, gamma=0)
            timings += _block(place, block.text, of_block.over(_started(place, block.before)))
        return timings


def _blocks(text: str) -> Iterator[_Block]:
    """The blocks of a text. The lines after the closing line of a block are about the next block."""
    before, *parts = _TITLE_LINE.split(text)
    for part in parts[:-1]:
        inside, closing, after = part.partition("=====")
        yield _Block(before, inside)
        before = after if closing else part
    yield _Block(before, parts[-1])


def _heading(before: str) -> str:
    """The last short line between a block and the block before it that says whether a draft ran; empty if
    there is none.
    """
    for line in reversed(before.splitlines()):
        if len(line) <= LONGEST_HEADING and is_drafting(line) is not None:
            return line
    return ""


def _of_heading(where: str, heading: str, facts: GivenFacts) -> GivenFacts:
    """The facts about the draft in the line before a block, and those that the user gives."""
    if not is_drafting(heading):
        return replace(facts, gamma=0, accepted=None)
    return facts.over(stated(heading)).over(GivenFacts(gamma=drafted_tokens(where, heading, facts)))


def _started(where: str, text: str) -> GivenFacts:
    """The number of concurrent requests, which the client prints before it starts."""
    printed = {}
    for label, value in _LINE.findall(text):
        printed[label.strip().lower()] = value
    for label in AT_ONCE:
        if label in printed:
            return GivenFacts(batch=_float(where, AT_ONCE[0], printed[label]))
    return GivenFacts()


def figures(where: str, text: str) -> dict[str, float]:
    """Key in the client's JSON file -> the printed figure. Raises InputError."""
    printed: dict[str, float] = {}
    for label, value in _LINE.findall(text):
        name = KEYS.get(label.strip().lower())
        if name and name not in printed:
            printed[name] = _float(where, label, value)
    return printed


def rates_by_position(where: str, text: str) -> list[float]:
    """For each position, the share of drafts whose tokens up to it were accepted. Raises InputError."""
    return [_float(where, "Position", rate) / 100 for _, rate in _POSITION.findall(text)]


def _block(where: str, text: str, facts: GivenFacts) -> list[Timing]:
    """The step of one block. Raises InputError."""
    run: dict[str, Any] = {**figures(where, text)}
    rates = rates_by_position(where, text)
    if rates:
        run[BENCH] = rates
    elif "accepted" in run:
        length = facts.gamma
        drafts = run.get("spec_decode_num_drafts")
        if not length and drafts:
            length = round(number(where, run, "spec_decode_draft_tokens") / drafts)
        if length:
            facts = GivenFacts(gamma=length, accepted=run["accepted"]).over(facts)
        elif run["accepted"] > 1.0:
            raise MissingFact(where, "gamma")
    if "concurrency" in run:  # a printed maximum counts before it
        facts = facts.over(GivenFacts(batch=run["concurrency"]))
    return vllm.serve(where, run, facts)


def _float(where: str, label: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: {label.strip()}: must be a number, given {text[:40]!r}") from None
