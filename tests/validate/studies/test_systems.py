"""Other papers' speculative systems: which rows state enough, how far off they are."""

import pytest

from perfmodel.answers.question.query import Query, resolve
from perfmodel.costs import forward
from perfmodel.speculation.chain import predict
from perfmodel.speculation.workload import Workload
from perfmodel.validate.studies.published_engines import served, step_law
from perfmodel.validate.studies.systems import SLACK, systems


def test_a_sequoia_row_by_hand() -> None:
    """C4, T = 0: 5.08 x 24.2 / (24.2 + 9 x 0.5 + what 128 tokens add to one); without any addition it would
    be 4.28.
    """
    first = systems()[0]
    assert first.row == "sequoia-01"
    assert 3.8 < first.predicted < 5.08 * 24.2 / (24.2 + 4.5)
    assert first.low == first.high


def test_a_vllm_row_by_hand() -> None:
    """GSM8K, EAGLE, batch 1, no cache: 2.391 x (5.886 + .021 + 1.207) / (5.886 + .084 + 2.135 + .0025 +
    1.207).
    """
    row = next(r for r in served() if (r.draft, r.task, r.batch) == ("eagle", "GSM8K", 1))
    by_hand = 2.391 * (5.8859 + 0.0210 + 1.2068) / (5.8859 + 0.0840 + 2.1353 + 0.0025 + 1.2068)
    assert step_law().speedup(row, 0.0, 1.0) == pytest.approx(by_hand, rel=1e-4)


def test_what_is_left_open_decides_what_is_predicted() -> None:
    for row in systems():
        assert row.low <= row.predicted <= row.high
        assert row.states_enough is (row.high / row.low - 1 <= SLACK)
    opened = [row for row in systems() if not row.states_enough]
    assert opened
    assert {row.batch for row in opened} == {16, 64, 128}
    assert all(row.draft == "ngram" for row in opened if row.batch == 16)


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
