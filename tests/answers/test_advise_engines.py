"""Advice has drafts that the engine runs, and names what it does not run."""

from collections import Counter

import pytest

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.point.whatif import whatif
from perfmodel.specs import acceptance_library, files, short_name
from tests.answers.advise.questions import question_with


def test_a_draft_that_no_engine_runs_is_named_and_not_chosen() -> None:
    query = question_with(
        rate={"self@streamingllm:512": "0.9", "eagle": "0.2"}, context=65536, batch=(1, 4), any_draft=False
    )
    a = advise(query)
    every = advise(query, any_draft=True)
    assert every.chosen.draft == "self"
    assert every.not_run is None
    assert every.serve.vllm_line is None
    assert a.chosen.gamma == 0
    assert (a.option.draft, a.option.runs_in) == ("eagle", "vLLM >= 0.9")
    assert a.not_run == every.chosen
    assert a.not_run.runs_in == "no engine yet (open RFC vllm#47351)"
    only = advise(query, rate={}, draft="self", model="llama-3.1-8b", context=32768)
    assert only.verdict == "do_not_speculate"
    assert only.not_run.draft == "self"
    assert "the engine runs no draft with a known acceptance" in only.reason
    research = advise(query, engine="magicdec")
    assert research.chosen.draft == "self"
    assert research.chosen.runs_in is None
    assert ": self with streamingllm:512, gamma" in research.headline()


def test_under_a_load_a_named_draft_that_the_engine_does_not_run_is_not_called_slow() -> None:
    load = {"clients": 16, "input_len": 2048, "output_len": 1024, "rate": {"eagle": "0.8"}}
    answer = advise("llama-3.1-8b", "h100", draft=["eagle"], engine="trtllm", **load)
    assert answer.verdict == "do_not_speculate"
    assert answer.reason.endswith("; the engine runs no draft of --rate")
    assert answer.warnings[0] == (
        "eagle was not searched: not in TensorRT-LLM; in vLLM >= 0.9 or SGLang >= 0.4.5 "
        "(--any-draft includes such drafts)"
    )
    beside = advise("llama-3.1-8b", "h100", draft=["eagle", "eagle3"], engine="trtllm", **load)
    assert beside.chosen.draft == "eagle3"
    assert answer.warnings[0] in beside.warnings


@pytest.mark.parametrize(
    ("engine", "draft", "kv", "says"),
    [
        ("vllm", "dspark:rank=256,block=7", "full", "vLLM >= 0.28"),
        ("vllm", "eagle3", "streamingllm:512", "not in vLLM; in SGLang >= 0.5.12"),
        (
            "trtllm",
            "eagle",
            "full",
            "not in TensorRT-LLM; in vLLM >= 0.9 or SGLang >= 0.4.5",
        ),
        ("magicdec", "self", "streamingllm:512", None),
        ("vllm@0.28", "dspark", "full", "vLLM >= 0.28"),
        ("vllm@0.22", "dspark", "full", "vLLM >= 0.28, not in 0.22"),
        ("sglang@0.5.9", "eagle3", "streamingllm:512", "SGLang >= 0.5.12, not in 0.5.9"),
    ],
)
def test_where_a_draft_runs(engine: str, draft: str, kv: str, says: str | None) -> None:
    a = whatif("llama-3.1-8b", "h100", 4, 4096, 2, draft=draft, draft_kv=kv, alpha=0.7, engine=engine)
    assert a.runs_in == says


def test_only_engines_that_support_the_device_are_named_for_a_draft() -> None:
    """vLLM and SGLang have EAGLE-3 too, but do not run on a Mac."""
    question = {"draft": "eagle3", "alpha": 0.7, "engine": "mlx", "weights": "4bit"}
    assert whatif("qwen3-next-80b-a3b", "m3-ultra-512gb", 1, 8192, 2, **question).runs_in == (
        "not in MLX; in llama.cpp >= b10451"
    )
    advised = advise("qwen3-next-80b-a3b", "m3-ultra-512gb", context=8192, engine="mlx", weights="4bit")
    assert advised.not_run.runs_in == "not in MLX; in llama.cpp >= b10451"


