"""Records: read as they were written, refused where they are damaged or of another schema; no changed
byte is read as another value.
"""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from perfmodel.errors import InputError
from perfmodel.validate.engine.formats import read
from perfmodel.validate.engine.record import read_engine_record
from perfmodel.validate.engine.timing import GivenFacts
from perfmodel.validate.harness.journal import as_record, encode
from perfmodel.validate.records import (
    BUNDLED,
    RESULTS,
    Record,
    half_width,
    is_quiet,
    latest,
    points,
    quiet_line,
    read_record,
    records,
    stamped,
    withdrawn,
)
from perfmodel.validate.records.checksum import check_stamp
from perfmodel.validate.records.code_version import commit, run
from perfmodel.validate.records.summary import steady_share
from tests.refusals import refused
from tests.validate.tiny_plan import with_rows


def committed(kind: str = "measure") -> Record:
    return latest(records(RESULTS, "cpu-1"), kind)


def raw(record: Record) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(record.path.read_text(encoding="utf-8"))
    return data


def written(folder: Path, data: dict[str, Any]) -> Path:
    path = folder / "20260101T000000Z-01234567-x.json"
    text = json.dumps(data).replace("Infinity", "1e999")  # which JSON allows
    path.write_text(stamped(text), encoding="utf-8")
    return path


def test_statistics_are_made_on_reading() -> None:
    """By hand: 3 iterations a sample, gamma 2, medians 6 and 9 ms; 4 iterations accepted 0, 1, 1, 2
    tokens.
    """
    record = committed()
    common: dict[str, Any] = {"gamma": 2, "iterations": 3, "mean_growth_tokens": 0.0, "context": 100}
    samples: list[dict[str, Any]] = [
        {"ar_s": (0.005, 0.006, 0.9), "sd_s": (0.009, 0.008, 0.010)},
        {
            "ar_target_s": (0.001, 0.002, 0.003),
            "ar_accept_s": (0.1,),
            "ar_commit_s": (0.1,),
            "sd_draft_s": (0.004,),
            "sd_verify_s": (0.003,),
            "sd_accept_s": (0.001,),
            "sd_commit_s": (0.002,),
        },
    ]
    rows = [
        row.replace(**common, samples=of, histogram=(1, 2, 1))
        for row, of in zip(record.rows[:2], samples, strict=True)
    ]
    (point,) = points(with_rows(record, rows))
    assert point.context == 100
    assert point.asked_context == 100
    assert point.gamma == 2
    assert (point.tokens_per_iteration, point.speedup) == pytest.approx((2.0, 2.0 * 0.002 / 0.003))
    assert (point.ar_tpot_s, point.sd_tpot_s, point.iteration_s) == pytest.approx((0.002, 0.0015, 0.003))
    passes = point.target_s, point.draft_s, point.verify_s, point.overhead_s
    assert passes == pytest.approx((0.002, 0.002, 0.003, 0.003))


