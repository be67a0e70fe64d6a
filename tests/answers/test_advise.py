"""The joint search: against brute force over single answers, its bounds, what it never invents, every bundled
pair.
"""

import itertools
import json
import re
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.advise_query import READING_S, AdviseQuery
from perfmodel.answers.advice.candidates import find_candidates
from perfmodel.answers.advice.ranking import ALIKE
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import parse_rate
from perfmodel.errors import InputError
from perfmodel.specs import files
from perfmodel.specs.acceptance.acceptance_library import acceptance_library

RATES = {"self@streamingllm:512": "0.8", "eagle": "0.75/0.65/0.5", "ngram": "0.4x3", "llama-3.2-1b": "0.7"}


def request(**given) -> AdviseQuery:
    question = {
        "model": "llama-3.1-8b",
        "hardware": "h100-sxm-80gb",
        "context": 16384,
        "batch": (1, 4, 16, 27),
    }
    return AdviseQuery(**(question | {"rate": RATES, "any_draft": True} | given))


@cache
def every_answer() -> dict[tuple[int, int, str | None, int], tuple[float, bool]]:
    """(tp, batch, draft or None, gamma) -> seconds per token at the draft's own rate, and whether it fits."""
    answers = {}
    for tp, batch, (key, text) in itertools.product((1, 2), (1, 4, 16, 27), RATES.items()):
        draft, _, kv = key.partition("@")
        rate = parse_rate(text, "")
        at = {"batch": batch, "context": 16384, "tp": tp, "draft": draft, "draft_kv": kv or "full"}
        for gamma in range((rate.max_gamma or 5) + 1):
            a = whatif("llama-3.1-8b", "h100-sxm-80gb", **at, gamma=gamma, alpha=0.5)
            iteration_s = a.tpot_s * a.acceptance.tokens_per_iteration
            tpot = iteration_s / float(rate.tokens_per_iteration(gamma))
            answers[tp, batch, draft if gamma else None, gamma] = tpot, a.memory.fits
    return answers


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


OBJECTIVES = {
    "throughput": lambda tp, batch, tpot: batch / tpot / tp,
    "latency": lambda tp, batch, tpot: -tpot,
    "cost": lambda tp, batch, tpot: -2.5 * tp / 3600 * 1e6 * tpot / batch,
}


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("bound", [None, 0.012])
def test_brute_force_over_single_answers_agrees(objective: str, bound: float | None) -> None:
    fine = {
        key: tpot for key, (tpot, fits) in every_answer().items() if fits and not (bound and tpot > bound)
    }
    value = OBJECTIVES[objective]
    values = {key: value(*key[:2], tpot) for key, tpot in fine.items()}
    bound_ms = bound and bound * 1e3
    answer = advise(request(tp=(1, 2), objective=objective, max_tpot_ms=bound_ms, price=2.5, max_gamma=5))
    chosen = answer.chosen
    for front in (answer.pareto.baseline, answer.pareto.speculating):  # no point of them is beaten
        points = np.array([(p.tpot_s, p.throughput_tokens_per_s_per_device) for p in front])
        assert np.all(np.diff(points, axis=0) > 0)
    chosen_value = values[chosen.tp, chosen.batch, chosen.draft, chosen.gamma]
    assert abs(chosen.objective) == pytest.approx(abs(chosen_value), rel=1e-9)
    best = max(values.values())
    assert max(best / chosen_value, chosen_value / best) <= 1 + ALIKE
    on_fewer = [value for key, value in values.items() if key[0] <= chosen.tp]
    assert chosen_value == pytest.approx(max(on_fewer), rel=1e-12)


