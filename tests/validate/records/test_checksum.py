"""A record with its checksum: no changed byte is read as another value."""

import json
from pathlib import Path

import pytest

from perfmodel.errors import InputError
from perfmodel.validate.engine.formats import read
from perfmodel.validate.engine.record import read_engine_record
from perfmodel.validate.engine.timing import GivenFacts
from perfmodel.validate.harness.journal import as_record, encode
from perfmodel.validate.records import BUNDLED, check_stamp, read_record

RECORDS = {
    "points": "cpu-1/20261121T122043Z-94313695-cpu-full.json",
    "kernels": "cpu-engine/20261122T211259Z-61e3b095-cpu-quick-micro.json",
    "engine": "cpu-engine/engine-20261122T211341Z-K0.json",
}


def test_the_checksum_by_hand() -> None:
    """CRC-32 of ``{"a":1,"points":[]}`` with its line breaks: as `zlib` and `gzip` have it."""
    text = as_record('{"a":1}', ())
    assert text == '{"crc32":"9b9d7118","a":1,\n"points":[\n\n]}\n'
    check_stamp(Path("x"), text)


@pytest.mark.parametrize("bits", [0x01, 0x02, 0x10])
def test_a_changed_byte_is_refused_or_changes_no_value(bits: int) -> None:
    text = as_record(encode({"kind": "engine", "machine": "m", "hardware": "h100"}), ['{"key":"a","s":0.25}'])
    values, body = json.loads(text), text.encode()
    for at in range(len(body)):
        changed = body[:at] + bytes([body[at] ^ bits]) + body[at + 1 :]
        try:
            check_stamp(Path("x"), changed.decode())
            found = json.loads(changed)
        except (InputError, UnicodeDecodeError, json.JSONDecodeError):
            continue
        assert at < len('{"crc32":"00000000"')  # of the checksum itself: a name or a value that is none
        assert [*found.values()][1:] == [*values.values()][1:]


@pytest.mark.parametrize("kind", RECORDS)
def test_every_reader_of_records_checks_it(kind: str, tmp_path: Path) -> None:
    """Records that come with the code are of before: each is read as it is, and again with a checksum."""
    data = json.loads((BUNDLED / RECORDS[kind]).read_text(encoding="utf-8"))
    rows = [encode(row) for row in data.pop("points")]
    path, text = tmp_path / f"{kind}.json", as_record(encode(data), rows)
    readers = [read_engine_record, lambda p: read(p, GivenFacts())] if kind == "engine" else [read_record]
    for reads in readers:
        reads(BUNDLED / RECORDS[kind])
        path.write_text(text, encoding="utf-8")
        reads(path)
        at = text.rindex("samples")
        place = next(i for i in range(at, len(text)) if text[i] in "123456789")
        path.write_text(
            text[:place] + ("2" if text[place] != "2" else "3") + text[place + 1 :], encoding="utf-8"
        )
        with pytest.raises(InputError, match=rf"{kind}\.json: must match its checksum"):
            reads(path)