def test_no_mode_supplies_the_figure_of_the_other() -> None:
    record = committed()
    whole = ("ar_tpot_s", "sd_tpot_s", "speedup")
    parts = ("target_s", "draft_s", "verify_s", "overhead_s")
    for mode, present, absent in (("end_to_end", whole, parts), ("phases", parts, whole)):
        for point in points(with_rows(record, [row for row in record.rows if row.mode == mode])):
            assert all(getattr(point, name) for name in present)
            assert all(getattr(point, name) is None for name in absent)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        *(
            (
                lambda data, first, version=version: data.update(schema_version=version),
                "schema_version: must be 2 ",
            )
            for version in (1, 3, None)
        ),
        (lambda data, first: data.update(kind="guess"), "kind: must be measure or microbench, given 'guess'"),
        (
            lambda data, first: data["protocol"].pop("timer_overhead_s"),
            "protocol.timer_overhead_s: must be given",
        ),
        (lambda data, first: data.update(points=[3]), "points.0"),
        (lambda data, first: data["points"].append(first), "must be given once"),
        (
            lambda data, first: first.update(parents=[-1, 0], histogram=None, gamma=2),
            "gamma: must be the 1 levels below the tree's root",
        ),
        (lambda data, first: first.update(parents=[-1, 5]), "tree: must be the parents"),
        (lambda data, first: first.update(alpha=None), "alpha: must be given where there is no tree"),
        *(
            (lambda data, first, bad=bad: first["samples"].update(ar_s=[bad]), r"points\.0\.samples\.ar_s\.0")
            for bad in (-1.0, 0.0, 1e999)
        ),
        (
            lambda data, first: first.update(histogram=[1, 2], gamma=3),
            r"points\.0\.histogram: must have gamma \+ 1 =",
        ),
        (lambda data, first: data.update(kind={}), "kind: must be measure or microbench"),
        (lambda data, first: first.update(histogram=[-1] * 9), r"points\.0\.histogram\.0"),
        (lambda data, first: first.update(batch=10**400), r"points\.0\.batch"),
        (
            lambda data, first: next(r for r in data["points"] if r["mode"] == "phases")["samples"][
                "sd_accept_s"
            ].pop(),
            "sd_accept_s and sd_commit_s must be of the same iterations",
        ),
        (
            lambda data, first: first["samples"].pop("sd_s"),
            r"points\.0\.samples: must hold sd_s where status is ok",
        ),
    ],
)
def test_a_damaged_record_is_refused_in_one_line(tmp_path, spoil, words) -> None:
    data = raw(committed())
    spoil(data, data["points"][0])
    path = written(tmp_path, data)
    refused(f"^{re.escape(str(path))}.*{words}", read_record, path)


@pytest.mark.parametrize("size", [0, -1, 1.5, "many", None, True, 10**16, [1]])
def test_a_kernel_states_the_sizes_that_a_fit_reads(tmp_path, size) -> None:
    data = raw(committed("microbench"))
    next(row for row in data["points"] if row["kind"] == "attention")["at"]["context"] = size
    path = written(tmp_path, data)
    refused(r"at\.context: must be a whole number from 1 to 10\^15 for a attention kernel", read_record, path)


def test_withdrawn_records_do_not_count(tmp_path) -> None:
    folder = tmp_path / "t-1"
    folder.mkdir()
    path = written(folder, raw(committed()))
    assert len(records(tmp_path)) == 1
    gone = [{"file": f"t-1/{path.name}", "reason": "other work ran beside it"}]
    text = yaml.safe_dump({"schema_version": 1, "withdrawn": gone})
    stated = tmp_path / "withdrawn.yaml"
    stated.write_text(text, encoding="utf-8")
    assert withdrawn(tmp_path) == {f"t-1/{path.name}": "other work ran beside it"}
    assert records(tmp_path) == ()
    shortened = r"withdrawn: must be names of files of .*/, given 't-1/x{33}\.\.\.'"
    for name, says in (("never.json", r"never\.json"), ("x" * 5000, shortened)):
        stated.write_text(text.replace(path.name, name), encoding="utf-8")
        refused(says, records, tmp_path)


def test_what_a_tree_drafted() -> None:
    """A root with two children of one each; a draft step is a level of three."""
    record = committed()
    whole, parts = (next(row for row in record.rows if row.mode == mode) for mode in ("end_to_end", "phases"))
    tree = {"parents": (-1, 0, 0, 1, 2)}
    (point,) = points(with_rows(record, [whole.replace(**tree)]))
    assert point.gamma is None
    assert point.tree == (5, 3)
    assert point.widths == (1, 2, 2)
    assert point.drafted == "1-2-2"
    alone = {"sd_draft_s": (0.4, 0.6), "sd_accept_s": (0.1, 0.2), "sd_commit_s": (0.3, 0.4)}
    timed = parts.replace(**tree | {"gamma": 3, "samples": parts.samples | alone})
    (point,) = points(with_rows(record, [timed]))
    assert (point.draft_s, point.overhead_s) == pytest.approx((0.5 / 3, 0.5))
    once = whole.replace(iterations=None, histogram=(0, 0, 0))
    (point,) = points(with_rows(record, [once]))
    assert point.ar_tpot_s == pytest.approx(np.median(whole.samples["ar_s"]))
    assert point.speedup is None