@pytest.mark.parametrize(
    "changes", [{"objective": "latency"}, {"objective": "cost", "price": 2.0, "max_tpot_ms": 20}]
)
def test_without_an_acceptance_it_says_from_which_alpha_a_draft_would_pay(changes: dict[str, object]) -> None:
    question = {
        "model": "qwen2.5-7b",
        "batch": (1, 4, 9, 10, 11),
        "context": 32768,
        "rate": {},
        "max_gamma": 6,
    } | changes
    a = advise(request(**question))
    assert a.verdict == "unknown_acceptance"
    assert a.chosen.gamma == 0
    assert a.headline() == f"Undecided: {a.reason}"
    alphas = [one.smallest_alpha for one in a.unmeasured]
    assert alphas == sorted(alphas)
    bounded = ""
    if "max_tpot_ms" in changes:
        bounded = "; these are tokens/s within the bound, where a draft allows larger batches"
    assert f"not decided until measured{bounded}. Pays from alpha {alphas[0]:.2f} (" in a.reason
    assert a.failed  # exit 1: nothing is decided
    likely = next(gain for gain in a.likely if gain.draft == "eagle3")
    decay = acceptance_library().typical.decay("eagle3")
    for gain, first in zip(likely.speedups, likely.first_rates, strict=True):
        rates = "/".join(f"{first * decay**j:.12g}" for j in range(5))
        measured = advise(request(**question | {"rate": {"eagle3": rates}}))
        best = measured.gain(measured.option or measured.chosen)
        assert max(1.0, best or 0.0) == pytest.approx(gain, rel=1e-9)
    itself = next(one for one in a.unmeasured if one.draft == "self")
    for one in (a.unmeasured[0], itself):
        for alpha, verdict in ((one.smallest_alpha + 1e-4, True), (one.smallest_alpha - 1e-4, False)):
            rate = {f"{one.draft}@{one.draft_kv}": alpha}
            found = advise(request(**question | {"rate": rate}))
            assert ((found.option or found.chosen).gamma > 0) is verdict, one


def test_a_draft_that_breaks_the_bound_or_does_not_fit_is_not_called_unsupported() -> None:
    slow = {"tp": (8,), "batch": (8,), "rate": {"ngram": "0.2"}, "max_tpot_ms": 8}
    bound = advise(AdviseQuery("qwen3-next-80b-a3b", "h200", context=4096, **slow))
    assert "no draft with a known acceptance meets the bound on time per token" in bound.reason
    memory = advise(AdviseQuery("qwen3-32b", "h100", context=4096, batch=(1,), rate={"qwen3-8b": "0.6"}))
    assert "no draft with a known acceptance fits in memory" in memory.reason


def test_a_choice_that_is_close_only_at_its_own_batch_says_so() -> None:
    query = {"model": "qwen3-next-80b-a3b", "hardware": "h200", "tp": (8,), "context": 4096}
    by_position = "/".join(["0.53"] * 16)
    a = advise(AdviseQuery(batch=(8, 64), rate={"ngram": by_position}, max_tpot_ms=8, **query))
    assert a.verdict == "too_close_to_call"
    assert a.robustness.gain_over_baseline_interval[0] > 1
    query["tp"] = 8
    itself = whatif(batch=64, draft="ngram", rate=by_position, gamma=a.chosen.gamma, **query)
    low, high = itself.speedup_interval
    assert (
        f"over the baseline of the same batch {itself.speedup:.2f} times ({low:.2f} to {high:.2f})"
        in a.reason
    )


def test_interval_and_break_even_keep_the_bound() -> None:
    """At the least alpha the chosen batch and gamma take just the bound; slower drafts take a smaller
    batch.
    """
    query = request(rate={"eagle": "0.7"}, context=32768, batch="1..16", max_tpot_ms=12)
    a = advise(query)
    r = a.robustness
    p = a.chosen
    assert p.tpot_s * p.tokens_per_iteration / r.smallest_tokens_per_iteration == pytest.approx(0.012)
    low, high = r.gain_over_baseline_interval
    assert low < r.gain_over_baseline < high
    free = advise(query, max_tpot_ms=None).robustness
    assert free.smallest_alpha < r.smallest_alpha
    assert free.robust is True
    assert 1 < free.gain_over_baseline_interval[0] < 2


