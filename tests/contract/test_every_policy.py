"""What every draft-length policy must keep. An added file is found by its name, and held to the same."""

from pathlib import Path
from typing import Any

import pytest

from perfmodel.answers.load.traffic import traffic
from perfmodel.queueing.policies import in_words, policies

SERVED: dict[str, Any] = {"model": "llama-3.1-8b", "hardware": "h100", "input_len": 2048, "output_len": 200}


@pytest.mark.parametrize("name", policies())
@pytest.mark.parametrize(
    "load", [{"request_rate": (1.0, 8.0)}, {"max_concurrency": (1, 64)}], ids=["open", "closed"]
)
def test_a_policy_answers_at_every_load_and_in_the_simulation(name: str, load: dict[str, Any]) -> None:
    """Named in rows, or by the length that it chose; a table has no more tokens than the search may try."""
    policy = policies()[name]
    assert policy.help
    assert policy.source
    assert policy.__doc__
    question = SERVED | load | {"draft": "eagle", "alpha": 0.7, "gamma": name, "max_gamma": 4}
    answer = traffic(**question, replay=True, num_prompts=50)
    at = [row.request_rate or row.concurrency for row in answer.rows if row.gamma == name]
    if not policy.noun:  # a fixed length at each load
        assert not at
        assert {row.gamma for row in answer.rows} <= set(range(5))
    else:
        assert in_words(name) == policy.noun
        assert at == list(next(iter(load.values())))
        assert answer.replay is not None
        assert name in {row.gamma for row in answer.replay}
        table = next(limits.table for limits in answer.drafts if limits.gamma == name)
        assert table is None or max(tokens for _, _, tokens in table) <= 4


@pytest.mark.parametrize("name", policies())
def test_a_policy_serves_a_recorded_trace(name: str, tmp_path: Path) -> None:
    """Of requests of other lengths than the question's, at the rate that is asked for."""
    trace = tmp_path / "trace.csv"
    lines = [f"{second},{500 + 7 * second},{60 + second}" for second in range(40)]
    trace.write_text("\n".join(["arrival_s,input_tokens,output_tokens", *lines]))
    question = SERVED | {
        "draft": "eagle",
        "alpha": 0.7,
        "gamma": name,
        "request_rate": 4.0,
        "trace": str(trace),
    }
    answer = traffic(**question)
    assert answer.replay is not None
    assert [row.gamma for row in answer.replay] == [row.gamma for row in answer.rows]
    assert {row.request_rate for row in answer.replay} == {4.0}
