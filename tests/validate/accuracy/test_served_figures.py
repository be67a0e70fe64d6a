"""The figures of a record of an engine: times per token, and the speedup between them."""

import json
import shutil
from pathlib import Path

import pytest

from perfmodel.specs import load_calibration
from perfmodel.validate.accuracy.record_files import kind_of, records_in
from perfmodel.validate.accuracy.served_figures import served_figures
from perfmodel.validate.records import BUNDLED
from perfmodel.validate.records.checksum import stamped

VLLM = BUNDLED / "cpu-engine"
MACHINE = ("device.yaml", "kernels.yaml", "target.json", "draft.json")


def record_of(folder: Path, sources: tuple[str, ...] = ()) -> Path:
    """A record of vLLM on a CPU without a draft and with three drafted tokens, beside its machine."""
    for name in MACHINE:
        shutil.copy(VLLM / name, folder)
    parts = [json.loads(next(VLLM.glob(f"engine-*-K{gamma}.json")).read_text()) for gamma in (0, 3)]
    plain, drafted = parts
    points = plain["points"] + drafted["points"]
    subject = drafted["subject"]
    path = folder / "engine-both.json"
    merged = {**drafted, "subject": subject, "sources": list(sources), "points": points}
    merged.pop("crc32", None)
    path.write_text(stamped(json.dumps(merged)))
    return path


def test_a_speedup_is_the_ratio_of_the_times_per_token(tmp_path: Path) -> None:
    figures = served_figures(record_of(tmp_path), None, {})
    assert len(figures) == 6 + 6 + 6
    by_name = {(figure.row, figure.part.rpartition("/")[2]): figure for figure in figures}
    for batch in (1, 2, 4, 8):
        place = f"B{batch}-P256-N160"
        plain = by_name[f"{place}-K0", "ar_tpot_s"]
        drafted = by_name[f"{place}-K3", "sd_tpot_s"]
        speedup = by_name[f"{place}-K3", "speedup"]
        assert speedup.measured == pytest.approx(plain.measured / drafted.measured)
        assert speedup.predicted == pytest.approx(plain.predicted / drafted.predicted)


def test_a_record_that_repeats_its_sources_has_no_figures(tmp_path: Path) -> None:
    (source,) = VLLM.glob("engine-*-K3.json")
    shutil.copy(source, tmp_path)
    assert served_figures(record_of(tmp_path, (source.name,)), None, {}) == []
    assert served_figures(record_of(tmp_path, (source.name, "gone.json")), None, {}), "a source is missing"


def test_the_named_calibration_precedes_that_of_the_baseline_and_that_of_the_device(tmp_path: Path) -> None:
    path = record_of(tmp_path)
    ideal = load_calibration("ideal")
    of_device = served_figures(path, None, {})[0]
    (pinned,) = {
        figure.calibration for figure in served_figures(path, None, {"cpu-engine/vllm/target": ideal})
    }
    (named,) = {figure.calibration for figure in served_figures(path, "ideal", {})}
    assert pinned == named == ideal.name != of_device.calibration


def test_kernels_and_other_files_have_no_figures(tmp_path: Path) -> None:
    (kernels,) = VLLM.glob("*-micro.json")
    assert kind_of(kernels) is None
    assert kind_of(VLLM / "bench-K0-1.json") is None
    kinds = {path.name: kind for path, kind in records_in(VLLM)}
    assert set(kinds.values()) == {"engine"}
    assert {kind for _, kind in records_in(BUNDLED / "cpu-1")} == {"measure"}
