"""Under a load the figures of an advice are those of `traffic` and of `whatif` for its servers."""

import pytest

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.point.whatif import whatif
from perfmodel.errors import InputError
from tests.answers.advise.loads import LOAD, advised, row_of, seats_of
from tests.sampled import first_fast


@pytest.mark.parametrize(
    ("model", "hardware", "rate"),
    first_fast([("llama-3.1-8b", "h100", 20.0), ("deepseek-v3", "h200", 4.0)]),
)
def test_latency_throughput_and_share_within_limits_are_those_of_traffic(
    model: str, hardware: str, rate: float
) -> None:
    answer = advised(model, hardware, rate)
    p = answer.chosen
    free = traffic(model, hardware, request_rate=rate / p.replicas, tp=p.tp, dp=p.dp, ep=p.ep, **LOAD)
    assert free.verdicts[0].gamma == p.gamma
    for p in (answer.chosen, answer.baseline):
        row = row_of(model, p, p.replicas, request_rate=rate)
        assert p.tpot_s == pytest.approx(row.tpot_s.mean, rel=2e-3)  # fewer seats leave more memory
        assert p.ttft_s == pytest.approx(row.ttft_s.mean, rel=2e-3)
        assert p.throughput_tokens_per_s == pytest.approx(row.output_tokens_per_s)
        per_gpu = p.replicas * row.output_tokens_per_s / p.gpus
        assert p.throughput_tokens_per_s_per_device == pytest.approx(per_gpu)
        assert p.slo_share >= 0.9
        of_highest_rate = rate / p.replicas / row.saturation_rate
        assert p.load_share == pytest.approx(of_highest_rate, rel=0.02)  # a replay serves a drawn rate
    assert answer.verdict in ("speculate", "likely_speculate", "too_close_to_call")


def test_a_layout_whose_closed_form_is_too_slow_is_still_simulated() -> None:
    """Its TPOT on four crowded servers is twice that of a replay."""
    load = {"model": "qwen3-32b", "hardware": "a100", "input_len": 16_000, "output_len": 200}
    a = advise(**load, gpus=4, request_rate=0.3, rate={"eagle3": "0.75"}, objective="latency")
    server = {"draft": "eagle3", "rate": "0.75", "gamma": a.chosen.gamma} | seats_of(a)
    one_of_four = traffic(**load, request_rate=0.3 / 4, **server)
    assert a.chosen.tpot_s <= one_of_four.rows[-1].tpot_s.mean * 1.01


@pytest.mark.parametrize("objective", ["cost", "throughput", "latency"])
def test_the_figure_of_the_objective_under_a_load(objective: str) -> None:
    """Two dollars for each device and hour."""
    question = {"request_rate": 1.0, "price": 2.0, "draft": ["ngram"]} | LOAD
    p = advise("llama-3.1-8b", "h100", gpus=1, objective=objective, **question).chosen
    million_per_hour = p.throughput_tokens_per_s_per_device * 3600 / 1e6
    assert p.cost_per_million_tokens == pytest.approx(2.0 / million_per_hour)
    figures = {
        "cost": p.cost_per_million_tokens,
        "throughput": p.throughput_tokens_per_s_per_device,
        "latency": p.tpot_s,
    }
    assert p.objective == pytest.approx(figures[objective])


def test_clients_are_divided_among_the_servers() -> None:
    answer = advise("llama-3.1-8b", "h100", clients=300, **LOAD)
    p = answer.chosen
    each = {"max_concurrency": -(-300 // p.replicas), "output_std": 25} | seats_of(answer)
    a = traffic("llama-3.1-8b", "h100", tp=p.tp, draft=p.draft, **each, **LOAD)
    row = next(row for row in a.rows if row.gamma == p.gamma)
    assert p.tpot_s == pytest.approx(row.tpot_s.mean)


def test_the_typical_gain_at_a_rate_is_that_of_whatif_at_its_batch() -> None:
    answer = advise("llama-3.1-70b", "8xh100", request_rate=5, input_len=2000, output_len=300)
    chosen = answer.chosen
    here = {"tp": chosen.tp, "batch": chosen.batch, "context": 2150}
    low, high = whatif("llama-3.1-70b", "h100", draft="eagle3", **here).typical.speedups
    assert f"likely {low:.1f}x to {high:.1f}x with a typical eagle3 draft" in answer.reason


def test_the_typical_gain_of_clients_is_that_of_their_whole_requests() -> None:
    """Clients that speed up send more prompts, so a draft gains little if prompts take most of the time."""
    load = {"clients": 200, "input_len": 2000, "output_len": 300}
    answer = advise("llama-3.1-70b", "8xh100", **load)
    gain = next(gain for gain in answer.likely if gain.draft == "eagle3")
    alone = answer.chosen.ttft_s + 300 * answer.chosen.tpot_s
    for speedup, rate in zip(gain.speedups, ("0.62/0.7/0.62", "0.83/0.79/0.7"), strict=True):
        drafted = advise("llama-3.1-70b", "8xh100", rate={"eagle3": rate}, **load).chosen
        assert speedup == pytest.approx(alone / (drafted.ttft_s + 300 * drafted.tpot_s), abs=0.05)
    assert "no draft is certain to gain" in answer.run_first


def test_a_shared_prefix_shortens_the_prompts_as_in_traffic() -> None:
    load = {"input_len": 20480, "output_len": 600}
    question = {"clients": 16, "gpus": 4, "weights": "fp8", "draft": ["ngram"]} | load
    whole = advise("glm-4.5-air", "rtx-pro-6000", **question)
    shared = advise("glm-4.5-air", "rtx-pro-6000", prefix_len=16384, **question)
    p = shared.chosen
    assert p.ttft_s < whole.chosen.ttft_s / 2
    assert "20480 (16384 shared) + 600 tokens" in shared.reason
    asked = {"max_concurrency": -(-16 // p.replicas), "prefix_len": 16384, "output_std": 30} | load
    asked |= seats_of(shared)
    row = traffic("glm-4.5-air", "rtx-pro-6000", weights="fp8", gamma=0, tp=p.tp, dp=p.dp, ep=p.ep, **asked)
    assert p.ttft_s == pytest.approx(row.rows[0].ttft_s.mean)
    with pytest.raises(InputError, match="prefix_len: needs request_rate or clients"):
        advise("glm-4.5-air", "rtx-pro-6000", prefix_len=16384)
