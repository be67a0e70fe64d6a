"""The committed records of lines that the engines' own parsers took: stale as soon as a line or a version
changes; and points of a live llama.cpp that a fit has not seen.
"""

import json
import re

import pytest

import perfmodel as pm
from perfmodel.answers.advice.draft_lengths import LengthTable, Range
from perfmodel.answers.advice.servers import ServedFile, ServedTarget, Setup, servers
from perfmodel.answers.question import Query, resolve
from perfmodel.operations import Array
from perfmodel.speculation.confidence import Stop
from tests.engine import lines as vllm_and_sglang, llama_lines
from tests.engine.live import ROOT
from tests.engine.llama_live import WANTED, errors


def test_the_lines_emitted_now_are_those_that_vllm_and_sglang_took() -> None:
    record = json.loads(vllm_and_sglang.RECORD.read_text())
    assert record["accepted_by"] == vllm_and_sglang.CHECKED
    assert json.loads(json.dumps(vllm_and_sglang.as_record(vllm_and_sglang.CHECKED))) == record, (
        "make test-engine has the engines parse them anew"
    )


def test_each_kind_has_a_line_or_a_note_that_says_why_not() -> None:
    for name, export in vllm_and_sglang.emitted().items():
        for line, engine in ((export.vllm_line, "vLLM"), (export.sglang_line, "SGLang")):
            assert line or any(engine in note for note in export.notes), name
        assert not export.vllm_line or "accept lines of this form" in str(export.notes)


def test_the_lines_emitted_now_are_those_that_llama_cpp_took() -> None:
    assert json.loads(llama_lines.RECORD.read_text()) == llama_lines.as_record(), (
        "tests/engine/llama_lines.py has them parsed anew"
    )


def test_only_what_llama_cpp_runs_is_in_its_line() -> None:
    lines = llama_lines.emitted()
    plain = [name for name, e in lines.items() if "--spec-type" not in str(e.llamacpp_line)]
    assert plain == ["none", "self"]
    assert any("no fp8 KV cache" in note for note in lines["mtp"].notes)
    assert "-sm tensor" in str(lines["two devices"].llamacpp_line)
    assert not any(e.vllm_line or e.sglang_line for e in lines.values())


@pytest.mark.parametrize(
    ("draft", "gain", "words", "note"),
    [
        ("mtp", 1.1, "--spec-draft-n-max 5 --spec-draft-p-min 0.4", "3 tokens: 1.25 .* p-min: 1.43 "),
        (
            "mtp",
            0.9,
            "--spec-draft-n-max 2 --spec-draft-p-min 0",
            "3 tokens: 1.25 times the baseline",
        ),
        ("ngram", 1.1, "--spec-ngram-simple-size-n 3 --spec-ngram-simple-size-m 2", "^$"),
    ],
)
def test_p_min_must_gain_over_the_best_constant(draft: str, gain: float, words: str, note: str) -> None:
    """At 1, 2 and 3 slots and five contexts, the best constant is 2 tokens: 1.3 times the baseline."""

    def stop(batches: Array, contexts: Array, constant: int) -> Stop:
        assert batches.tolist() == [1, 2, 3]
        assert contexts.tolist() == [1, 2, 4, 8, 16]
        assert constant == 2
        return Stop(gain, 5, 0.4)

    table = LengthTable((Range(1, 3, 2, 1.3, 2, 1.3),), 0, 16, 1.3, 2, 1.3, (1.0, 1.2, 1.3, 1.25))
    query = Query("qwen3.6-27b", "3090", 1, 16, draft=draft, alpha=0.7)
    notes = list[str]()
    served = ServedTarget(None, file=ServedFile("x.gguf", best_stop=stop))
    started = servers()["llamacpp"].start(Setup(table, resolve(query).draft, served), notes)
    assert started is not None
    assert started.line.endswith(words)
    assert re.search(note, " ".join(notes))


def test_a_line_without_p_min_says_what_an_early_end_gains_at_most() -> None:
    answer = pm.schedule("qwen3.8-27b", "rtx-5090", context="4k", draft="mtp", weights="q4_k_m")
    text = " ".join(str(answer).split())
    bound = re.search(r"above 0 ends doubtful drafts early: at most (\d\.\d\d) times the baseline", text)
    speedup = re.search(r"expected speedup (\d\.\d\d)x", text)
    assert bound is not None
    assert speedup is not None
    assert float(speedup[1]) < float(bound[1])


@pytest.mark.slow
def test_points_held_out_are_as_close_as_the_summary_says() -> None:
    out = ROOT / "results/cpu-engine/llamacpp"
    by_kind, text = errors(out)
    stated = json.loads((out / "summary.json").read_text())["errors"]
    assert by_kind == {kind: pytest.approx(off, abs=0.002) for kind, off in stated.items()}
    assert all(off[figure] < WANTED for off in by_kind.values() for figure in ("tpot", "speedup"))
    assert "base: ideal with one-row GEMMs, with the smallest held-out error (others: ideal 10.5%)" in text
