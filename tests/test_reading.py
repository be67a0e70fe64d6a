"""Only regular files of a stated size are read; whatever else is wrong is one line that names the file."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

import perfmodel as pm
from perfmodel.errors import InputError
from perfmodel.reading import (
    is_file,
    is_folder,
    only,
    parse_json,
    read_bytes,
    read_csv,
    read_rows,
    read_text,
)
from tests.refusals import refused


def unread(path: Path, most: int = 100) -> str:
    with pytest.raises(InputError) as error:
        read_text(path, most)
    assert str(error.value).isprintable()
    return str(error.value)


def test_bytes_text_and_rows_are_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes("γ\r\n".encode())
    assert read_text(path) == "γ\r\n"
    assert read_bytes(path, most=4) == path.read_bytes()
    assert unread(path, 3) == f"{path}: must be at most 3 bytes, given 4"
    path.write_text('b,a\n"two\nlines",1\n3,4\n')
    first, second = read_csv(path, ("a", "b"))
    assert first == (3, {"b": "two\nlines", "a": "1"})
    assert second == (4, {"b": "3", "a": "4"})


def test_a_pipe_or_device_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        assert unread(path) == f"{path}: must be a readable file, but it is a folder, pipe or device"


def test_files_of_the_system_are_refused_also_through_links(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/proc/self/environ")
    for path in (link, Path("/proc/self/environ"), Path("/dev/zero"), Path("/dev/stdin")):
        assert unread(path) == f"{path}: must not be a file of the system (/proc, /dev, /sys)"


def test_a_server_reads_the_files_of_one_folder_only(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    (inside / "link").symlink_to(tmp_path / "b")
    with only(inside):
        assert read_text(inside / "a") == "a"
        assert is_file(inside / "a")
        for path in (tmp_path / "b", inside / "link", inside / ".." / "b"):
            assert "`--files DIR`" in unread(path)
            assert not is_file(path)
        assert pm.whatif("qwen3-8b", "h100", 1, "1k", gamma=0).query.batch == 1  # from bundled files
    with only(None):
        assert "`--files DIR`" in unread(inside / "a")
        assert not is_folder(tmp_path)
    assert is_folder(tmp_path)


def test_a_file_of_more_than_512_mib_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as stream:
        stream.truncate(2**29 + 1)
    with pytest.raises(InputError, match="must be at most 536870912 bytes, given 536870913"):
        read_bytes(path)


def test_missing_unreadable_and_not_text(tmp_path: Path) -> None:
    assert "there is no file of this name" in unread(tmp_path / "none")
    for name in ("n" * 300, "a\0b"):
        assert "must be a readable file" in unread(tmp_path / name)
    path = tmp_path / "a\nb\x1b[31m"
    path.write_bytes(b"ab\xff")
    assert "must be valid UTF-8 text: byte 2 is not" in unread(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "not be nested so deeply"),
        ("{", "be valid JSON"),
        ("9" * 5000, "be valid JSON"),
    ],
)
def test_json_that_is_none(text, words) -> None:
    refused(f"here: must {words}", parse_json, "here", text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1\n", r"line 2 \(row \?\): must have one cell for each column"),
        ("a,b\n1,2,3\n", "one cell for each column"),
        ("a,a\n1,2\n", "line 1: must have each of the columns a, b once; missing b, unknown none"),
        ("a,b,c\n1,2,3\n", "unknown c"),
        ("", "line 1: must have the columns a, b, and has none"),
        ('a,b\n"1,2\n', "must be a readable CSV file"),
        ('a,b\n"' + "x" * 200_000 + '",2\n', "must be a readable CSV file"),
    ],
)
def test_a_table_has_the_cells_of_its_head(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    refused(words, read_csv, path, ("a", "b"))


@dataclass(frozen=True)
class Thing:
    id: str
    batch: int
    step_ms: float | None
    clean: bool


def test_cells_are_what_the_fields_say(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id,clean,batch,step_ms\na,yes,4,1.5\nb,no,8,\n")
    assert read_rows(path, Thing) == (Thing("a", 4, 1.5, True), Thing("b", 8, None, False))
    assert read_rows(path, Thing, clean="no") == (Thing("b", 8, None, False),)
    assert read_rows(path, Thing, clean="no", batch="4") == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,4.5,1,no", r"line 2 \(row a\): batch: must be a whole number, given '4.5'"),
        ("a,4,nan,no", "step_ms: must be a finite number"),
        ("a,4,1e999,no", "step_ms: must be a finite number"),
        ("a,4,5 ms,no", "step_ms: must be a finite number, given '5 ms'"),
        ("a,,1,no", "batch: must be a whole number, given ''"),
        ("a,4,1,maybe", "clean: must be yes or no"),
        ("a," + "9" * 5000 + ",1,no", "batch: must be a whole number"),
        ("a,4,1,no\na,5,1,no", r"line 3 \(row a\): id: must be given once"),
        ("", "at least one row"),
    ],
)
def test_a_cell_that_is_something_else_is_refused_by_line_and_column(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"id,batch,step_ms,clean\n{text}\n")
    refused(words, read_rows, path, Thing)
