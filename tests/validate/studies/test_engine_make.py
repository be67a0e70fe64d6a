"""Everything the engines' rows say: errors to state, acceptance carried to other lengths, and both files as shipped."""

import json
from collections.abc import Iterator
from math import log
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from perfmodel.errors import InputError
from perfmodel.specs.engines import engines
from perfmodel.specs.fits import Scatter, square
from perfmodel.specs.published_engines import engine_speculation, served
from perfmodel.validate.studies import engines as engine_make
from perfmodel.validate.studies.engines import Made, Replayed, _by_device, _carried, _wider, acceptance, kept, texts
from perfmodel.validate.studies.engines_file import path as shipped_file
from perfmodel.validate.studies.held_out import Errors
from perfmodel.validate.studies.parameters import DECODING, SPECULATING
from perfmodel.validate.studies.robust import Found


def within(value: float, rms: float = 0.01) -> Scatter:
    return Scatter(log_rms=rms, log_within=value, rows=3, source="by hand")


def test_an_acceptance_that_is_constant_is_carried_without_error() -> None:
    """Rates of 0.8 and 0.5 gain 1.8 and 2.2 tokens. One token says alpha 0.8, so 2.44 at two; two say a + a^2 = 1.2."""
    assert _carried((0.7, 0.7, 0.7)) == pytest.approx([0.0] * 6, abs=1e-9)
    alpha = (-1 + 5.8**0.5) / 2
    up, down = log(2.44 / 2.2) / log(3 / 2), log((1 + alpha) / 1.8) / log(2 / 3)
    assert _carried((0.8, 0.5)) == pytest.approx([up, down])
    assert len(_carried((1.0, 0.9, 0.8, 0.7))) == 4 * 3


