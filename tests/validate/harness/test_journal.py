"""The journal by itself: torn and damaged lines, two writers, and the file that comes out."""

import errno
import json
import os
import zlib
from pathlib import Path

import pytest

from perfmodel.errors import InputError
from perfmodel.validate.harness.journal import Journal
from perfmodel.validate.harness.run_journal import open_journal, unfinished
from perfmodel.validate.records import machine_folder
from tests.refusals import refused

HEADER = {"schema_version": 1, "commit": "0123456789"}


def begun(folder: Path, rows: int = 3) -> Path:
    path = folder / "run.journal"
    with Journal.begin(path, HEADER) as journal:
        for number in range(rows):
            journal.add({"key": f"k{number}", "value": number / 3})
    return path


@pytest.mark.parametrize("cut", [1, 2, 9, 20, 39])
def test_a_torn_last_line_is_cut_off_and_no_other(tmp_path, cut) -> None:
    path = begun(tmp_path)
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    cut = min(cut, len(whole) - last)
    path.write_bytes(whole[:-cut])
    with Journal.resume(path) as journal:
        assert journal.keys() == {"k0", "k1"}
        assert path.read_bytes() == whole[:last]
        journal.add({"key": "k2", "value": 2 / 3})
    assert path.read_bytes() == whole


@pytest.mark.parametrize("bits", [0x01, 0x20, 0x80])
def test_damage_of_any_byte_is_refused_with_its_line(tmp_path, bits) -> None:
    path = begun(tmp_path)
    whole = path.read_bytes()
    for at in range(len(whole) - 1):
        line = whole.count(b"\n", 0, at) + 1
        flipped = bytes([whole[at] ^ bits])
        path.write_bytes(whole[:at] + flipped + whole[at + 1 :])
        refused(f"line {line}: must match its checksum", Journal.resume, path)


def test_a_journal_without_a_header_is_refused(tmp_path) -> None:
    (tmp_path / "run.journal").write_bytes(b"")
    refused("must hold a header", Journal.resume, tmp_path / "run.journal")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"value": 1}', "line 3: must be a JSON object, with its key"),
        (b'{"key": 7}', "line 3: must be a JSON object, with its key"),
        (b"[1]", "line 3: must be a JSON object"),
        (b"\xff", "line 3: must be valid JSON"),
        (b"[" * 100_000, "line 3: must not be nested so deeply"),
    ],
)
def test_a_line_with_its_checksum_must_still_be_a_row(tmp_path, body, words) -> None:
    path = begun(tmp_path, rows=1)
    path.write_bytes(path.read_bytes() + b"%08x %s\n" % (zlib.crc32(body), body))
    refused(words, Journal.resume, path)


def test_one_writer_at_a_time(tmp_path) -> None:
    path = begun(tmp_path)
    with Journal.resume(path), pytest.raises(InputError, match="another run"):
        Journal.resume(path)
    Journal.resume(path).close()
    refused("must be a new file", Journal.begin, path, HEADER)


def test_a_partial_record_keeps_the_journal_and_a_whole_one_replaces_it(tmp_path) -> None:
    path = begun(tmp_path)
    with Journal.resume(path) as journal:
        record = journal.finish(partial=True)
    assert json.loads(record.read_text())["partial"] is True
    with Journal.resume(path) as journal:
        assert journal.keys() == {"k0", "k1", "k2"}
        assert journal.finish() == record
    assert "partial" not in json.loads(record.read_text())
    assert not path.exists()


def test_a_pipe_in_its_place_is_refused_at_once(tmp_path) -> None:
    """Opened, it would wait for a reader."""
    path = tmp_path / "run.journal"
    os.mkfifo(path)
    refused("must be a readable file", Journal.resume, path)


@pytest.mark.parametrize("label", ["", "H200", "../x", "a b", "published", "host.example.org"])
def test_machine_labels_are_plain(label) -> None:
    refused("--machine", machine_folder, label)


def full(_: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_one_line_and_costs_no_row(tmp_path, monkeypatch) -> None:
    journal = Journal.begin(tmp_path / "a.journal", {"kind": "test"})
    journal.add({"key": "one"})
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        refused(
            "cannot be written: No space left on device; finished rows are kept", journal.add, {"key": "two"}
        )
    assert journal.keys() == {"one"}
    journal.close()


@pytest.mark.parametrize("folder", ["file/results", "file"])
def test_a_place_that_cannot_be_written_to(tmp_path, folder) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    refused("cannot be written", Journal.begin, tmp_path / folder / "a.journal", {"kind": "test"})


GPU = {"kind": "cuda", "power.limit": "700 W", "clocks": {"clocks.sm": "1980 MHz"}, "temperature_c": "31"}
HERE = {"threads": 2, "device": GPU}
SAME_FIELDS = ("kind", "plan_sha256", "commit", "dirty", "source_sha256", "hardware", "calibration", "kinds")
"""Fields of a header that are equal in all sessions of a run."""


def test_a_run_goes_on_where_clocks_and_temperature_have_drifted(tmp_path) -> None:
    open_journal(tmp_path, "x", HEADER | {"environment": HERE}, False).close()
    for drift in ({"clocks": {"clocks.sm": "1200 MHz"}}, {"temperature_c": "62"}):
        later = {"threads": 2, "device": GPU | drift}
        open_journal(tmp_path, "x", HEADER | {"environment": later}, True).close()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        *(({field: "other"}, f"{field} must equal that of the interrupted run") for field in SAME_FIELDS),
        (
            {"commit": "9" * 10},
            r"commit must equal that of the interrupted run \(0123456789\), given 9999999999: start",
        ),
        ({"environment": HERE | {"numa": 2}}, r"numa of the machine must equal .* \(None\), given 2"),
        ({"environment": HERE | {"threads": 4}}, r"threads of the machine must equal .* \(2\), given 4"),
        (
            {"environment": HERE | {"device": GPU | {"power.limit": "350 W"}}},
            "device of the machine must equal",
        ),
        ({"environment": HERE | {"device": 7}}, "threads of the machine must equal"),
        ({"environment": 7}, "threads of the machine must equal"),
    ],
)
def test_a_run_does_not_go_on_with_other_code_or_on_another_machine(tmp_path, changes, says) -> None:
    """What is no environment is another one."""
    header = HEADER | {"environment": HERE}
    refused("no unfinished run of x", open_journal, tmp_path, "x", header, True)
    open_journal(tmp_path, "x", header, False).close()
    refused(f"--resume: {says}", open_journal, tmp_path, "x", header | changes, True)


def test_the_latest_run_of_a_name_goes_on(tmp_path) -> None:
    """A name that only begins or ends like it is another run; outside a checkout the commit is unknown."""
    others = ("20260101T000000Z-01234567-xy", "20260101T000000Z-01234567-x-micro", "notes-x")
    runs = ("20260102T000000Z-01234567-x", "20260103T000000Z-unknown-x")
    for stem in (*others, *runs):
        (tmp_path / f"{stem}.journal").touch()
    assert [path.stem for path in unfinished(tmp_path, "x")] == [*runs]
    for path in tmp_path.glob("*.journal"):
        path.unlink()
    for commit in ("a" * 40, "b" * 40):
        first = open_journal(tmp_path, "x", HEADER | {"commit": commit}, False)
        first.close()
    says = r"commit must equal that of the interrupted run \(bbbbbbbbbbbb\)"
    refused(says, open_journal, tmp_path, "x", HEADER | {"commit": "a" * 40}, True)
