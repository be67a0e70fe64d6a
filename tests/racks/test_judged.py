"""The record of errors on racks is that of the present model, and the constants are those of its fit."""

import json
import math
from dataclasses import replace

import pytest

import perfmodel as pm
from perfmodel.specs import Z
from perfmodel.specs.engines.rack_constants import rack_constants
from perfmodel.speculation import Workload, predict
from perfmodel.validate.studies import racks
from perfmodel.validate.studies.rack_errors import RackError
from perfmodel.validate.studies.rack_rows import scenario_of


@pytest.mark.slow
def test_the_record_and_the_constants_are_those_of_the_present_model() -> None:
    """After a change run `python -m perfmodel.validate.studies.racks`; hardware/fitted/racks.yaml follows."""
    record = racks.text()
    assert record == racks.PATH.read_text(encoding="utf-8")
    fitted = json.loads(record)
    bundled = rack_constants()
    assert fitted["constants"]["waiting"] == bundled.waiting.value
    assert fitted["constants"]["overlap"] == {name: each.value for name, each in bundled.overlap.items()}
    assert abs(fitted["widths"]["step"] / 1.645 - bundled.step_log_rms) < 0.001


def test_every_row_has_a_source_and_counts_or_says_why_not() -> None:
    for row in racks.rows():
        assert row.source, row.row_id
        assert row.left_out or row.kind in ("step", "served", "prefill", "offload", "transfer"), row.row_id


def test_a_fold_has_not_seen_its_source() -> None:
    seen = [row for row in racks.rows() if row.counts and row.source_id != "vllm-wideep-h200"]
    assert "vllm" not in {row.engine for row in seen if row.overlap}


def test_the_ratios_that_the_page_states() -> None:
    page = " ".join((racks.PATH.parents[1] / "docs" / "racks.md").read_text(encoding="utf-8").split())
    boxed = {"model": "deepseek-v3", "hardware": "h200", "engine": "sglang", "tp": 8, "ep": 8, "dp": 8}
    answer = pm.whatif(**boxed, batch=512, context=2048, gamma=1, draft="mtp", alpha=0.7)
    iteration = answer.iteration_s / answer.target_step.predicted_s
    assert f"predicted time of an iteration is {iteration:.2f} baseline steps" in page
    assert f"of which the verification takes {answer.cost_ratios.verify_to_target:.2f}" in page
    listed = json.loads(racks.PATH.read_text(encoding="utf-8"))["rows"]
    measured = {(row["row"], row["figure"]): row["measured"] for row in listed}
    assert f"speedup is {measured['srt-dsv4-b200-20', 'speedup']:.2f}" in page
    plain = measured["lmsys-mtp-01", "step"]
    assert f"{measured['lmsys-mtp-03', 'step'] / plain:.2f} with gamma 2" in page


def test_what_the_page_says_of_mtp_on_another_maker_s_device() -> None:
    """Iterations of DeepSeek-R1 are within 15 %, those of Qwen3.5 take 6 to 16 % longer than predicted."""
    longer = []
    for row in racks.rows():
        if row.source_id not in ("ix-dsr1-mi355", "ix-qwen35-mi355") or not row.gamma:
            continue
        workload = Workload.of(float(row.batch or 1), float(row.context or 0), row.gamma)
        predicted_ms = 1e3 * float(predict(scenario_of(row.row_id), workload).iteration_s)
        if row.step_ms is not None:
            assert predicted_ms == pytest.approx(row.step_ms, rel=0.15)
        else:
            assert row.tpot_ms is not None
            assert row.tokens_per_iteration is not None
            longer.append(row.tpot_ms * row.tokens_per_iteration / predicted_ms)
    page = (racks.PATH.parents[1] / "docs" / "racks.md").read_text(encoding="utf-8")
    shown = f"{100 * (min(longer) - 1):.0f} to {100 * (max(longer) - 1):.0f} %"
    assert f"The iterations take {shown} longer than" in " ".join(page.split())


@pytest.mark.slow
def test_the_width_of_steps_is_what_left_out_rows_need_beside_the_tables_of_links() -> None:
    left_out, _ = racks.left_out()
    errors = [
        each.unexplained <= racks.width(left_out, "step")
        for each in left_out
        if each.figure == "step" and each.beyond_node
    ]
    assert 0.85 <= sum(errors) / len(errors) < 1.0


def test_the_tables_of_links_explain_a_part_of_an_error() -> None:
    """Half-widths add as independent ones do; what the links explain whole needs no further width."""
    missed = RackError("a", "b", "step", measured=10.0, predicted=10.0 * math.exp(-0.5), links=0.3 / Z)
    assert missed.unexplained == pytest.approx(0.4)
    assert replace(missed, links=0.6 / Z).unexplained == 0.0