@settings(max_examples=12, deadline=None)
@given(
    model=st.sampled_from(files.bundled_names("models")),
    objective=st.sampled_from(["throughput", "latency", "cost"]),
    context=st.sampled_from([500, 4000, 40000]),
    alpha=st.floats(0.2, 0.98),
    bound=st.floats(2, 200),
)
def test_more_room_never_makes_any_bundled_model_worse(model, objective, context, alpha, bound) -> None:
    """A larger device, more batches, lengths, degrees, time per token and budgets: never a worse optimum. It
    may be an option, since a gain may be doubtful on the larger device alone.
    """
    rates = {"self@streamingllm:512": f"{alpha}", "eagle": "0.7/0.6/0.5"}
    base = {
        "model": model,
        "rate": rates,
        "context": context,
        "objective": objective,
        "price": 2.0,
        "hardware": "h100-sxm-80gb",
        "calibration": "h100-sxm-80gb.vllm",
        "batch": (1, 8, 64),
        "max_tpot_ms": bound,
        "max_gamma": 1,
        "tp": (1,),
    }
    sign = 1 if objective == "throughput" else -1

    def best(**changes) -> float:
        a = advise(request(**base | changes))
        assert (a.chosen is None) is (a.verdict == "infeasible") is (a.reason in a.headline())
        if a.chosen is None:
            return -np.inf
        return sign * (a.option or a.chosen).objective

    now = best()
    now -= 1e-12 * abs(now)  # sums over another number of batches round differently
    larger = {
        "hardware": "h200-sxm-141gb",
        "batch": (1, 2, 8, 32, 64, 128),
        "max_gamma": 8,
        "tp": (1, 2),
        "max_tpot_ms": 2 * bound,
    }
    for name, value in larger.items():
        assert best(**{name: value}) >= now, name
    budgets = {f"self@streamingllm:{budget}": f"{alpha}" for budget in (256, 1024, 4096)}
    assert best(rate=rates | budgets) >= now


def test_a_file_of_rows_names_the_candidates(tmp_path) -> None:
    row = {
        "target": "llama-3.1-8b",
        "draft": "self",
        "draft_kv": "quest",
        "kv_budget_tokens": 777,
        "alpha": 0.9,
    }
    other = row | {"target": "qwen3-8b"}
    rows = [row | {"context_tokens": 8192}, row | {"context_tokens": 32768}]
    rows.append(other | {"context_tokens": 8192})
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"schema_version": 1, "source": "a test", "rows": rows}), encoding="utf-8")
    candidates = find_candidates(request(rate={"ngram": "0.2x2"}, acceptance=str(path)))
    drafts = [c.scenario.draft for c in candidates.drafted]
    assert [(draft.name, draft.kv.budget) for draft in drafts] == [("ngram", None), ("self", 777)]
    assert candidates.skips == []
    assert "a test" in candidates.drafted[1].scenario.acceptance.source
    beyond = find_candidates(request(rate={}, acceptance=str(path), context=100_000))
    assert beyond.drafted == []
    assert "was measured at 8192 to 32768" in beyond.skips[0].reason


def test_the_layer_that_comes_with_a_target_is_named_first() -> None:
    answer = advise("mimo-v2.5", "b300", context=8192, tp=8, objective="latency", batch=1)
    assert "no acceptance is known for mimo-v2.5: likely" in answer.reason
    assert next(gain.draft for gain in answer.likely) == "mtp"
    _, _, pays = answer.reason.partition("Pays from alpha ")
    assert pays.split("(")[1].startswith("mtp, gamma ")


def test_a_degree_that_does_not_run_is_explained() -> None:
    why = "layouts (tp: experts of minimax-m2 are 1536 wide in blocks of 128, and 8 devices"
    assert why in advise("minimax-m2", "h200", context=4096, tp=8).reason


@pytest.mark.parametrize(
    ("model", "hardware", "tp"),
    [("llama-3.1-8b", "rtx-4090", 1), ("llama-3.1-70b", "rtx-4090", 2), ("deepseek-v3", "h100", 8)],
)
def test_what_is_said_to_fit_is_answered_when_asked(model: str, hardware: str, tp: int) -> None:
    said = advise(model, hardware, context=65_536, tp=tp).reason
    assert "together" in said  # the sum is printed
    options = dict(re.findall(r"--(kv-dtype|weights|tp) ([\w-]+)", said))
    changes = [{name.replace("-", "_"): value} for name, value in options.items()]
    device = re.search(r"on (?:\d+ x )?([a-z][\w-]+)$", said.partition(";")[2].removesuffix(f"; {said}"))
    if device:
        changes.append({"hardware": device[1]})
    assert changes
    question = {"model": model, "hardware": hardware, "context": 65_536, "tp": tp, "batch": 1}
    for change in changes:
        assert advise(**question | change).chosen is not None, change


