"""Reads a text of several parts of one format, each after a line that says whether it ran with a draft."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from perfmodel.validate.engine.drafting_words import LONGEST_HEADING, drafted_tokens, is_drafting, stated
from perfmodel.validate.engine.pastes import TextForm
from perfmodel.validate.engine.timing import GivenFacts, Timing


class _Part(NamedTuple):
    """The lines after a heading."""

    heading: str
    text: str


def read_parts(form: TextForm, where: str, text: str, facts: GivenFacts) -> list[Timing]:
    """The steps in a text of this format. Headings can divide the text into parts with a draft and parts
    without a draft. Each part then has the facts of its heading. Raises InputError (see `TextForm.read`).
    """
    parts = [] if form.counts_drafts else list(_parts(form, text))
    parts = [part for part in parts if part.heading or form.has(part.text)]
    kinds = {is_drafting(part.heading) for part in parts}
    if kinds != {True, False} or not all(form.has(part.text) for part in parts):
        return form.read(where, text, facts)
    steps = []
    for part in parts:
        of_part = replace(facts, gamma=0, accepted=None)
        if is_drafting(part.heading):
            length = GivenFacts(gamma=drafted_tokens(where, part.heading, facts))
            of_part = facts.over(stated(part.heading)).over(length)
        steps += form.read(where, part.text, of_part)
    return steps


def _parts(form: TextForm, text: str) -> Iterator[_Part]:
    """The parts of a text. A part without a heading has an empty one."""
    heading = ""
    lines: list[str] = []
    for line in text.splitlines():
        if len(line) <= LONGEST_HEADING and is_drafting(line) is not None and not form.has(line):
            if "".join(lines).strip():
                yield _Part(heading, "\n".join(lines))
                lines = []
            heading = line
        else:
            lines.append(line)
    if "".join(lines).strip():
        yield _Part(heading, "\n".join(lines))
