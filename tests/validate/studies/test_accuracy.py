"""The gate: passes as committed, fails when an input or a figure changed; and pages."""

import copy
import re
from typing import Any

import pytest
from click.exceptions import Exit
from click.testing import CliRunner

from perfmodel.specs import source_errors
from perfmodel.validate.cli import app
from perfmodel.validate.cli.accuracy import conclude
from perfmodel.validate.solving import shortened
from perfmodel.validate.studies import gate, page as accuracy_page, record as accuracy, sources_file
from perfmodel.validate.studies.inputs import inputs

Record = dict[str, Any]


@pytest.fixture(scope="module")
def recorded() -> Record:
    return gate.read(accuracy.PATH)


def test_the_record_is_of_the_inputs_of_today(recorded: Record) -> None:
    """What the code makes of them now is for the slow test: it answers all public runs."""
    today = shortened({"inputs": inputs()}, accuracy.RECORD_DIGITS)
    assert gate.faults(recorded, recorded | today) == []


@pytest.mark.slow
def test_the_record_and_the_errors_of_sources_are_up_to_date(recorded: Record) -> None:
    """Both answer all public runs. The widths follow from the errors of fits without a source, as shipped."""
    done = CliRunner().invoke(app, ["accuracy"])
    assert done.exit_code == 0
    assert re.search(r"accuracy: PASS; mean error 2\.\d\d % over 268 held-out figures", done.output)
    assert "9 own records that come with it; any others: validate check --results DIR" in done.output
    left_out = sources_file.recorded_sources()
    errors = left_out["errors"]
    lent = left_out["other_engines"]
    texts = sources_file.texts(errors, lent, source_errors().date)
    assert {path.name for path in texts} == {"sources.yaml", "sources.json"}
    assert texts == {path: path.read_text(encoding="utf-8") for path in texts}


def test_the_pages_say_what_the_record_says(recorded: Record) -> None:
    texts = [path.read_text(encoding="utf-8") for path in accuracy_page.PAGES]
    for text in texts:
        assert accuracy_page.filled(text, recorded) == text
    named = [name for text in texts for name in accuracy_page.TABLE_BLOCK.findall(text)]
    assert sorted(named) == sorted(accuracy_page.TABLES)
    for name, lines in accuracy_page.TABLES.items():
        assert len(list(lines(recorded))) > 2, name


def test_writing_renews_the_record_and_what_follows_from_it(recorded: Record) -> None:
    """In one go, so that it is all or nothing."""
    changed = copy.deepcopy(recorded)
    changed["replays"]["held-out"]["overall"]["mape"] += 0.005
    written = accuracy_page.files(changed)
    assert [*written] == [accuracy.PATH, *accuracy_page.PAGES]
    moved = {path for path, text in written.items() if path.read_text(encoding="utf-8") != text}
    assert moved >= {accuracy.PATH, accuracy_page.PAGES[1]}


def test_as_json_nothing_else_is_printed(recorded: Record, capsys: pytest.CaptureFixture[str]) -> None:
    conclude(recorded, recorded, json=True)
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_a_worse_figure_fails(recorded: Record, capsys: pytest.CaptureFixture[str]) -> None:
    worse = copy.deepcopy(recorded)
    worse["replays"]["shipped"]["overall"]["mape"] += 0.02
    with pytest.raises(Exit):
        conclude(recorded, worse, json=False)
    printed = capsys.readouterr()
    assert "accuracy: FAIL" in printed.out
    assert "/replays/shipped/overall/mape" in printed.err