def test_the_error_of_carrying_is_that_of_every_list_by_position(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two lists: 0.8 and 0.5 of a printed row, and the same of a clocked one."""
    lists = [SimpleNamespace(draft="eagle", positions="p", conditional=(0.8, 0.5))]
    lists += [SimpleNamespace(draft="ngram", positions="n", conditional=(0.1, 0.9))]
    clocked = [SimpleNamespace(positions="0.6/0.36", steps=2), SimpleNamespace(positions="0.9", steps=1)]
    clocked += [SimpleNamespace(positions="", steps=3), SimpleNamespace(positions="0.6/0.36", steps=2)]
    monkeypatch.setattr(engine_make, "served", lambda: lists)
    monkeypatch.setattr(engine_make, "engine_speculation", lambda: clocked)
    off = np.array([*_carried((0.8, 0.5)), 0.0, 0.0])
    found = acceptance()
    assert found.rows == 4
    assert found.log_rms == pytest.approx(float(np.sqrt(np.mean(off**2))), rel=1e-3)
    assert found.log_within == pytest.approx(float(np.quantile(np.abs(off), 0.9)), rel=1e-3)
    assert "of 2 acceptances" in found.source


def test_the_shipped_error_of_carrying_is_what_the_rows_show() -> None:
    assert acceptance() == engines().acceptance
    assert len({r.positions for r in served() if r.draft != "ngram"}) >= 3
    assert any(r.positions and r.steps > 1 for r in engine_speculation())


def test_the_wider_of_two_errors_is_stated() -> None:
    assert _wider(None, within(0.1)) == within(0.1)
    assert _wider(within(0.2), within(0.1)) == within(0.2)
    assert _wider(within(0.1), within(0.2)) == within(0.2)
    assert _wider(within(0.1, 0.03), within(0.1, 0.02)) == within(0.1, 0.02)  # as wide: what was asked for


def test_less_held_out_is_never_less_sure() -> None:
    """Steps err by 0.1, 0.3, 0.2 and 0.1 as more is left out, ratios by 0.4, 0.2 (devices: studies) and 0.5.

    Of another maker's device there is one group; SGLang has no steps at another degree, TensorRT-LLM no iterations.
    """
    many = [f"{engine} {i}" for engine in ("vllm", "trtllm", "sglang") for i in range(300)]

    def errors(off: float, *engines: str) -> Errors:
        groups = [g for g in many if g.split()[0] in engines]
        return Errors(np.full(len(groups), off), [g.split()[0] for g in groups], groups)

    every = ("vllm", "trtllm", "sglang")
    steps: Any = {"seen": errors(0.1, "vllm", "trtllm"), "model": errors(0.3, *every), "gpu": errors(0.2, *every)}
    steps |= {"transferred": errors(0.1, *every), "maker": Errors(np.array([0.6, 0.8]), ["sglang"] * 2, ["x", "x"])}
    ratios: Any = {"seen": errors(0.4, "vllm", "sglang"), "model": errors(0.2, "vllm", "sglang")}
    ratios |= {"transferred": errors(0.5, "vllm", "sglang")}
    found = Replayed(steps, ratios).stated()
    assert set(found) == {"vllm", "trtllm", "sglang"}
    order = ("seen", "model", "gpu", "transferred")
    for engine, stated in found.items():
        within = [stated[r]["target_s"].log_within for r in order]
        assert within == pytest.approx([0.3 if engine == "sglang" else 0.1, 0.3, 0.3, 0.3], rel=0.01)
        within = [stated[r]["ratio"].log_within for r in (*order, "maker")]
        assert within == pytest.approx([0.5] * 5 if engine == "trtllm" else [0.4, 0.4, 0.4, 0.5, 0.5], rel=0.01)
        assert stated["maker"]["target_s"].log_within is None
        assert stated["maker"]["target_s"].log_rms == pytest.approx(0.5**0.5, abs=1e-3)
    assert found["vllm"]["gpu"]["target_s"].source == "steps of models left out whole"
    assert found["vllm"]["transferred"]["ratio"].source == "engines left out of ratios"


def test_devices_list_each_model_once_in_order() -> None:
    rows = [
        ("vllm", "h100", "a"),
        ("vllm", "h100", "b"),
        ("vllm", "h100", "a"),
        ("vllm", "h200", "a"),
        ("sglang", "h100", "c"),
    ]
    assert _by_device(rows) == {"vllm": {"h100": ("a", "b"), "h200": ("a",)}, "sglang": {"h100": ("c",)}}


def test_both_files_come_out_as_shipped() -> None:
    """From the constants that ship with their errors: every fold replayed, every error stated anew."""
    places, found = engines().places(), kept()

    def fitted(parameters: tuple, values: dict[str, float], correlation: np.ndarray) -> Found:
        relative = np.array([places[p.place].stderr / places[p.place].value for p in parameters])
        return Found(values, correlation * np.outer(relative, relative))

    made = Made(
        fitted(DECODING, found["steps"], np.eye(len(DECODING))),
        fitted(SPECULATING, found["iteration"], square(engines().fit.correlation)),
        found["step_folds"],
        found["ratio_folds"],
    )
    stated, text = texts(made, found["ablations"], engines().date)
    assert text == engine_make.path().read_text(encoding="utf-8")
    ours, theirs = (
        list(_leaves(yaml.safe_load(each))) for each in (stated, shipped_file().read_text(encoding="utf-8"))
    )
    assert [place for place, _ in ours] == [place for place, _ in theirs]
    for (place, one), (_, other) in zip(ours, theirs, strict=True):  # the shipped errors are of unrounded constants
        assert one == (pytest.approx(other, rel=0.005, abs=1e-12) if isinstance(other, float) else other), place


def _leaves(data: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(data, (dict, list)):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _leaves(value, f"{place}.{key}")
    else:
        yield place, data


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "must be there"), ("{", "must be there"), ('{"schema_version": 2}', "must be 1, given 2")],
)
def test_a_file_of_folds_that_cannot_be_read_is_refused(
    text: str | None, words: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "engines.json"
    if text is not None:
        place.write_text(text)
    monkeypatch.setattr(engine_make, "path", lambda: place)
    with pytest.raises(InputError, match=words):
        kept()


def test_everything_is_made_from_all_rows_and_without_each_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps first; their constants price the ratios. A transfer has the constants of the device left out."""
    row = SimpleNamespace(group="g", study="s", engine="vllm")
    monkeypatch.setattr(engine_make, "rows_of", lambda relation: relation)
    monkeypatch.setattr(engine_make, "fit", lambda rows: (SimpleNamespace(values=f"all of {rows}"), "slopes"))
    monkeypatch.setattr(engine_make, "refits", lambda rows, slopes, by, whole: (rows, slopes, by, whole))
    ratios = SimpleNamespace(
        iterations=lambda values: [row],
        fit=lambda rows: SimpleNamespace(values="all ratios"),
        refits=lambda rows, keys, whole: (keys, whole),
    )
    monkeypatch.setattr(engine_make, "ratios", ratios)
    made: Any = engine_make.make()
    assert (made.steps.values, made.iteration.values) == ("all of seen", "all ratios")
    assert made.step_folds == {
        **{by: ("seen", "slopes", by, "all of seen") for by in ("seen", "model", "gpu")},
        **dict.fromkeys(("transferred", "maker"), ("seen", "slopes", "gpu", "all of seen")),
    }
    keys = {"seen": "g", "model": "s", "transferred": "vllm"}
    assert made.ratio_folds == {by: ([key], "all ratios") for by, key in keys.items()}


def test_folds_of_a_transfer_are_those_of_devices(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "engines.json"
    place.write_text(json.dumps({"schema_version": 1, "step_folds": {"gpu": {"h100": {"x": 1}}}}))
    monkeypatch.setattr(engine_make, "path", lambda: place)
    assert kept()["step_folds"]["transferred"] == {"h100": {"x": 1}}