def test_a_version_that_is_named_is_given_only_what_it_runs() -> None:
    """SGLang has dspark, the fastest of Qwen3-8B's heads, from 0.5.18 on, DFlash from 0.5.12, EAGLE-3 from
    0.4.6.
    """
    question = {"model": "qwen3-8b", "hardware": "h100", "context": 4096, "batch": (1, 16)}
    old, new = (advise(AdviseQuery(engine=f"sglang@{v}", **question)) for v in ("0.5.9", "0.5.18"))
    assert old.chosen.draft == "eagle3"
    assert new.chosen.draft == "dspark"
    assert old.not_run.draft == "dspark"
    assert old.not_run.runs_in == "SGLang >= 0.5.18, not in 0.5.9"
    assert whatif("deepseek-r1", "h200", 8, 8192, tp=8, engine="vllm@0.10.2").query.draft == "eagle3", (
        "mtp: 0.11.1"
    )


@pytest.mark.slow
def test_every_bundled_model_with_a_published_head_has_an_answer_that_its_engine_runs() -> None:
    """At 8k on H200: none is undecided for want of an acceptance, but the one whose head vLLM does not run;
    and `whatif` says the same of what is chosen.
    """
    same = {
        "pays": "speculate",
        "likely_pays": "likely_speculate",
        "too_close_to_call": "too_close_to_call",
    }
    verdicts: Counter[str] = Counter()
    published = acceptance_library()
    for model in files.bundled_names("models"):
        if not published.drafts_of(short_name(model)):
            continue
        a = advise(model, "h200", "8k", batch=(1, 16, 64), tp=(1, 8))
        verdicts[a.verdict] += 1
        if (p := a.chosen) is None or p.draft is None:
            continue
        assert p.runs_in.startswith("vLLM >= ")
        assert '"num_speculative_tokens"' in a.serve.vllm_line
        point = whatif(
            model, "h200", p.batch, "8k", p.gamma, p.tp, p.draft_kv, draft=p.draft, draft_tp=p.draft_tp
        )
        assert (same[point.verdict], point.runs_in) == (a.verdict, p.runs_in), model
    assert verdicts["unknown_acceptance"] == 1, "Ling-flash-2.0 gives heads no hidden states in vLLM"
    assert verdicts["speculate"] + verdicts["likely_speculate"] >= 8
    assert verdicts.total() >= 30


def test_a_named_draft_of_unknown_acceptance_has_a_line_to_measure_it() -> None:
    """The line serves the checkpoint that was named, not another one of its shape."""
    answer = advise(
        "qwen2.5-coder-32b",
        "rtx-3090",
        engine="llamacpp",
        weights="q4_k_m",
        context=8192,
        draft=["qwen2.5-coder-0.5b"],
    )
    assert answer.verdict == "unknown_acceptance"
    line = answer.serve_option.llamacpp_line
    assert "-md Qwen2.5-Coder-0.5B-Instruct.gguf" in line
    assert "--spec-draft-n-max 1" in line
    notes = (*answer.serve.notes, *answer.serve_option.notes)
    assert not any("no draft length gains" in note for note in notes)


def test_a_batch_that_does_not_fit_names_what_would_hold_it() -> None:
    answer = advise("kimi-k2", "h200", tp=8, batch=32, context=8192)
    assert "32 would fit with --weights int4-g128, with --tp 16" in answer.reason
    assert advise("kimi-k2", "h200", tp=16, batch=32, context=8192).chosen is not None
    smaller = advise("kimi-k2", "h200", tp=8, batch=32, context=8192, weights="int4-g128")
    assert smaller.chosen is not None


