"""TTFT and TPOT never fall as the rate rises, whichever method makes the rows."""

import itertools

import pytest
from hypothesis import given, settings, strategies as st

import perfmodel as pm

SERVERS = (
    ("llama-3.1-8b", "h100", 1),
    ("gemma-2-9b", "l40s", 2),
    ("gpt-oss-120b", "h100", 2),
    ("qwen3.5-35b-a3b", "h200", 1),
)


def falls(answer) -> list[str]:
    """The pairs of neighbouring rates at which a mean falls."""
    wrong = []
    for gamma in {row.gamma for row in answer.rows}:
        rows = [row for row in answer.rows if row.gamma == gamma]
        for before, after in itertools.pairwise(sorted(rows, key=lambda row: row.request_rate)):
            for name in ("ttft_s", "tpot_s", "e2e_s"):
                low, high = getattr(before, name), getattr(after, name)
                if low is not None and high is not None and high.mean < low.mean * (1 - 1e-9):
                    wrong.append(f"{name} at {before.request_rate:g} and {after.request_rate:g}/s")
    return wrong


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(SERVERS),
    st.sampled_from(["vllm", "sglang", "trtllm"]),
    st.integers(1, 4000),
    st.integers(2, 600),
    st.sampled_from([0.3, 1.0, 2.0]),
    st.lists(st.floats(0.02, 1.1), min_size=2, max_size=5, unique=True),
    st.integers(0, 1000),
)
def test_latencies_never_fall_as_the_rate_rises(server, engine, prompt, output, bursts, shares, seed) -> None:
    model, hardware, tp = server
    question = {
        "model": model,
        "hardware": hardware,
        "tp": tp,
        "engine": engine,
        "input_len": prompt,
        "output_len": output,
        "draft": "eagle3",
        "alpha": 0.8,
        "gamma": (0, 3),
        "num_prompts": 200,
        "seed": seed,
    }
    (row, _) = pm.traffic(**question, max_concurrency=1, closed_form=True).rows
    rates = tuple(max(share * row.saturation_rate, 1e-6) for share in shares)
    assert not falls(pm.traffic(**question, request_rate=rates, burstiness=bursts))


@pytest.mark.parametrize("more", [{}, {"closed_form": True}])
def test_short_requests_on_a_fast_server(more) -> None:
    """Prompts of one token, for which the closed form of SGLang had 0.80, 0.31 and 0.21 s."""
    question = {"model": "gemma-2-9b", "hardware": "l40s", "tp": 2, "engine": "sglang", "alpha": 0.8}
    question |= {"draft": "eagle3", "input_len": 1, "output_len": 2, "gamma": 0, "burstiness": 2}
    answer = pm.traffic(**question, request_rate="568,50,227", **more)
    assert [row.request_rate for row in answer.rows] == [568, 50, 227], "in the order of the question"
    assert not falls(answer)
