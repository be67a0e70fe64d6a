"""Files appear whole or not at all, and what cannot be written is said before the work."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perfmodel.errors import InputError
from perfmodel.writing import destination, no_formula, write, write_all


def test_text_bytes_and_what_a_function_writes(tmp_path: Path) -> None:
    texts = {"a": "one\nγ\r\n", "b": b"\0\xff", "c.svg": lambda path: path.write_text(path.suffix)}
    write_all({tmp_path / name: text for name, text in texts.items()})
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {"a": "one\nγ\r\n".encode(), "b": b"\0\xff", "c.svg": b".svg"}


def test_a_file_may_have_a_name_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 250 + ".json")
    write(path, "text")
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "a.txt"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"--out: .*a\.txt: cannot be written: No space left on device"):
        write(path, "new", "--out")
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ValueError])
def test_what_stops_in_the_middle_leaves_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    def half(path: Path) -> None:
        path.write_text("ne")
        raise error

    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(error):
        write(path, half)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


def test_what_a_killed_run_left_is_removed_and_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    kept = tmp_path / "kept"
    kept.write_text("kept")
    left = [tmp_path / f".a.{pid}-{'0' * 16}.new.csv" for pid in (dead.pid, os.getpid())]
    left[0].symlink_to(kept)
    left[1].write_text("of a run that is alive")
    write(tmp_path / "a.csv", "new")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([left[1].name, "a.csv", "kept"])
    assert kept.read_text() == "kept"


def test_an_unfinished_file_of_another_users_process_stays(tmp_path: Path) -> None:
    """The first process of the machine always runs, and only the administrator may signal it."""
    unfinished = tmp_path / f".a.1-{'0' * 16}.new.csv"
    unfinished.write_text("of a run that is alive")
    write(tmp_path / "a.csv", "new")
    assert unfinished.exists()


def test_a_name_that_is_no_text_is_written_escaped(tmp_path: Path) -> None:
    """Python keeps the byte E9 of a file name as the surrogate DCE9, which UTF-8 has no bytes for."""
    write(tmp_path / "a", "caf\udce9")
    assert (tmp_path / "a").read_bytes() == b"caf\\udce9"


def test_none_of_several_is_replaced_before_all_are_there(tmp_path: Path) -> None:
    one = tmp_path / "one"
    two = tmp_path / "two"
    one.write_text("old")
    with pytest.raises(InputError, match="two: cannot be written"):
        write_all({one: "new", two: lambda path: (tmp_path / "none" / "x").write_text("")})
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


def test_a_link_and_its_permissions_stay(tmp_path: Path) -> None:
    path = tmp_path / "a"
    link = tmp_path / "link.svg"
    path.write_text("old")
    path.chmod(0o600)
    link.symlink_to(path)
    write(link, lambda fresh: fresh.write_text(f"new{fresh.suffix}"))
    assert link.is_symlink()
    assert path.read_text() == "new.svg", "the content is written to a name that ends as the link's"
    assert path.stat().st_mode & 0o777 == 0o600


def refused(path: Path, *suffixes: str) -> str:
    before = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
    with pytest.raises(InputError) as error:
        destination(path, *suffixes, flag="--out")
    with pytest.raises(InputError) as again:
        write(path, "x", "--out") if not suffixes else destination(path, *suffixes, flag="--out")
    assert str(again.value) == str(error.value)
    assert (sorted(path.parent.iterdir()) if path.parent.is_dir() else []) == before
    assert str(error.value).startswith("--out: must be a file")
    return str(error.value)


def test_what_is_no_place_for_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "file").write_text("")
    assert "ending in .png or .svg, given 'a.txt'" in refused(tmp_path / "a.txt", ".png", ".svg")
    for name in ("none/a", "file/a", "n" * 300, "a\0b"):
        assert "in a folder that exists" in refused(tmp_path / name)
    (tmp_path / "dead").symlink_to("nowhere")
    for place in (pipe, tmp_path, Path("/dev/null"), tmp_path / "dead"):
        assert "not a folder, pipe or device" in refused(place)


def test_where_nobody_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked of the system, so that it also holds on a disk that is mounted read-only."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    assert "can be written" in refused(tmp_path / "a")
    path = tmp_path / "b"
    path.write_text("")
    monkeypatch.setattr(os, "access", lambda at, mode: Path(at) != path)
    assert "can be written" in refused(path)


def test_no_cell_begins_like_a_formula_but_a_number() -> None:
    cells = ("=1+1", " =a", "+x", "@a", "-b", "-1.5", "+2e3", "text", "", "a=b")
    assert [no_formula(cell) for cell in cells] == ["'=1+1", "' =a", "'+x", "'@a", "'-b", *cells[5:]]
