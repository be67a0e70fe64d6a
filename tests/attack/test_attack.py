"""A minute or two of `make attack`, and that each of its suites sees what it looks for."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from perfmodel.errors import InputError
from perfmodel.validate.harness.journal import Journal
from perfmodel.validate.records import read_record
from tests.attack import (
    assistants,
    better,
    cliffs,
    faults,
    forks,
    jobs,
    rates,
    readers,
    served,
    surroundings,
    tampered,
    verbs,
    watch,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("attack", "kinds", "refused", "answered"),
    [
        (partial(readers.attack, seed=1, count=500), len(readers.READERS) + len(readers.NO_FILES), 250, 50),
        (lambda tally, _: verbs.attack(tally, seed=1, count=400), len(verbs.verbs()), 50, 50),
        (surroundings.attack, 8, 5, 5),
        (partial(tampered.attack, seed=1, count=20), 4, 0, 0),
        (
            lambda tally, _: cliffs.attack(tally, 29, 300),
            2,
            5,
            5,
        ),  # enough to miss either of the two warnings
        (lambda tally, _: served.attack(tally, 2, 300), 2, 100, 10),
        (partial(assistants.attack, seed=2, count=200), 1, 100, 10),
        (partial(better.attack, seed=2, count=400), len(better.FIGURES), 0, 400),
        (lambda tally, _: rates.attack(tally, 2, 40), 3, 0, 40),
    ],
    ids=["readers", "verbs", "surroundings", "tampered", "cliffs", "served", "assistants", "better", "rates"],
)
def test_nothing_gets_through(attack, kinds, refused, answered, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    tally = watch.Tally()
    attack(tally, tmp_path)
    assert tally.faults == []
    assert len(tally.tried) >= kinds
    said_no = sum(tally.refused.values())
    tried = sum(tally.tried.values())
    assert said_no >= refused
    assert tried - said_no >= answered


def test_what_is_killed_filled_or_shared_loses_nothing(tmp_path: Path) -> None:
    tally = watch.Tally()
    faults.attack(tally, tmp_path, seed=1, kills=10, others=1)
    assert tally.faults == []
    assert sum(n for name, n in tally.tried.items() if name.endswith(": kill -9")) >= 10


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (KeyError("x"), "KeyError"),
        (ZeroDivisionError(), "ZeroDivisionError"),
        (InputError("x"), "not one line that names a file"),
    ],
)
def test_a_reader_that_breaks_is_seen(raised: Exception, words: str) -> None:
    def broken() -> None:
        raise raised

    _, fault = watch.read(broken, "a file")
    assert fault is not None
    assert words in fault


def test_a_reader_that_never_ends_or_takes_all_memory_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless() -> None:
        while True:
            pass

    monkeypatch.setattr(watch, "CPU_S", 0.2)
    assert watch.read(endless) == (False, "took more than 0.2 s")
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    monkeypatch.setattr(watch, "peak_bytes", iter((0, 2 * watch.MEMORY_BYTES)).__next__)
    assert watch.read(lambda: None) == (False, "took 2048 MiB")


@pytest.mark.parametrize(
    "printed", ["Speedup nanx", "between -inf and 3", "NaN%", "Infinity tokens", '{"speedup": NaN}']
)
def test_an_answer_that_is_not_finite_is_seen(printed: str) -> None:
    assert watch._printed(0, printed, "")
    assert watch._printed(0, "banana, info, /x/nan.yaml, inference", "") is None


def test_a_journal_that_forgets_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its flush a journal loses what was reported done when the process is killed: the suite must
    notice.
    """
    job = jobs.Job("measure", "", "t-1/*.json", read_record)
    place = tmp_path / "t-1"
    place.mkdir()
    row = '{"key":"a"}'
    (place / "x.journal").write_bytes(b"00000000 {}\n00000000 " + row.encode() + b"\n")
    assert faults.after(job, tmp_path, {row, '{"key":"lost"}'}) == "1 finished rows are gone"
    (place / "x.json").write_text("{")
    assert "is no whole file" in (faults.after(job, tmp_path, set()) or "")


def test_a_run_can_be_killed_at_a_call_and_on_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "x.journal"

    def begin() -> None:
        Journal.begin(path, {"schema_version": 1})
        os._exit(5)

    assert forks.run([], stop_call=1, before=begin).status == -9
    path.unlink()
    assert forks.run([], before=begin).status == 5
