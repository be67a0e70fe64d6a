"""Files of benchmarks and of acceptance with one number changed: what is read then is as it was.

``python -m tests.validate.engine.test_changed_files`` writes changed.txt anew: the difference is what moved.
"""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from perfmodel.errors import InputError
from perfmodel.validate.engine.acceptance import AcceptanceSubject, import_text
from perfmodel.validate.engine.formats import read
from perfmodel.validate.engine.timing import GivenFacts
from perfmodel.validate.solving import shortened
from tests.validate.engine.runs_by_hand import RUNS
from tests.validate.engine.test_formats import FILES

KEPT = Path(__file__).with_name("changed.txt")
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
ALIKE = re.compile(r".*(plain-[12]|draft3-4|config|README|csv)")
"""Files that say no more than others, or are of something else."""


def changed(text: str) -> Iterator[tuple[str, str]]:
    """The change in words, and the text with it: the first number behind each word to 0, a bit more, much
    more.
    """
    seen = set[str]()
    for number in NUMBER.finditer(text):
        (*_, word) = ["", *re.findall(r"[A-Za-z_]{2,}", text[: number.start()])]
        for by in (0, 1.04, 3) if word not in seen else ():
            whole = "." not in number[0]
            value = float(number[0]) * by
            new = f"{int(value) + (by == 1.04)}" if whole else f"{value:.6g}"
            yield f"{word} {number[0]} -> {new}", text[: number.start()] + new + text[number.end() :]
        seen.add(word)


def readings(path: Path) -> Iterator[str]:
    """The steps in a file without a draft length and with one, and its acceptance; or refusals."""
    text = path.read_text(encoding="utf-8")
    page = "page" in path.name
    draft = "ngram" if page else "d"
    lengths = (1, 4) if page else ()
    subject = AcceptanceSubject("t", draft, "full", (), 3, lengths=lengths)

    def steps() -> list[Any]:
        timings = read(path, GivenFacts())
        return [(*structs.astuple(t)[1:-1], len(t.samples), sum(t.samples)) for t in timings]

    def steps_of_a_length() -> list[Any]:
        return [structs.astuple(timing)[1:7] for timing in read(path, GivenFacts(gamma=3))]

    def acceptance() -> list[Any]:
        return [structs.astuple(row)[4:] for row in import_text(path.name, text, None, subject).rows]

    for ask in (steps, steps_of_a_length, acceptance):
        try:
            yield str(shortened(ask(), 6))
        except InputError as error:
            yield f"refused: {str(error).replace(str(path), path.name)[:80]}"


def answers(folder: Path) -> str:
    """Whatever no earlier change of the same file gave."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(FILES.iterdir())}
    texts |= {f"run-{name}.json": json.dumps(run) for name, run in RUNS.items()}
    lines = dict[str, str]()
    for name, text in texts.items():
        for change, new in (("", text), *changed(text)) if not ALIKE.match(name) else ():
            (folder / name).write_text(new, encoding="utf-8")
            for reading in readings(folder / name):
                lines.setdefault(f"{name}: {reading}", f"{name} {change}: {reading}\n")
    return "".join(lines.values())


@pytest.mark.slow
def test_what_is_read_of_changed_files_is_as_it_was(tmp_path) -> None:
    assert answers(tmp_path).splitlines() == KEPT.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        KEPT.write_text(answers(Path(scratch)), encoding="utf-8")
