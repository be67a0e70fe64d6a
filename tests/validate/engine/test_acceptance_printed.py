"""Acceptance figures that programs of vLLM print: its benchmark client and an example."""

from dataclasses import replace

import pytest

from perfmodel.validate.engine.acceptance import import_file
from tests.refusals import refused
from tests.validate.engine.figures import acceptance, subject
from tests.validate.engine.pasting import sample

SCRIPT = """total_num_output_tokens: 65536
num_drafts: 1000
num_draft_tokens: 2000
num_accepted_tokens: 1420
mean acceptance length: 2.42
--------------------------------------------------
acceptance at token 0: 0.81
acceptance at token 1: 0.61
"""
"""As vLLM's example `spec_decode.py` prints."""


def test_the_example_of_vllm_prints_rates_by_position(tmp_path) -> None:
    path = tmp_path / "printed"
    path.write_text(SCRIPT)
    assert acceptance(path, 2, tmp_path).tokens_per_iteration(2) == pytest.approx(2.42)
    for old, new, says in (
        ("token 1", "token 2", "acceptance at token N: must be N = 0, 1, 2, ..."),
        ("0.61", "1.61", "acceptance at token N: must be rates from 0 to 1"),
        ("num_drafts", "drafts", "must hold the lines num_drafts and num_draft_tokens"),
        ("1000", "x", "num_drafts, num_draft_tokens: must be counts"),
        ("1000", "-1", "num_drafts, num_draft_tokens: must be counts"),
        ("2000", "-1", "num_drafts, num_draft_tokens: must be counts"),
    ):
        path.write_text(SCRIPT.replace(old, new))
        refused(says, import_file, path, None, subject(2))


def test_the_block_of_vllms_client_counts_by_position_and_states_its_requests(tmp_path) -> None:
    """3,277 drafts of three tokens; 32 requests of 1,024 and 256 tokens."""
    path = tmp_path / "printed"
    path.write_text(sample("serving_block"))
    assert acceptance(path, 3, tmp_path).tokens_per_iteration(3) == pytest.approx(2.5)
    (row,) = import_file(path, None, replace(subject(3), context=())).rows
    assert row.context_tokens == 1024 + 128
    path.write_text(sample("serving_block").replace("70.00", "700"))
    refused("Position N: must be rates from 0 to 100", import_file, path, None, subject(3))
    for old, new in (("Successful", "All"), ("Total input", "x"), ("            32\n", "            0\n")):
        path.write_text(sample("serving_block").replace(old, new, 1))
        refused("--context: must be given", import_file, path, None, replace(subject(3), context=()))
