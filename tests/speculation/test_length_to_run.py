"""The draft length of an advised server, at contexts with and without a measured acceptance."""

import numpy as np

import perfmodel as pm
from perfmodel.answers.question import Query, resolve
from perfmodel.speculation.length_to_run import MOST, NEAR, length_to_run

MODEL = {"model": "llama-3.3-70b", "hardware": "h100", "weights": "fp8"}
TIMES_S = np.array([[1.1, 2.0, 1.07], [1.035, 1.01, 1.025], [1.0, 1.0, 1.0], [np.inf, 1.0, 1.0]])
"""Of drafts of 1 to 4 tokens, at three loads."""


def length_at(context: int, **acceptance: float) -> list[int]:
    query = Query(batch=1, context=context, draft="eagle3", tp=4, **MODEL, **acceptance)
    return length_to_run(resolve(query), float(context), TIMES_S).tolist()


def test_a_shorter_draft_runs_beyond_the_measured_contexts_where_it_is_about_as_fast() -> None:
    assert length_at(4096) == [2, 2, 2]
    assert length_at(5000) == [2, 1, 2]  # less than a doubling: at most 1.5 % slower, as for one
    assert length_at(8192) == [2, 1, 2]
    assert length_at(16384) == [2, 1, 1]  # two doublings: 3 %
    assert length_at(32768) == [1, 1, 1]
    assert length_at(131_072) == [1, 1, 1]  # five doublings: still 4 %, not 7.5 %
    assert length_at(32768, alpha=0.7) == [2, 2, 2]


def test_advice_with_and_without_a_load_takes_the_shorter_draft() -> None:
    """It is about as fast as the fastest one. `whatif` has the same length, and under a load `traffic`."""
    question = {"draft": "eagle3", "tp": 4, "batch": 8, "context": 32768, **MODEL}
    advised = pm.advise(**question | {"draft": ["eagle3"], "batch": [8]}).chosen
    here = pm.whatif(**question)
    fastest = pm.whatif(**question, gamma=here.gamma_optimal)
    one_less = pm.whatif(**question, gamma=advised.gamma - 1)
    assert advised.gamma == here.query.gamma < here.gamma_optimal
    assert fastest.speedup <= (1 + MOST) * here.speedup
    assert fastest.speedup > (1 + MOST) * one_less.speedup

    load = {"model": "qwen3-32b", "hardware": "h100", "tp": 2}
    load |= {"request_rate": 0.1, "input_len": 16000, "output_len": 600}
    served = pm.advise(gpus=2, **load).chosen
    row = pm.traffic(draft="eagle3", **load).rows[-1]
    longer = pm.traffic(draft="eagle3", gamma=row.gamma + 1, **load).rows[-1]
    assert served.gamma == row.gamma
    assert row.tpot_s.mean / (1 + 2 * NEAR) < longer.tpot_s.mean < row.tpot_s.mean
