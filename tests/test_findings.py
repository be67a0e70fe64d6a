"""Each section of a notebook ends with a sentence of what it shows, in numbers that its outputs have."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.scripts import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NUMBER = re.compile(r"(?P<number>\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?)(?P<k>k\b)?")
STATED = re.compile(r"(?<![\w.,])(?<!\w-)(?P<number>\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)(?P<unit>k\b| %| ms\b|)")
UNITS = {"": (1,), "k": (1000, 1024), " %": (0.01, 1), " ms": (0.001, 1)}
"""After a number in a sentence -> what one of it is in an output."""
QUOTED = re.compile(r"`[^`]*`|\(arXiv[^)]*\)|notebook \d+", re.IGNORECASE)
SLIDERS = "The same surface with sliders"
"""What this section shows moves."""
NEXT = "Next"
"""This section says what to change, in numbers that no output has."""


@dataclass
class Section:
    """What a reader sees between two headings, who sees no code."""

    title: str
    known: set[float]
    """Numbers of the outputs and of the code so far."""
    has_outputs: bool = False
    finding: str = ""
    """The prose after the last output."""


def sections(notebook: Path) -> list[Section]:
    found = [Section("", set())]
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            shown = [text, *map(words, cell["outputs"])]
            found[-1].known |= {value for one in shown for value in values(one)}
            found[-1].has_outputs |= bool(cell["outputs"])
            found[-1].finding = ""
            continue
        first, *others = re.split(r"(?m)^## ", text)
        found[-1].finding += first + "\n\n"
        for part in others:
            title, _, prose = part.partition("\n")
            found.append(Section(title, set(found[-1].known), finding=prose + "\n\n"))
    return found


def values(text: str) -> Iterator[float]:
    """The numbers of an output; 40k is also 40 x 1,024."""
    for found in NUMBER.finditer(text):
        value = float(found["number"].replace(",", ""))
        yield value
        if found["k"]:
            yield 1024 * value


def words(output: dict) -> str:
    """What an output shows as text; a page shows what its sliders say."""
    data = output.get("data", {})
    text = "".join(data.get("text/html", data.get("text/plain", output.get("text", ""))))
    return "" if "<iframe" in text else re.sub(r"<style.*?</style>|<[^>]*>", " ", text, flags=re.DOTALL)


def is_shown(number: str, unit: str, known: set[float]) -> bool:
    """Whether an output has a number that is rounded to this one, or to its percentage above or below 1."""
    value = float(number.replace(",", ""))
    digits = number.rstrip("0") if "," in number else number
    step = 10.0 ** (len(number.replace(",", "")) - len(digits.replace(",", "")))
    if "." in number:
        step = 10.0 ** -len(number.partition(".")[2])
    near = [(value * one, 0.501 * step * one) for one in UNITS[unit]]
    if unit == " %":
        near += [(1 + value / 100, step / 200), (1 - value / 100, step / 200)]
    return any(abs(at - other) <= within for at, within in near for other in known)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_each_section_ends_with_its_finding_in_numbers(notebook: Path) -> None:
    for section in filter(lambda found: found.has_outputs, sections(notebook)):
        assert section.finding.strip(), f"{section.title}: no sentence after the last output"
        if section.title != SLIDERS:
            assert STATED.search(QUOTED.sub("", section.finding)), (
                f"{section.title}: a finding without a number"
            )


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_numbers_of_a_finding_are_those_of_the_outputs(notebook: Path) -> None:
    for section in filter(lambda found: found.title != NEXT, sections(notebook)):
        for found in STATED.finditer(QUOTED.sub("", section.finding)):
            assert is_shown(found["number"], found["unit"], section.known), (section.title, found[0])


def test_a_number_is_looked_for_as_it_is_rounded() -> None:
    assert is_shown("1.7", "", {1.68})
    assert not is_shown("1.7", "", {1.38})
    assert is_shown("7,200", "", {7156.0})
    assert not is_shown("7,200", "", {7256.0})
    assert is_shown("64", "k", {65536.0})
    assert is_shown("28", " %", {1.28})
    assert not is_shown("28", " %", {1.29})