def test_a_named_head_has_its_own_published_acceptance() -> None:
    """Two heads of one kind have different figures; a head without any says whose figures are used."""
    head = "lmsys/sglang-EAGLE3-LLaMA3.1-Instruct-8B"
    other = "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"
    question = {"model": "llama-3.1-8b", "hardware": "h100", "batch": 4}
    usual, first, second = (advise(**question, draft=[name]).chosen for name in ("eagle3", head, other))
    assert first.acceptance_source.startswith(head)
    assert first.tokens_per_iteration != usual.tokens_per_iteration
    assert second.acceptance_source.endswith(f"none is published for {other}")
    assert second.tpot_s == usual.tpot_s


def test_no_machine_that_nobody_has_is_named() -> None:
    """Eight superchips of one chip a node are no server; what is named stands in one box."""
    answer = advise(model="deepseek-v3.2", hardware="h100", gpus=8)
    assert "gh200" not in answer.reason
    assert "on 8 x h200-sxm-141gb" in answer.reason
    assert not any("does not fit in" in text for text in answer.warnings), "the reason tells it"


def test_what_would_fit_is_in_the_engines_own_formats() -> None:
    """GGUF mixes and layers over two cards for llama.cpp; 4-bit floats and a device of its kind for
    Blackwell.
    """
    file = advise("qwen3-32b", "rtx-3090", engine="llamacpp", weights="q8_0").reason
    assert "with --weights q4_k_m, with --gpu-layers " in file
    assert ", with --layer-split 2 or on rtx-" in file
    server = advise("qwen3-32b", "rtx-5090").reason
    assert "with --weights nvfp4, with --tp 4 or on rtx-pro-6000-96gb" in server


@pytest.mark.parametrize(
    "load",
    [
        {"context": 8192},
        {"context": 8192, "max_model_len": 20000},
        {"input_len": 4096, "output_len": 500, "request_rate": 2.0},
    ],
)
def test_the_cache_is_counted_in_the_sequences_of_the_printed_line(load: dict[str, float]) -> None:
    """vLLM logs the concurrency for `--max-model-len` tokens."""
    answer = advise(AdviseQuery("qwen3-32b", hardware="h100", tp=2, **load))
    (length,) = re.findall(r"--max-model-len (\d+)", answer.serve.vllm_line)
    assert answer.chosen.kv_cache.max_model_len == int(length)


def test_a_bound_that_nothing_keeps_is_answered_with_changes_that_keep_it() -> None:
    question = {"model": "gemma-3-27b", "hardware": "a100", "context": 16384, "max_tpot_ms": 30}
    reason = advise(**question).reason
    assert "one sequence would keep it with --weights fp8, with --tp 2 or on h100" in reason
    for change in ({"weights": "fp8"}, {"tp": (2,)}):
        assert advise(**question | change).chosen.tpot_s <= 0.03
    assert "would keep" not in advise(**question | {"max_tpot_ms": 0.1}).reason


def test_a_choice_keeps_up_with_a_reader_unless_the_question_bounds_it() -> None:
    question = {"model": "gpt-oss-120b", "hardware": "dgx-spark", "tp": (2,), "context": 32768}
    free = advise(**question)
    bounded = advise(**question, max_tpot_ms=1e3 * READING_S)
    assert free.chosen == bounded.chosen
    assert free.chosen.tpot_s <= READING_S < free.unbounded.tpot_s
    assert bounded.unbounded is None
    assert free.query.max_tpot_ms is None
    assert advise(**question, max_tpot_ms=1000).chosen == free.unbounded
    assert advise(**question, batch=(118,)).unbounded is None


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


def test_no_draft_is_advised_far_beyond_the_one_position_of_a_rate() -> None:
    """vllm#35387: a rate at K = 1 said K = 11, which served 0.57 times the baseline; two more positions."""
    asked = {"model": "qwen3-8b", "hardware": "h100", "context": 2048}
    drafted = {"draft": "eagle3", "rate": "0.85", "batch": 1}
    latency = {"objective": "latency", "rate": {"eagle3": "0.85"}}
    of_one_rate = advise(**asked, **latency)
    assert of_one_rate.chosen.gamma == 3
    assert any("measured at one position (2 more)" in warning for warning in of_one_rate.warnings)
    assert whatif(**asked, **drafted).gamma_optimal == 3
    assert whatif(**asked, **drafted, gamma=7).gamma_optimal == 9
    by_position = "/".join(["0.85"] * 8)
    of_all = advise(**asked, **latency | {"rate": {"eagle3": by_position}})
    assert of_all.chosen.gamma > 3
    assert not any("longest draft that is recommended" in warning for warning in of_all.warnings)


