"""The record of errors on racks is that of the present model, and the constants are those of its fit."""

import json

from perfmodel.specs.engines.rack_constants import rack_constants
from perfmodel.validate.studies import racks


def test_the_record_and_the_constants_are_those_of_the_present_model() -> None:
    """After a change run `python -m perfmodel.validate.studies.racks`; hardware/fitted/racks.yaml follows."""
    found = racks.text()
    assert found == racks.PATH.read_text(encoding="utf-8")
    fitted = json.loads(found)
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