def test_a_machine_is_quiet_where_seven_of_ten_timings_are_steady() -> None:
    record = committed()
    (row, *_) = record.rows

    def of(steady: int) -> Record:
        names = {f"{i}": (1.0, 1.1, 1.2) if i < steady else (1.0, 1.11, 1.2) for i in range(10)}
        return with_rows(record, [row.replace(samples=names), row.replace(status="failed")])

    assert steady_share(of(7)) == 0.7
    assert is_quiet(of(7)) is True
    assert is_quiet(of(6)) is False
    assert quiet_line(of(7)) == "70% of timings have a median within 10% of their fastest sample"
    assert quiet_line(of(6)).startswith("WARNING: the machine was not quiet (60% of timings")
    environment = record.data.environment
    on_gpu = environment.replace(device=environment.device.replace(kind="cuda"))
    near = of(7).data.replace(environment=on_gpu)
    assert "WARNING: the machine was not quiet (0% of timings have a median within 3%" in quiet_line(
        replace(record, data=near)
    )
    assert steady_share(with_rows(record, [])) == 0.0


def test_the_commit_may_be_given_and_a_program_that_fails_prints_nothing(monkeypatch) -> None:
    monkeypatch.setenv("PERFMODEL_COMMIT", "0123abcd-dirty")
    assert list(commit().values())[:3] == ["0123abcd", True, "PERFMODEL_COMMIT"]
    monkeypatch.setenv("PERFMODEL_COMMIT", "main")
    refused("PERFMODEL_COMMIT: must be 8 to 40 hex digits", commit)
    assert [run(*words) for words in (["echo", "a"], ["false"], ["no-such"])] == ["a", None, None]


# Checksums.

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
    values = json.loads(text)
    body = text.encode()
    for at in range(len(body)):
        flipped = bytes([body[at] ^ bits])
        other = body[:at] + flipped + body[at + 1 :]
        try:
            check_stamp(Path("x"), other.decode())
            changed_values = json.loads(other)
        except (InputError, UnicodeDecodeError, json.JSONDecodeError):
            continue
        assert at < len('{"crc32":"00000000"')  # of the checksum itself: a name or a value that is none
        assert [*changed_values.values()][1:] == [*values.values()][1:]


@pytest.mark.parametrize("kind", RECORDS)
def test_every_reader_of_records_checks_it(kind: str, tmp_path: Path) -> None:
    """Records that come with the code are of before: each is read as it is, and again with a checksum."""
    data = json.loads((BUNDLED / RECORDS[kind]).read_text(encoding="utf-8"))
    rows = [encode(row) for row in data.pop("points")]
    path = tmp_path / f"{kind}.json"
    text = as_record(encode(data), rows)
    readers = [read_engine_record, lambda p: read(p, GivenFacts())] if kind == "engine" else [read_record]
    for reads in readers:
        reads(BUNDLED / RECORDS[kind])
        path.write_text(text, encoding="utf-8")
        reads(path)
        at = text.rindex("samples")
        place = next(i for i in range(at, len(text)) if text[i] in "123456789")
        other = "2" if text[place] != "2" else "3"
        path.write_text(text[:place] + other + text[place + 1 :], encoding="utf-8")
        refused(rf"{kind}\.json: must match its checksum", reads, path)


def test_a_new_record_without_its_checksum_is_refused(tmp_path: Path) -> None:
    """Whoever changes a sample deletes the checksum too; only the old records never had one."""
    old = committed().path
    copy = tmp_path / old.name
    shutil.copy(old, copy)
    assert read_record(copy).rows
    text = old.read_text(encoding="utf-8")
    copy.write_text(text.replace("0.0", "0.1", 1), encoding="utf-8")
    refused(r"crc32: must be given first", read_record, copy)


def test_the_half_width_of_a_median_by_hand() -> None:
    """1 to 9: quartiles 3 and 7, so a deviation of (4 / 5) / 1.349, and 1.645 x 1.2533 of it over sqrt(9)."""
    assert half_width([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]) == pytest.approx(0.40755, rel=1e-3)