def test_an_ngram_draft_is_priced_as_in_whatif() -> None:
    """vLLM captures no graphs for its verifications, so the host launches their attention."""
    question = {"model": "gpt-oss-120b", "context": 2048, "engine": "vllm", "tp": 4}
    drafted = {"draft": ["ngram"], "rate": {"ngram": "0.9"}, "objective": "latency"}
    answer = advise(hardware="h100", **question | drafted | {"tp": (4,)})
    p = answer.option or answer.chosen
    point = {"draft": "ngram", "rate": "0.9", "batch": p.batch, "gamma": p.gamma}
    assert p.gamma > 0
    assert p.tpot_s == pytest.approx(whatif(hardware="h100", **question, **point).tpot_s)


@pytest.mark.parametrize(
    ("model", "weights", "flag", "fewer"),
    [("qwen3.6-35b-a3b", "q4_k_m", "cpu_moe", -1), ("qwen3-32b", "q4_k_m", "gpu_layers", 1)],
)
def test_the_fewest_layers_on_the_host_that_fit(model: str, weights: str, flag: str, fewer: int) -> None:
    question = {"model": model, "hardware": "rtx-3060", "weights": weights, "context": 4096, "batch": (1,)}
    match = re.search(
        rf"with --{flag.replace('_', '-')} (\d+) --host-bandwidth GB/s", advise(**question).reason
    )
    assert match is not None
    number = int(match[1])
    host = {"host_bandwidth": 60}
    assert advise(**question, **host, **{flag: number}).chosen is not None
    assert advise(**question, **host, **{flag: number + fewer}).chosen is None


@pytest.mark.parametrize("load", [{}, {"clients": 4, "gpus": 4, "input_len": 1024, "output_len": 100}])
def test_a_named_draft_that_cannot_run_is_said_with_its_reason(load: dict[str, int]) -> None:
    """Qwen2.5-72B has 128 more entries in its vocabulary than Qwen2.5-1.5B, and vLLM wants the same ones."""
    answer = advise("qwen2.5-72b", "a100-sxm-80gb", rate={"qwen2.5-1.5b": 0.75}, **({"tp": 4} | load))
    assert answer.verdict == "do_not_speculate"
    assert "no acceptance" not in answer.reason
    assert answer.warnings[0].startswith("qwen2.5-1.5b was not searched: draft: must be a model with")


def test_a_draft_that_may_lose_more_than_it_gains_is_an_option() -> None:
    """The choice has no draft, and both command lines are given; a gain well above its risk is chosen."""
    doubtful = advise("gpt-oss-120b", "h100", context=8192)
    assert doubtful.verdict == "too_close_to_call"
    low, high = doubtful.robustness.gain_over_baseline_interval
    gain = doubtful.robustness.gain_over_baseline
    assert low < 1 < gain < min(high, 1 / low)
    assert doubtful.chosen == doubtful.baseline
    assert doubtful.option.draft == "eagle3"
    assert doubtful.option.throughput_tokens_per_s == pytest.approx(
        gain * doubtful.chosen.throughput_tokens_per_s
    )
    assert "speculative" not in doubtful.serve.vllm_line
    assert '"method": "eagle3"' in doubtful.serve_option.vllm_line
    assert not any(p.gamma for p in doubtful.layouts)
    worth = advise("gpt-oss-20b", "rtx-5090", context=16384)
    low, high = worth.robustness.gain_over_baseline_interval
    assert worth.verdict == "too_close_to_call"
    assert low * worth.robustness.gain_over_baseline > 1
    assert (worth.chosen.draft, worth.option) == ("eagle3", None)


