"""Lines with the speed of one answer, as koboldcpp, tabbyAPI, llama-cli, text-generation-webui and servers on
MLX print them, or only ``35 tok/s``.
"""

import re

from perfmodel.errors import InputError, refuse
from perfmodel.validate.engine.drafting_words import is_drafting, stated, states_acceptance
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.load_words import load
from perfmodel.validate.engine.pastes.base import RATE_UNIT, TextForm, number
from perfmodel.validate.engine.timing import (
    NOT_SPECULATED,
    GivenFacts,
    RequestLengths,
    SpeculatedTokens,
    Timing,
    needed,
    speculation,
)

_KOBOLD = re.compile(
    r"CtxLimit:\s*(?P<context>\d+)/\d+, Amt:\s*(?P<tokens>\d+)/\d+,.*?"
    r"Generat(?:e|ion):\s*[\d.]+s \((?:[\d.]+ms/T = )?(?P<rate>[\d.]+)T/s\)"
)
_TABBY = re.compile(
    r"(?P<tokens>\d+) tokens generated in .*?"
    r"(?:(?P<cached>\d+) cached tokens and (?P<new>\d+) new tokens.*?)?"
    r"Generate: (?P<rate>[\d.]+) T/s(?:.*?Context: (?P<prompt>\d+) tokens)?"
)
"""A line of tabbyAPI, the server of ExLlama. Its context is the length of the prompt. Older versions do not
print cached and new tokens.
"""
_LLAMA_CLI = re.compile(r"\[ Prompt: [\d.]+ t/s \| Generation: (?P<rate>[\d.]+) t/s \]")
_NAME = r"(?:generation|decode|decoding|output|gen|tg)(?: speed| throughput)?\s*[:=]?\s*"
_ALONE = re.compile(rf"^\s*(?:{_NAME})?(?P<rate>[\d.]+)\s*{RATE_UNIT}(?:,?\s+(?:at|@)\s*[^\n|;]*)?\s*$", re.I)
"""A text with only a speed and its name, and the load if it is stated."""
_TIMED = re.compile(
    rf"\b(?P<tokens>\d+) tokens? in [\d.]+ ?s(?:ec(?:onds)?)?\b,?\W{{0,3}}(?P<rate>[\d.]+) ?{RATE_UNIT}", re.I
)
"""A line with tokens, their time and their speed, as servers on MLX log it."""
_WEBUI = re.compile(
    rf"Output generated in [\d.]+ seconds \((?P<rate>[\d.]+) {RATE_UNIT}, (?P<tokens>\d+) tokens, "
    r"context (?P<prompt>\d+)"
)
"""A line of text-generation-webui. Its context is the length of the prompt."""
_LINES = (_KOBOLD, _TABBY, _LLAMA_CLI, _ALONE, _TIMED, _WEBUI)


class OneLine(TextForm):
    """A line is one answer. It runs alone on the device, unless the user gives ``batch=N``.

    If some lines state an acceptance, only these answers have drafts. Otherwise, the user gives
    ``gamma=N,accepted=X``. Some programs print no lengths; the user then gives ``input=N,output=N``.
    """

    title = "speed of an output, as koboldcpp, tabbyAPI and llama-cli print it"
    counts_drafts = False

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return any(line.search(text) for line in _LINES)

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        answers = [answer for line in _LINES for answer in line.finditer(text)]
        drafts = [states_acceptance(_whole_line(answer)) for answer in answers]
        if _ALONE.search(text):
            facts = facts.over(_load(where, text, facts))
            drafts = [is_drafting(text) is True]
        steps = []
        for answer, of_draft in zip(answers, drafts, strict=True):
            if of_draft:
                told = facts.over(stated(_whole_line(answer), facts.gamma))
                needed(where, "gamma", told.gamma)
                drafted = speculation(where, told, None, None)
            else:
                drafted = NOT_SPECULATED if any(drafts) else speculation(where, facts, None, None)
            steps.append(_step(where, answer, facts, drafted))
        return steps

    def note(self, text: str, facts: GivenFacts) -> str:
        """See `TextForm.note`."""
        if _TABBY.search(text) is None:
            return ""
        return "tabbyAPI runs ExLlama, of whose kernels no times were fitted: compared with another engine"


def _load(where: str, text: str, facts: GivenFacts) -> GivenFacts:
    """The load in a text with only a speed. Raises InputError if this is the load of several requests."""
    stated_load = load(text)
    if (stated_load.batch or 1.0) > 1.0 and facts.batch is None:
        given = f"--from {where},batch={stated_load.batch:.0f}"
        raise InputError(f"{where}: tokens per second: must be of one request: give them, and {given}")
    return stated_load


def _whole_line(answer: re.Match[str]) -> str:
    """The line with this answer, of which the match can be a part."""
    text = answer.string
    start = text.rfind("\n", 0, answer.start()) + 1
    return text[start : answer.end()] + text[answer.end() :].partition("\n")[0]


def _step(where: str, answer: re.Match[str], facts: GivenFacts, drafted: SpeculatedTokens) -> Timing:
    words = answer.groupdict()
    figures = {name: number(where, name, word) for name, word in words.items() if word is not None}
    tokens = figures.get("tokens", facts.output or 1.0)
    prompt = facts.input
    if "context" in figures:
        prompt = max(figures["context"] - tokens, 0.0)
    elif "new" in figures:
        prompt = figures["cached"] + figures["new"]
    elif "prompt" in figures:
        prompt = figures["prompt"]
    if not figures["rate"]:
        raise refuse(where, "tokens per second", "above 0", words["rate"])
    seconds = drafted.tokens_per_iteration / figures["rate"]
    lengths = RequestLengths(needed(where, "input", prompt), tokens)
    how = "decoding time over iterations"
    return step(where, seconds, facts.batch or 1.0, lengths, drafted, how=how)
