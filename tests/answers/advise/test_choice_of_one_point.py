"""The batch, the length and the cache of a choice agree with `whatif` and with the printed line."""

import re

import pytest

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.point.whatif import whatif
from perfmodel.cli.advise_words import scope
from perfmodel.errors import InputError


def test_the_most_batches_that_a_refusal_names_are_answered() -> None:
    methods = [f"streamingllm:{128 * number}" for number in range(1, 9)]
    rates = {f"self@{method}": "0.7" for method in methods}
    asked = {"draft": "self", "draft_kv": ",".join(methods), "rate": rates, "max_gamma": 256}
    question = ("llama-3.1-8b", "h100")
    with pytest.raises(InputError, match="batch: must be at most") as refusal:
        advise(*question, context=16384, batch=range(1, 1001), **asked)
    match = re.search(r"at most (\d+) values with these drafts", str(refusal.value))
    assert match
    most = int(match[1])
    assert advise(*question, context=16384, batch=range(1, most + 1), **asked).headline()
    with pytest.raises(InputError, match=f"at most {most} values with these drafts"):
        advise(*question, context=16384, batch=range(1, most + 2), **asked)


@pytest.mark.parametrize(
    "load",
    [
        {"context": 8192},
        {"context": 8192, "max_model_len": 20000},
        {"input_len": 4096, "output_len": 500, "request_rate": 2.0},
    ],
)
def test_the_cache_is_counted_for_the_max_model_len_of_the_printed_line(load: dict[str, float]) -> None:
    """vLLM logs the concurrency for `--max-model-len` tokens."""
    answer = advise(AdviseQuery("qwen3-32b", hardware="h100", tp=2, **load))
    (length,) = re.findall(r"--max-model-len (\d+)", answer.serve.vllm_line)
    assert answer.chosen.kv_cache.max_model_len == int(length)


def test_an_engine_of_one_person_is_asked_about_one_sequence() -> None:
    """On a Mac the most tokens per second came from four sequences of 6 tokens/s each, or 253 of 1.6."""
    question = {"model": "qwen3.8-27b", "hardware": "rtx-3090", "weights": "q4_k_m", "context": 32768}
    alone = advise(engine="llamacpp", **question)
    assert (alone.objective.name, alone.chosen.batch, alone.chosen.gamma) == ("latency", 1, 3)
    assert "-c 34816 -np 1 " in alone.serve.lines["llamacpp"]
    assert alone.chosen == advise(engine="llamacpp", batch=(1,), objective="latency", **question).chosen
    assert advise(engine="llamacpp", batch="1..4", **question).objective.name == "throughput"
    mac = advise("qwen3-next-80b-a3b", "m4-max-128gb", engine="mlx", weights="4bit")
    assert mac.chosen.batch == 1


def test_an_ngram_draft_is_priced_as_in_whatif() -> None:
    """vLLM captures no graphs for its verifications, so the host launches their attention."""
    question = {"model": "gpt-oss-120b", "context": 2048, "engine": "vllm", "tp": 4}
    drafted = {"draft": ["ngram"], "rate": {"ngram": "0.9"}, "objective": "latency"}
    answer = advise(hardware="h100", **question | drafted | {"tp": (4,)})
    p = answer.option or answer.chosen
    point = {"draft": "ngram", "rate": "0.9", "batch": p.batch, "gamma": p.gamma}
    assert p.gamma > 0
    assert p.tpot_s == pytest.approx(whatif(hardware="h100", **question, **point).tpot_s)


def test_a_shorter_draft_that_is_nearly_as_fast_is_named() -> None:
    question = {"model": "llama-3.3-70b", "weights": "nvfp4", "context": 4096, "tp": 2, "draft": "eagle3"}
    answer = advise(hardware="rtx-pro-6000", **question | {"batch": (2,), "tp": (2,), "draft": ["eagle3"]})
    p = answer.chosen
    speedups = [
        whatif(hardware="rtx-pro-6000", batch=p.batch, gamma=gamma, **question).speedup
        for gamma in (answer.shorter.gamma - 1, answer.shorter.gamma, p.gamma)
    ]
    assert answer.shorter.gamma <= p.gamma - 2
    assert speedups[1] / speedups[2] == pytest.approx(answer.shorter.share)
    assert speedups[0] / speedups[2] < 0.9 <= answer.shorter.share
    assert advise("gpt-oss-20b", "rtx-5090", context=16384, max_gamma=2).shorter is None


@pytest.mark.parametrize(
    ("model", "hardware", "engine"), [("gpt-oss-120b", "m3-ultra", "mlx"), ("llama-3.1-8b", "h100", None)]
)
def test_the_rate_of_a_baseline_has_the_interval_of_whatif(
    model: str, hardware: str, engine: str | None
) -> None:
    answer = advise(model, hardware, context=8192, batch=(1,), engine=engine)
    alone = whatif(
        model, hardware, context=8192, batch=1, draft="dflash" if engine else "eagle3", engine=engine
    )
    assert answer.baseline.tpot_interval == pytest.approx(alone.ar_tpot_interval)
    low_s, high_s = answer.chosen.tpot_interval
    assert low_s < answer.chosen.tpot_s < high_s
    assert f" tokens/s ({1 / high_s:,.0f} to {1 / low_s:,.0f}) on 1 GPU." in scope(answer.chosen)