@pytest.mark.parametrize("load", [{}, {"clients": 16, "gpus": 4, "input_len": 20480, "output_len": 600}])
def test_a_draft_that_surely_gains_comes_with_a_line_to_measure_it(load: dict[str, int]) -> None:
    """GLM-4.5-Air has a layer of MTP in its checkpoint, whose acceptance was not published."""
    place = {} if load else {"tp": 2}
    answer = advise("glm-4.5-air", "rtx-pro-6000", context=16384, weights="fp8", **place, **load)
    assert answer.verdict == "unknown_acceptance"
    assert answer.likely[0].draft == "mtp"
    assert answer.likely[0].speedups[0] >= 1.1
    assert "speculative" not in answer.serve.vllm_line
    assert '"method": "mtp"' in answer.serve_option.vllm_line
    assert answer.option is None


def test_a_draft_without_room_comes_with_the_cache_that_makes_room() -> None:
    """Qwen2.5-Coder-32B in Q4_K_M fills an RTX 3090 at 16k; a cache in Q8_0 leaves room for a draft model."""
    question = {"engine": "llamacpp", "weights": "q4_k_m", "context": 16384}
    question["rate"] = {"qwen2.5-coder-0.5b": 0.7}
    full = advise("qwen2.5-coder-32b", "rtx-3090", **question)
    assert full.chosen.gamma == 0
    (remedy,) = full.remedies
    assert remedy.switch == "--kv-dtype q8_0"
    smaller = advise("qwen2.5-coder-32b", "rtx-3090", kv_dtype="q8_0", **question)
    assert smaller.chosen.gamma == remedy.gamma
    assert full.chosen.tpot_s / smaller.chosen.tpot_s == pytest.approx(remedy.speedup)


def test_smaller_weights_are_named_where_memory_is_full() -> None:
    question = {"model": "ernie-4.5-21b-a3b", "hardware": "rtx-a6000", "draft": ["ngram"], "context": 16384}
    full = advise(**question)
    named = full.smaller_weights
    assert named.weights == "fp8"
    smaller = advise(weights="fp8", **question)
    assert smaller.baseline.batch == named.batch > full.chosen.batch
    assert named.gain == pytest.approx(smaller.baseline.objective / full.baseline.objective)
    assert named.gain > 1.5
    assert smaller.smaller_weights is None
    assert advise("llama-3.1-8b", "h100", draft=["ngram"]).smaller_weights is None


def test_no_smaller_mix_is_named_for_experts_that_stay_in_mxfp4() -> None:
    """The files of gpt-oss in smaller mixes are hardly smaller; experts on the host make room."""
    reason = advise("gpt-oss-20b", "rtx-3060", engine="llamacpp", context=16384).reason
    assert "--weights" not in reason
    assert "it would fit with --cpu-moe 2" in reason


def test_a_gain_under_a_bound_is_as_uncertain_as_the_steps_of_both() -> None:
    """Steps that are all a quarter slower or faster meet a bound as these do one of 20 or 32 ms: the batch of
    the baseline then differs by more than that of the draft.
    """
    question = {"model": "deepseek-v3.2", "hardware": "gb200", "weights": "nvfp4", "draft": ["mtp"]}
    question |= {"context": 8192, "tp": (4,), "dp": (4,), "ep": (4,)}
    tight, at, loose = (advise(**question, max_tpot_ms=bound).robustness for bound in (20, 25, 32))
    low, high = at.gain_over_baseline_interval
    assert low < loose.gain_over_baseline < at.gain_over_baseline < tight.gain_over_baseline < high


def test_a_shorter_draft_that_is_nearly_as_fast_is_named() -> None:
    question = {"model": "llama-3.3-70b", "weights": "nvfp4", "context": 16384, "tp": 2, "draft": "eagle3"}
    answer = advise(hardware="rtx-pro-6000", **question | {"tp": (2,), "draft": ["eagle3"]})
    p = answer.chosen
    speedups = [
        whatif(hardware="rtx-pro-6000", batch=p.batch, gamma=gamma, **question).speedup
        for gamma in (answer.shorter.gamma - 1, answer.shorter.gamma, p.gamma)
    ]
    assert answer.shorter.gamma <= p.gamma - 2
    assert speedups[1] / speedups[2] == pytest.approx(answer.shorter.share)
    assert speedups[0] / speedups[2] < 0.9 <= answer.shorter.share
    assert advise("gpt-oss-20b", "rtx-5090", context=16384, max_gamma=2).shorter is None
