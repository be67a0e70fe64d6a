"""The published law of vLLM's step times, and a figure of the decisions page."""

import pytest

from perfmodel.answers.question import Query, resolve
from perfmodel.costs import forward
from perfmodel.speculation import Workload, predict
from perfmodel.validate.studies.published_engines import step_laws


def test_the_published_law_by_hand() -> None:
    """Batch 1 at 512 tokens: (5.886 + .021 + .020 + 1.207) / (5.886 + .084 + .020 + 2.135 + .0025 + .0012 +
    1.207).
    """
    cached, drafted = 0.0201, 2.1353 + 0.0025 + 0.0012
    by_hand = (5.8859 + 0.0210 + cached + 1.2068) / (5.8859 + 0.0840 + cached + drafted + 1.2068)
    assert next(row.speedup for row in step_laws() if row.batch == 1) == pytest.approx(by_hand, rel=1e-4)


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
