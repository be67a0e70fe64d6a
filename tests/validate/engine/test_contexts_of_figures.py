"""The contexts of acceptance figures: as they are stated, as counters hold them, and beyond those."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from perfmodel.specs import find_acceptance
from perfmodel.specs.acceptance.acceptance_file import read_acceptance
from perfmodel.specs.acceptance.acceptance_rows import CONTEXT_DRIFT
from perfmodel.speculation import Acceptance
from perfmodel.validate.engine.acceptance import AcceptanceSubject, import_file
from perfmodel.validate.engine.acceptance.vllm_json import BENCH
from tests.refusals import refused
from tests.validate.engine.figures import page, subject

Contexts = list[tuple[float, tuple[float, float]]]


def held(text: str, tmp_path: Path) -> Contexts:
    """The contexts of the rows that are imported from a text."""
    path = tmp_path / "figures"
    path.write_text(text)
    one = AcceptanceSubject("t", "d", "full", (), 3, gamma_given=False)
    rows = import_file(path, None, one).rows
    return [(row.context_tokens, row.context_range_tokens) for row in rows]


def held_json(answer: Mapping[str, Any], tmp_path: Path) -> Contexts:
    return held(json.dumps(answer), tmp_path)


def histogram_of_vllm(metric: str, buckets: Mapping[str, int], total: int) -> str:
    """Lines of a Prometheus page: requests by their tokens."""
    lines = [f'{metric}_bucket{{engine="0",le="{most}"}} {count}\n' for most, count in buckets.items()]
    return "".join(lines) + f"{metric}_sum {total}\n{metric}_count 100\n"


def test_contexts_are_those_that_the_figures_state(tmp_path) -> None:
    """A request of p and o tokens decodes at p to p + o, at p + o/2 on average; o tokens weigh it."""
    rates = {BENCH: [0.7, 0.5, 0.3], "spec_decode_num_drafts": 100}
    lists = rates | {"input_lens": [100, 1000], "output_lens": [300, 100]}
    weighted = (300 * 250 + 100 * 1050) / 400
    assert held_json(lists, tmp_path) == [(weighted, (100, 1100))]
    totals = rates | {"completed": 4, "total_input_tokens": 2000, "total_output_tokens": 400}
    assert held_json(totals, tmp_path) == [(550, (500, 600))]
    refused("--context: must be given", held_json, totals | {"completed": 0}, tmp_path)
    request = {"meta_info": {"prompt_tokens": 800, "completion_tokens": 200, "spec_verify_ct": 100}}
    assert held_json(request, tmp_path) == [(900, (800, 1000))]
    timings = {"prompt_n": 50, "cache_n": 450, "predicted_n": 101, "draft_n": 150, "draft_n_accepted": 50}
    assert held_json({"timings": timings}, tmp_path) == [(550, (500, 600))]


def test_contexts_are_those_of_the_histograms_of_prompts_and_answers(tmp_path) -> None:
    """90 prompts within 100 to 200 and 10 within 200 to 500, answers all within 50 to 100."""
    prompts = {"100": 0, "200": 90, "500": 100, "+Inf": 100}
    text = page(100, 300, [74, 49, 27])
    text += histogram_of_vllm("vllm:request_prompt_tokens", prompts, 16000)
    text += histogram_of_vllm("vllm:request_generation_tokens", {"50": 0, "100": 100}, 8000)
    low = 100 + 100 * 5 / 90
    longest_prompt = 200 + 300 * 5 / 10
    longest_answer = 50 + 50 * 0.95
    high = longest_prompt + longest_answer
    ((mean, ends),) = held(text, tmp_path)
    assert mean == 200
    assert ends == (round(low), round(high))
    of_both = text + text.replace('engine="0"', 'engine="1"')
    assert held(of_both, tmp_path) == [(mean, ends)], "two engines with the same requests"


def test_a_log_of_sglang_is_taken_apart_by_context(tmp_path) -> None:
    """8 x 1000 and 4 x 1100 tokens are one octave, 2 x 9000 another."""
    line = "Decode batch, #running-req: {}, #token: {}, token usage: 0.1, accept len: {}, accept rate: {},\n"
    counted = [(8, 8200, 2.5, 0.5), (4, 4400, 2.2, 0.4), (6, 54000, 1.6, 0.2)]
    path = tmp_path / "log.txt"
    lines = [line.format(*each) for each in counted]
    path.write_text("".join(lines))
    rows = import_file(path, None, AcceptanceSubject("t", "d", "full", (), 3)).rows
    assert [row.context_range_tokens for row in rows] == [(1025, 1100), (9000, 9000)]
    omegas = [1 + row.alpha + row.alpha**2 + row.alpha**3 for row in rows]
    of_an_octave = (8 * 2.5 + 4 * 2.2) / 12
    assert omegas == pytest.approx([of_an_octave, 1.6])


def test_a_log_of_vllm_is_taken_apart_by_context(tmp_path) -> None:
    """10 % of 80,000 tokens over 4 requests, then 40 %, then 1 % of one."""
    speculating = (
        "SpecDecoding metrics: Accepted: 140 tokens, Drafted: 300 tokens, Per-position acceptance rate: "
        "0.7, 0.4, 0.3\n"
    )
    running = "Running: {} reqs, Waiting: 0 reqs, GPU KV cache usage: {}%, Prefix\n"
    text = "GPU KV cache size: 80,000 tokens\n"
    for requests, used in ((4, 10.0), (4, 40.0), (1, 1.0)):
        text += running.format(requests, used) + speculating
    rows = held(text, tmp_path)
    assert rows == [(800, (800, 800)), (2000, (2000, 2000)), (8000, (8000, 8000))]
    (whole,) = import_file(tmp_path / "figures", None, subject(3)).rows
    assert whole.histogram == pytest.approx((90, 90, 30, 90)), "all of it at a given context"


def test_counters_of_a_server_hold_where_it_served_and_less_surely_beyond(tmp_path) -> None:
    """Within 500 to 2000 as they are; two doublings beyond, ln(Omega) has a spread of .11 x sqrt(2)."""
    row = {"target": "t", "draft": "d", "draft_kv": "full", "context_tokens": 1000.0, "histogram": [5, 3, 2]}
    path = tmp_path / "a.json"
    served = row | {"context_range_tokens": [500, 2000]}
    table = {"schema_version": 1, "source": "counted", "rows": [served]}
    path.write_text(json.dumps(table))
    where = "t", "d", "full", None
    wider = CONTEXT_DRIFT * 2**0.5
    for context, spread in ((600, 0.0), (2000, 0.0), (8000, wider), (125, wider)):
        nearest = find_acceptance(*where, context, read_acceptance(path))
        acceptance = Acceptance.from_row(nearest)
        assert acceptance.tokens_per_iteration(2) == pytest.approx(1.7)
        assert acceptance.log_spread(2) == pytest.approx(spread), context
    table["rows"] = [row]
    path.write_text(json.dumps(table))
    refused(
        "--acceptance: acceptance of t with draft d, full was measured at 1000 tokens, given 600",
        find_acceptance,
        *where,
        600,
        read_acceptance(path),
    )
    table["rows"] = [row | {"context_range_tokens": [2000, 500]}]
    path.write_text(json.dumps(table))
    refused("context_range_tokens must hold context_tokens", read_acceptance, path)
