"""Whatever of the shipped data is changed, the gate names what moved; a record that is none is refused in one
line.
"""

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perfmodel.specs.boundary.units import FACTORS
from perfmodel.validate.studies import gate, record as accuracy
from perfmodel.validate.studies.inputs import inputs
from tests.attack.tampered import copied
from tests.refusals import refused

MAGICDEC = "hardware/calibrations/a100-sxm-80gb.magicdec.yaml"
GPT_FAST = "hardware/calibrations/a100-sxm-80gb.gpt-fast.yaml"
OWN = "results/cpu-1/20261121T122043Z-94313695-cpu-full"
LLAMA = "results/cpu-engine/llamacpp/ngram-K3-B1"


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    """As committed, but for inputs that changed since."""
    return gate.read(accuracy.PATH) | {"inputs": inputs()}


@pytest.fixture(scope="module")
def shipped(recorded: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of all shipped data, which all answers of this module are made from."""
    with copied(tmp_path_factory.mktemp("package")) as folder:
        yield folder


def changes_named(recorded: dict[str, Any], shipped: Path) -> list[str]:
    return gate.faults({"inputs": recorded["inputs"]}, {"inputs": inputs(shipped / "results")})


Edit = Callable[[str], str]


def swap(old: str, new: str) -> Edit:
    """Replace the first place of a pattern."""
    return lambda text: re.sub(old, new, text, count=1)


TAMPERINGS: list[tuple[str, Edit, str]] = [
    (MAGICDEC, swap("stderr: 0.019", "stderr: 0.005"), "calibrations/a100-sxm-80gb.magicdec.yaml: "),
    (
        MAGICDEC,
        swap("log_rms: 0.202, rows: 12", "log_rms: 0.202, rows: 120"),
        "calibrations/a100-sxm-80gb.magicdec.yaml: ",
    ),
    (
        GPT_FAST,
        swap("shards_lm_head: false", "shards_lm_head: true"),
        "calibrations/a100-sxm-80gb.gpt-fast.yaml: ",
    ),
    (MAGICDEC, swap("fitted_on: .magicdec.", "fitted_on: [magicdec, gptfast_decode]"), "calibrations/"),
    (
        "hardware/gpus/mi300x-192gb.yaml",
        swap("(memory_bandwidth: .value: )[0-9.]+", r"\g<1>5000"),
        "gpus/mi300x-192gb",
    ),
    ("models/deepseek-r1.yaml", swap(r"(\w+): (\d+)\n", r"\1: 7\n"), "models/deepseek-r1.yaml: "),
    (
        "results/published/points.csv",
        swap("(3a-02,.*?),8.46,", r"\1,8.461,"),
        "results/published/points.csv: ",
    ),
    (
        "results/published/points.csv",
        swap("3a-03,.*\n", ""),
        "results/published/points.csv: ",
    ),
    ("results/published/served.csv", swap(",positions,", ",position,"), "results/published/served.csv: "),
    (
        "results/published/points.csv",
        lambda t: t + t.splitlines()[1] + "\n",
        "results/published/points.csv: ",
    ),
    (
        "results/published/extra.csv",
        lambda t: "id,speedup\nx,9.9\n",
        "results/published/extra.csv: not recorded",
    ),
    (f"{OWN}.json", swap("0.000417799,", "0.000417798,"), "results/cpu-1/20261121T122043Z"),
    (
        "results/cpu-engine/device.yaml",
        swap("value: 42.9", "value: 43.0"),
        "results/cpu-engine/device.yaml: ",
    ),
    ("models/heads.csv", swap(",32000,", ",32001,"), "models/heads.csv: "),
    ("models/unread.csv", swap(",yes,", ",no,"), "models/unread.csv: "),
    ("validate/plans/cpu-full.yaml", swap("gamma: .*", "gamma: 1"), "plans/plans/cpu-full.yaml: "),
    (f"{LLAMA}.jsonl", swap("2", "3"), "results/cpu-engine/llamacpp/ngram-K3-B1.jsonl: "),
    ("hardware/gpus/h100-sxm-80gb.yaml", lambda t: "# a remark\n" + t, "gpus/h100-sxm-80gb.yaml: "),
    ("results/cpu-1/report.md", swap("[0-9]", "x"), "results/cpu-1/report.md: "),
    ("hardware/links/nvl72.yaml", swap("[0-9]", "x"), "links/nvl72.yaml: "),
    ("hardware/memory/llamacpp.yaml", swap("[0-9]", "x"), "memory/llamacpp.yaml: "),
    ("hardware/fitted/requests.yaml", swap("[0-9]", "x"), "engines/fitted/requests.yaml: "),
    ("hardware/engines/vllm.yaml", swap("[0-9]", "x"), "engines/engines/vllm.yaml: "),
    ("hardware/kv_tiers.yaml", swap("[0-9]", "x"), "engines/kv_tiers.yaml: "),
    ("results/withdrawn.yaml", swap("up to 7 ms", "up to 9 ms"), "results/withdrawn.yaml: "),
]


ROUNDS = 4
"""Every fourth change is of another file, so that they are made together."""


@pytest.mark.parametrize("first", range(ROUNDS))
def test_each_change_is_named_and_nothing_else(recorded: dict[str, Any], shipped: Path, first: int) -> None:
    chosen = {shipped / name: (edit, moved) for name, edit, moved in TAMPERINGS[first::ROUNDS]}
    assert len(chosen) == len(TAMPERINGS[first::ROUNDS])
    before = {path: path.read_text(encoding="utf-8") for path in chosen if path.exists()}
    for path, (edit, _) in chosen.items():
        changed = edit(before.get(path, ""))
        assert changed != before.get(path), path
        path.write_text(changed, encoding="utf-8")
    try:
        head, *lines = changes_named(recorded, shipped)
    finally:
        for path in chosen:
            path.unlink()
        for path, text in before.items():
            path.write_text(text, encoding="utf-8")
    assert re.match(
        rf"changed: {len(lines)} inputs are not what was recorded; if that is meant, run `perfmodel val", head
    )
    for _, moved in chosen.values():
        assert any(moved in line for line in lines), (moved, lines)
    assert all(any(moved in line for _, moved in chosen.values()) for line in lines), lines


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("gpus", "a100-sxm-80gb"),
        ("models", "qwen3-8b"),
    ],
)
def test_a_file_that_is_added_is_no_fault_and_one_that_is_gone_is(
    recorded: dict[str, Any], kind: str, file: str
) -> None:
    inputs = recorded["inputs"]
    without = {
        name: made_of for name, made_of in inputs[kind].items() if not f"{name}.".startswith(f"{file}.")
    }
    before = {"inputs": inputs | {kind: without}}
    assert gate.faults(before, {"inputs": inputs}) == []
    lines = gate.faults({"inputs": inputs}, before)[1:]
    assert len(lines) == len(inputs[kind]) - len(without) > 0
    assert all(line.endswith("recorded, but gone") for line in lines)


def test_a_changed_unit_is_named(
    recorded: dict[str, Any], shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FACTORS, "GiB", 1e9)
    (_, line) = changes_named(recorded, shipped)
    assert line == "  /units/GiB: 1073741824.0 -> 1000000000.0"


def test_what_moved_by_more_than_rounding_is_named(recorded: dict[str, Any]) -> None:
    """All figures by 0.19 %, and a part that is in neither the one nor the other."""

    def scaled(value: Any, by: float) -> Any:
        return json.loads(json.dumps(value), parse_float=lambda figure: float(figure) * by)

    off = recorded | {"replays": scaled(recorded["replays"], 1.0019)}
    for one, other in ((recorded, off), (off, recorded)):
        (head, *_, more) = gate.faults(one, other)
        assert head.startswith("stale: ")
        assert int(head.split()[1]) > 200
        assert more == f"  ... and {int(head.split()[1]) - gate.MOST_LINES} more"
    assert gate.faults(recorded, scaled(recorded, 1 + 1e-7)) == []
    for one, other in ((recorded, recorded | {"more": 1}), (recorded | {"more": 1}, recorded)):
        assert gate.faults(one, other)[1].startswith("  /more: ")


def test_as_many_differences_as_are_listed_have_no_count_of_further_ones() -> None:
    most = {"inputs": {}} | {str(n): 0 for n in range(gate.MOST_LINES)}
    (head, *lines) = gate.faults(most, dict.fromkeys(most, 1) | {"inputs": {}})
    assert head.startswith(f"stale: {gate.MOST_LINES} recorded figures")
    assert all(line.endswith(": 0 -> 1") for line in lines)
    assert len(lines) == gate.MOST_LINES


@pytest.mark.parametrize("name", ["mape", "small_kernel_s"])
def test_a_small_change_of_an_error_and_of_a_constant_in_microseconds_is_named(name: str) -> None:
    before = {"mape": 0.03, "small_kernel_s": 2e-6}[name]
    for times, lines in ((1 + 1e-6, 0), (1 + 1e-4, 2)):
        off = {"inputs": {}, name: before * times}
        assert len(gate.faults({"inputs": {}, name: before}, off)) == lines


@pytest.mark.parametrize("figure", [0.0, float("nan"), "0.0281", None])
def test_a_changed_figure_a_lost_prediction_and_a_violated_bound_are_named(
    recorded: dict[str, Any], figure: object
) -> None:
    off = copy.deepcopy(recorded)
    off["replays"]["held-out"]["overall"]["mape"] = figure
    last = len(off["replays"]["shipped"]["predicted"]) - 1
    off["replays"]["shipped"]["predicted"].pop()
    off["bounds"]["violations"].append("magicdec/3c-13/target_s")
    bound, stale, *lines = gate.faults(recorded, off)
    assert bound == "bound: magicdec/3c-13/target_s was measured below its physical lower bound"
    assert stale.startswith("stale: 3 ")
    assert lines[0] == "  /bounds/violations/0: not recorded"
    assert re.fullmatch(rf"  /replays/held-out/overall/mape: 0\.028\d* -> {figure}", lines[1])
    assert lines[2] == f"  /replays/shipped/predicted/{last}: recorded, but gone"


def test_somebodys_own_records_enter_no_gate(recorded: dict[str, Any], shipped: Path) -> None:
    own = shipped / "results/local-mine"
    own.mkdir()
    (own / "20261121T122043Z-94313695-x.json").write_text("{}")
    assert changes_named(recorded, shipped) == []


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda r: r.pop("inputs"), "must have the keys inputs"),
        (lambda r: r["inputs"].update(gpus=3), "inputs.gpus: "),
        (lambda r: r.update(schema_version=[2]), "schema_version: must be 2"),
    ],
)
def test_a_malformed_record_is_one_line(
    recorded: dict[str, Any], tmp_path: Path, spoil: Callable[[dict[str, Any]], object], words: str
) -> None:
    path = tmp_path / "accuracy.json"
    spoiled = json.loads(json.dumps(recorded))
    spoil(spoiled)
    path.write_text(json.dumps(spoiled))
    refused(f"^{re.escape(str(path))}.*{words}", gate.read, path)


def test_a_record_that_is_none_or_with_a_figure_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "accuracy.json"
    text = accuracy.PATH.read_text(encoding="utf-8")
    figures = [re.sub(r'"mape": [0-9.]+', f'"mape": {value}', text, count=1) for value in ("NaN", "Infinity")]
    for wrong in (None, "{", "[]", "{}", '{"schema_version": 1}', *figures):
        if wrong is not None:
            path.write_text(wrong)
        refused(r"accuracy\.json", gate.read, path)
