"""Requests that a server of ``traffic`` runs at once: by its memory, its engine, its draft and its groups."""

from dataclasses import replace
from pathlib import Path

import pytest

import perfmodel as pm
from perfmodel.answers.load.traffic_query import TrafficQuery


def test_no_more_than_the_whole_room_is_taken():
    """Answers of 30 k and 100 tokens, 14 at once; those that wait between their tokens hold a seat too.

    vLLM 0.22 on an A100 has 0.9 x 79.2 - 0.07 - 0.15 GiB, less 2048 x 2 x (2 x 14336 + 3 x 4096) bytes for a
    pass, 256 x 128 256 x 12 for the sampler and 16 060 522 496 of weights: 59 678 MB. A sequence in the
    middle of its answer, 30 720 + 50 + 1 tokens, takes 131 072 bytes for each.
    """
    few, many = pm.traffic(
        "llama-3.1-8b",
        "a100",
        "30k",
        100,
        alpha=0.5,
        draft="ngram",
        request_rate="0.22,0.29",
        gamma=0,
        closed_form=True,
    ).rows
    for row in (few, many):
        assert row.kv_share * 14.797 == pytest.approx(row.running_mean, rel=1e-3)
    assert 5 < many.running_mean < 14.797


def test_seats_are_those_that_the_engine_takes_there_unless_asked() -> None:
    def seats(gpu: str, **changes: object) -> int:
        return TrafficQuery("llama-3.1-8b", gpu, 1000, 100, request_rate=1, **changes).limits.max_num_seqs

    assert seats("h100") == 1024
    assert seats("mi300x") == 1024
    assert seats("a100-sxm-80gb") == 256
    assert seats("l40s") == 256
    assert seats("h100", engine="vllm@0.7.3") == 256
    assert seats("h100", engine="vllm@0.8.0") == 1024
    assert seats("h100", engine="sglang") == 2048
    assert seats("h100", engine="llamacpp") == 4
    assert seats("h100", max_num_seqs=64) == 64
    assert seats("h100", calibration="ideal") == 256


@pytest.mark.parametrize("clients", [12, 28, 80])
def test_as_many_clients_as_seats_wait_no_longer_than_with_free_seats(clients: int) -> None:
    question = {"output_std": 15, "gamma": 0, "max_concurrency": clients}
    full, free = (
        pm.traffic("llama-3.1-8b", "h100", 1000, 300, **question, max_num_seqs=seats).rows[0]
        for seats in (clients, 4 * clients)
    )
    assert full.output_tokens_per_s == pytest.approx(free.output_tokens_per_s, rel=0.01)
    assert full.ttft_s.mean < 1.1 * free.ttft_s.mean


def test_sglang_runs_48_requests_with_a_draft_unless_more_are_stated() -> None:
    """Its servers reset --max-running-requests for any draft."""
    question = {"engine": "sglang", "alpha": 0.7, "gamma": 3, "max_concurrency": 128, "output_std": 100}
    default = pm.traffic("qwen3-8b", "h100", 1000, 500, **question, draft="eagle3")
    stated = pm.traffic("qwen3-8b", "h100", 1000, 500, **question, draft="eagle3", max_num_seqs=256)
    assert default.rows[0].running_mean == pytest.approx(stated.rows[0].running_mean)
    assert 40 < default.rows[1].running_mean <= 48 < stated.rows[1].running_mean
    assert any("48 requests at once by default" in text for text in default.warnings)
    assert not any("at once by default" in text for text in stated.warnings)


def test_seats_of_a_draft_are_named_only_if_a_draft_runs_and_requests_need_more() -> None:
    def is_named(clients: int, gamma: int) -> bool:
        server = {"engine": "sglang", "draft": "eagle3", "alpha": 0.7, "closed_form": True}
        load = {"max_concurrency": clients, "output_std": 100}
        answer = pm.traffic("qwen3-8b", "h100", 1000, 500, **server, **load, gamma=gamma)
        return any("48 requests at once by default" in text for text in answer.warnings)

    assert is_named(49, 3)
    assert not is_named(48, 3)
    assert not is_named(49, 0)


def test_a_server_whose_command_states_its_seats_has_as_many_with_a_draft() -> None:
    """Such as those of `advise` and of pools, whose command has --max-running-requests."""
    asked = TrafficQuery("qwen3-8b", "h100", 1000, 500, request_rate=1, engine="sglang")
    seats = [each.limits.seats(drafts) for each in (asked, asked.planned) for drafts in (False, True)]
    assert seats == [2048, 48, 2048, 2048]


def test_each_group_has_seats_of_its_own() -> None:
    question = TrafficQuery("deepseek-r1", "b200", 1000, 100, request_rate=1, tp=8)
    one = replace(question, dp=1).limits
    eight = replace(question, dp=8).limits
    assert eight.max_num_seqs == 8 * one.max_num_seqs
    assert eight.max_num_batched_tokens == 8 * one.max_num_batched_tokens


def test_a_trace_of_which_no_request_fits_has_a_row_of_a_table_without_figures(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    request = '{{"timestamp": {}, "input_length": 1000, "output_length": 20}}'
    trace.write_text("\n".join(request.format(1000 * second) for second in range(20)))
    ask = {"draft": "eagle3", "alpha": 0.7, "gamma": "table", "trace": str(trace)}
    baseline, table = pm.traffic("llama-3.1-70b", "rtx-3060", **ask).rows
    assert (baseline.gamma, table.gamma) == (0, "table")
    assert (baseline.output_tokens_per_s, table.output_tokens_per_s) == (0.0, 0.0)
