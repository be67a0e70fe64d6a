"""The published law of vLLM's step times, and figures of the decisions page."""

import pytest

from perfmodel.answers.question.query import Query
from perfmodel.answers.question.resolving import resolve
from perfmodel.costs import forward
from perfmodel.speculation.chain import predict
from perfmodel.speculation.workload import Workload
from perfmodel.validate.studies.published_engines import served, step_law


def test_a_vllm_row_by_hand() -> None:
    """GSM8K, EAGLE, batch 1, no cache: 2.391 x (5.886 + .021 + 1.207) / (5.886 + .084 + 2.135 + .0025 +
    1.207).
    """
    row = next(r for r in served() if (r.draft, r.task, r.batch) == ("eagle", "GSM8K", 1))
    by_hand = 2.391 * (5.8859 + 0.0210 + 1.2068) / (5.8859 + 0.0840 + 2.1353 + 0.0025 + 1.2068)
    assert step_law().speedup(row, 0.0, 1.0) == pytest.approx(by_hand, rel=1e-4)


def test_what_the_decisions_page_says_of_an_ngram_draft_without_a_match() -> None:
    """GSM8K, batch 128: 1.06x with a match as often as a_1/a_2 says, 0.70x if all verified gamma + 1
    tokens.
    """
    row = next(r for r in served() if (r.draft, r.task, r.batch) == ("ngram", "GSM8K", 128))
    match = row.conditional[0] / row.conditional[1]
    assert match == pytest.approx(1 / 7, abs=0.005)
    assert step_law().speedup(row, 512.0, match) == pytest.approx(1.06, abs=0.01)
    assert step_law().speedup(row, 512.0, 1.0) == pytest.approx(0.70, abs=0.01)
    assert row.speedup == pytest.approx(1.05, abs=0.005)


@pytest.mark.parametrize(("batch", "percent"), [(64, 0.5), (256, 0.8)])
def test_what_the_decisions_page_says_of_the_first_pass_of_an_eagle_head(batch: int, percent: float) -> None:
    """Counted with all accepted tokens in its layer, the LM head still once."""
    shares = []
    for gpu in ("h100-sxm-80gb", "a100-sxm-80gb"):
        s = resolve(Query("llama-3.1-8b", gpu, 1, 1, draft="eagle", alpha=0.7, engine="magicdec"))
        p = predict(s, Workload.of(batch, 2048, 3), 3)
        seconds = []
        for query in (1.0, float(p.tokens_per_iteration)):
            ops = forward(s.draft_shard, batch, query, 2048.0, s.draft.kv, head_query=1.0)
            seconds.append(float(s.draft_machine.predicted_s(ops, batch * query)))
        shares.append(100 * (seconds[1] - seconds[0]) / float(p.iteration_s))
    assert max(shares) == pytest.approx(percent, abs=0.05)
