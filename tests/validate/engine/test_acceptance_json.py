"""Acceptance figures in the JSON of vLLM: its responses, and runs of its benchmark client."""

import json
from dataclasses import replace
from typing import Any

import pytest

from perfmodel.validate.engine.acceptance import import_file
from perfmodel.validate.engine.acceptance.vllm_json import BENCH
from tests.refusals import refused
from tests.validate.engine.figures import acceptance, subject


def answer_with(histogram: list[int]) -> dict[str, Any]:
    """An answer of vLLM that counts its verifications by the tokens they accepted."""
    counted = {"acceptance_histogram": histogram, "num_spec_tokens": 2}
    return {
        "usage": {"prompt_tokens": 100, "completion_tokens": 22},
        "metrics": {"speculative_decoding": counted},
    }


def test_answers_of_vllm_count_their_own_verifications(tmp_path) -> None:
    """Of 10 verifications 3 accept nothing, 2 one token and 5 both."""
    answers = [answer_with([1, 2, 2]), answer_with([2, 0, 3])]
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(map(json.dumps, answers)))
    imported = import_file(path, None, replace(subject(2), context=()))
    assert imported.rows[0].histogram == (3.0, 2.0, 5.0)
    assert imported.rows[0].context_tokens == 111
    for other in (answer_with([]), answer_with([3]), {"usage": answers[0]["usage"]}):
        path.write_text(json.dumps([answers[0], other]))
        refused("must be a list of counts in each response", import_file, path, None, subject(2))


def test_a_run_of_n_grams_has_an_iteration_for_each_token_that_no_draft_gained(tmp_path) -> None:
    """250 tokens, the first of each of 10 requests from its prompt: 240 - 140 accepted are 100 iterations."""
    rates = {BENCH: [0.9, 0.5], "spec_decode_num_drafts": 100, "spec_decode_draft_tokens": 200}
    path = tmp_path / "run.json"
    for drafts, generated in ((100, 250), (50, 180)):
        run = rates | {"spec_decode_num_drafts": drafts, "total_output_tokens": generated, "completed": 10}
        path.write_text(json.dumps(run))
        gained = (generated - 10) / 100
        measured = acceptance(path, 2, tmp_path, draft="ngram")
        assert measured.tokens_per_iteration(2) == pytest.approx(gained)
    path.write_text(json.dumps(rates | {BENCH: [1.1, 0.5]}))
    refused("must be a list of rates from 0 to 1 by position", import_file, path, None, subject(2))