def test_a_checkpoint_that_the_devices_do_not_divide_is_named_with_its_format() -> None:
    answer = advise("qwen3-235b-a22b", "h100", tp=8, weights="fp8", batch=16)
    assert "--quantization fp8" in answer.serve.vllm_line
    undivided = "Qwen/Qwen3-235B-A22B-FP8 has fp8-block weights: experts of qwen3-235b-a22b are 1536 wide"
    asked = whatif("qwen3-235b-a22b", "h100", tp=8, weights="fp8", batch=16, context=8192)
    for warnings in (answer.warnings, asked.warnings):
        assert any(text.startswith(undivided) for text in warnings)
    divided = whatif("qwen3-235b-a22b", "h100", tp=4, weights="fp8", batch=16, context=8192)
    assert not any("fp8-block" in text for text in divided.warnings)


def test_a_search_has_no_layout_that_the_published_checkpoint_forbids() -> None:
    """Experts of 2560 in blocks of 128 on 8 devices: neither the choice nor its baseline divides them."""
    answer = advise("qwen3-coder-480b-a35b", "8xh200", weights="fp8", context=20480)
    whole = [pick for pick in answer.layouts if pick.tp == 8]
    assert {pick.ep for pick in (*whole, answer.baseline)} == {8}
    assert "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8 " in answer.serve.vllm_line
    assert any("8 devices would divide a block" in skip.reason for skip in answer.skipped)
    own = advise("qwen3-coder-480b-a35b", "8xh200", weights="fp8", context=20480, model_path="me/fp8")
    assert any(pick.layout == "TP 8" for pick in own.layouts)


@pytest.mark.parametrize(("draft", "runs"), [("eagle", True), ("eagle3", False), ("dflash", False)])
def test_drafts_that_read_inner_layers_do_not_run_where_the_engine_withholds_these(
    draft: str, runs: bool
) -> None:
    answer = whatif("gemma-2-9b", "h100", 1, 4000, 2, draft=draft, alpha=0.6, engine="vllm")
    assert answer.runs_in is not None
    assert answer.runs_in.startswith("not in vLLM") != runs


def test_rates_name_the_drafts_of_the_search_and_the_answer_names_published_ones() -> None:
    only = advise("llama-3.1-8b", "h100", context=32768, rate={"self@streamingllm:512": "0.9"})
    assert only.reason.startswith("the engine runs no draft of --rate (--draft eagle3 --draft ngram adds ")
    slow = advise("llama-3.1-8b", "h100", batch=(64,), context=2048, rate={"ngram": "0.1"})
    assert "times the baseline (--draft eagle3 adds eagle3, with published acceptance): " in slow.reason
    load = {"request_rate": 5.0, "input_len": 2048, "output_len": 400}
    served = advise("llama-3.1-8b", "h100", rate={"ngram": "0.1"}, **load)
    assert served.reason.endswith("is faster (--draft eagle3 adds eagle3, with published acceptance)")
    both = advise("llama-3.1-8b", "h100", rate={"ngram": "0.1"}, draft=["eagle3"], **load)
    assert both.chosen.draft == "eagle3"
    assert "published" not in both.reason


def test_sglang_asks_for_the_checkpoint_of_a_head_with_a_window() -> None:
    sparse = {"eagle3@streamingllm:512": "0.7/0.6/0.5"}
    answer = advise("phi-4", "a100", engine="sglang", context=16384, rate=sparse)
    assert answer.serve.notes.count("pass --draft-path to name the eagle3 head") == 1


def test_another_format_has_the_drafts_of_the_rates() -> None:
    rate = {"eagle3@streamingllm:512": "0.7/0.6/0.5"}
    server = {"gpus": 8, "engine": "sglang", "context": 65536, "rate": rate}
    answer = advise("llama-3.3-70b", "a100", **server)
    change = next(each for each in answer.better_changes if each.flags == "--kv-dtype fp8")
    asked = advise("llama-3.3-70b", "a100", **server, kv_dtype="fp8").chosen
    assert change.gain == pytest.approx(asked.objective / answer.chosen.objective)
