"""TTFT and TPOT never fall as the rate rises, whichever method makes the rows, or a warning says so."""

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
                if low is None or high is None:
                    continue
                if high.mean < low.mean * (1 - 1e-9):
                    rates = f"{before.request_rate:g} and {after.request_rate:g}/s"
                    wrong.append(f"{name} at {rates}")
    return wrong


@settings(max_examples=12, deadline=None)
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


@pytest.mark.parametrize("more", [{}, {"replay": True}])
@pytest.mark.parametrize(
    "loads",
    [
        [{"request_rate": rate, "burstiness": 3} for rate in (0.3, 1, 7, 7.1, 20, 200)],
        [{"request_rate": rate, "max_concurrency": 16} for rate in (0.3, 1, 7, 7.1, 20, 200)],
        [{"max_concurrency": clients} for clients in (1, 5, 8, 9, 40)],
    ],
    ids=["rates", "rates with a limit", "clients"],
)
def test_separate_questions_do_not_fall_either(more, loads) -> None:
    question = {"model": "llama-3.1-8b", "hardware": "h100", "alpha": 0.8, "draft": "eagle3", "gamma": 3}
    question |= {"input_len": 800, "output_len": 60, "max_num_seqs": 8, "num_prompts": 200}
    rows = [pm.traffic(**question, **load, **more).rows for load in loads]
    for at in range(2):
        tpot = [row[at].tpot_s.mean for row in rows]
        answered = [row[at] for row in rows if row[at].ttft_s is not None]
        ttft = [row.ttft_s.mean for row in answered]
        assert tpot == pytest.approx(sorted(tpot), rel=1e-6)
        assert ttft == pytest.approx(sorted(ttft), rel=1e-6)


def test_a_saturated_replay_waits_longer_by_as_much_as_its_requests_come_sooner() -> None:
    question = {"model": "llama-3.1-8b", "hardware": "h100", "gamma": 0, "input_len": 800, "output_len": 200}
    question |= {"replay": True, "num_prompts": 400}
    (row,) = pm.traffic(**question, request_rate=1).rows
    rates = [factor * row.saturation_rate for factor in (1.0, 2.0, 4.0)]
    full, twice, four = (pm.traffic(**question, request_rate=rate).rows[0] for rate in rates)
    assert twice.tpot_s.mean == pytest.approx(full.tpot_s.mean)
    come_s = 400 / row.saturation_rate / 2  # the mean time of arrival at the capacity
    twice_later_s = twice.ttft_s.mean - full.ttft_s.mean
    assert twice_later_s == pytest.approx(come_s / 2, rel=0.1)
    four_later_s = four.ttft_s.mean - full.ttft_s.mean
    assert four_later_s == pytest.approx(come_s * 3 / 4, rel=0.1)


def test_a_replay_of_few_requests_has_their_rate_and_the_times_of_one_alone() -> None:
    question = {"model": "llama-3.1-8b", "hardware": "h100", "gamma": 0, "input_len": 800, "output_len": 200}
    question |= {"replay": True, "num_prompts": 400}
    (rare,) = pm.traffic(**question, request_rate=0.01).rows
    (few,) = pm.traffic(**question, request_rate=0.1).rows
    assert rare.requests_per_s == pytest.approx(0.01, rel=0.05)
    assert rare.output_tokens_per_s == pytest.approx(2.0, rel=0.05)
    assert rare.running_mean == pytest.approx(0.01 * rare.e2e_s.mean, rel=0.1)
    assert few.running_mean == pytest.approx(10 * rare.running_mean)
    assert few.tpot_s == rare.tpot_s


@pytest.mark.parametrize(("gamma", "count"), [(0, 0), ("auto", 0), ("table", 1), ("table,tail", 2)])
def test_a_policy_whose_times_may_fall_as_the_load_rises_says_so(gamma: str | int, count: int) -> None:
    answer = pm.traffic(
        "qwen3-8b", "h100", input_len=500, output_len=100, request_rate=2, alpha=0.6, gamma=gamma
    )
    notes = [each for each in answer.warnings if "may be shorter at a higher load" in each]
    assert len(notes) == count
