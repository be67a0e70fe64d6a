"""The gate: passes as committed, fails when an input or a figure changed; and pages."""

import copy
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from perfmodel.specs import source_errors
from perfmodel.validate.cli import app
from perfmodel.validate.studies import gate, page as accuracy_page, record as accuracy, sources
from tests.validate.tiny import refused

Record = dict[str, Any]


@pytest.fixture(scope="module")
def recorded() -> Record:
    return gate.read(accuracy.PATH)


@pytest.mark.long
def test_the_record_and_the_errors_of_sources_are_up_to_date(recorded: Record) -> None:
    """Both answer all public runs. The widths follow from the errors of fits without a source, as shipped."""
    assert gate.faults(recorded, accuracy.record()) == []
    errors = sources.recorded_sources()["errors"]
    shipped = {path: path.read_text(encoding="utf-8") for path in (sources.PATH, sources.LEFT_OUT)}
    assert sources.texts_of(errors, source_errors().date) == shipped


def test_the_pages_say_what_the_record_says(recorded: Record) -> None:
    texts = [path.read_text(encoding="utf-8") for path in accuracy_page.PAGES]
    for text in texts:
        assert accuracy_page.filled(text, recorded) == text
    assert sorted(name for text in texts for name in accuracy_page.BLOCK.findall(text)) == sorted(
        accuracy_page.TABLES
    )
    for name, lines in accuracy_page.TABLES.items():
        assert len(list(lines(recorded))) > 2, name


def test_writing_renews_the_record_and_what_follows_from_it(
    recorded: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one go, so that it is all or nothing."""
    command = import_module("perfmodel.validate.cli.accuracy")
    written = dict[Path, str]()
    monkeypatch.setattr(command, "write_all", lambda files, flag: written.update(files))
    changed = copy.deepcopy(recorded)
    changed["replays"]["held-out"]["overall"]["mape"] += 0.005
    command._renew(changed)
    pages = accuracy_page.PAGES
    assert [*written] == [accuracy.PATH, *pages]
    moved = {path for path, text in written.items() if path.read_text(encoding="utf-8") != text}
    assert moved >= {accuracy.PATH, pages[1]}


def test_command_line(recorded: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "record", lambda: recorded)
    run = CliRunner()
    done = run.invoke(app, ["accuracy"])
    assert done.exit_code == 0
    assert re.search(r"accuracy: PASS; mean error 2\.\d\d % over 268 held-out figures", done.output)
    assert "9 own records that come with it; any others: validate check --results DIR" in done.output
    worse = copy.deepcopy(recorded)
    worse["replays"]["shipped"]["overall"]["mape"] += 0.02
    monkeypatch.setattr(accuracy, "record", lambda: worse)
    done = run.invoke(app, ["accuracy"])
    assert done.exit_code == 1
    assert "accuracy: FAIL" in done.output
    assert json.loads(run.invoke(app, ["accuracy", "--json"]).stdout)["schema_version"] == 2
    monkeypatch.setattr(import_module("perfmodel.validate.cli.accuracy"), "find_spec", lambda name: None)
    refused("is for maintainers, in a checkout", run.invoke, app, ["accuracy"], catch_exceptions=False)
