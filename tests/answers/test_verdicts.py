"""Verdicts and warnings of a point, at the number where they change."""

import math
from dataclasses import replace
from functools import partial

import pytest

import perfmodel as pm
from perfmodel.answers.point.verdict import CLIFF, _climb, unlike_measured, verdicts, warnings
from perfmodel.answers.point.versions import other_verdict
from perfmodel.answers.question import Query, caveats, resolve
from perfmodel.answers.question.placement import check_engine
from perfmodel.errors import InputError
from perfmodel.specs import MeasuredRange
from perfmodel.speculation import memory_of
from tests.speculation.scenarios import scenario as llama

scenario = partial(llama, hardware="h100", context=4096, alpha=0.7)


@pytest.mark.parametrize(
    ("low", "high", "gamma", "fits", "word"),
    [
        (1.0, 1.4, 3, True, "too_close_to_call"),
        (1.0001, 1.4, 3, True, "pays"),
        (1.0001, 1.4, 1, True, "pays"),
        (1.0001, 1.4, 3, False, "does_not_fit"),
        (1.0001, 1.4, 0, True, "does_not_pay"),
        (0.8, 1.0, 3, True, "does_not_pay"),
        (0.8, 1.0001, 3, True, "too_close_to_call"),
        (math.nan, math.nan, 3, True, "pays"),  # of the speedup, 1.2
    ],
)
def test_a_verdict_takes_the_whole_interval(low, high, gamma, fits, word) -> None:
    assert verdicts(1.2, low, high, gamma, fits, measured=True).item() == word
    likely = {"pays": "likely_pays", "does_not_pay": "likely_does_not_pay"} if gamma else {}
    assert verdicts(1.2, low, high, gamma, fits, measured=False).item() == likely.get(word, word)


def test_a_verdict_is_sure_only_where_such_a_draft_was_measured_on_such_a_device() -> None:
    """EAGLE-3 was measured in vLLM on an H100, no n-gram was, and EAGLE-3 not on an RTX 4090."""
    question = {"model": "llama-3.1-8b", "batch": 1, "context": 4096, "gamma": 3, "alpha": 0.9}
    assert pm.whatif(hardware="h100", draft="eagle3", **question).verdict == "pays"
    for hardware, draft in (("h100", "ngram"), ("rtx-4090", "eagle3")):
        answer = pm.whatif(hardware=hardware, draft=draft, **question)
        assert answer.speedup_interval[0] > 1
        assert answer.verdict == "likely_pays"
        assert "likely" in answer.sentence
    never = pm.whatif(hardware="h100", draft="ngram", **question | {"alpha": 0.01, "gamma": 7, "batch": 64})
    assert never.verdict == "likely_does_not_pay"
    assert pm.whatif(hardware="h100", draft="ngram", **question | {"gamma": 0}).verdict == "does_not_pay"


def test_a_cliff_is_what_takes_longer_than_in_proportion() -> None:
    """4 of 3 sequences may take 4/3 of the time, 1.1 times as long is always allowed."""
    assert _climb(4 / 3, (1.0, 4.0)) == 0.0
    assert _climb(1.34, (1.0, 4.0)) == pytest.approx(0.34)
    assert _climb(CLIFF, (1.0, 100.0)) == 0.0
    assert _climb(1.12, (1.0, 100.0), (1.06, 100.0)) == pytest.approx(0.12)
    assert _climb(1.3, (1.1, 100.0), (1.0, 100.0)) == pytest.approx(0.3)
    assert _climb(9.0, (1.0, 1.0)) == _climb(9.0, (0.0, 4.0)) == 0.0
    assert _climb(3.0, (1.0, 2.0)) == 2.0


def warnings_of(s, context: float, gamma: int, batch: float = 1.0) -> list[str]:
    room = memory_of(s, batch, context, gamma, 0.9).single()
    question = Query(s.target.name, s.machine.gpu.name, 1, 1, gamma, draft="self", draft_kv="full")
    return [note.partition(":")[0] for note in warnings(question, s, batch, context, gamma, room)]


@pytest.mark.parametrize(("context", "gamma", "warned"), [(512, 1, True), (513, 1, False), (512, 0, False)])
def test_a_budget_that_holds_the_whole_context(context: int, gamma: int, warned: bool) -> None:
    sparse = scenario(draft_kv="streamingllm:512")
    assert ("KV budget 512 is not below the context" in warnings_of(sparse, context, gamma)) == warned


@pytest.mark.parametrize("gamma", [0, 1])
def test_a_draft_of_another_vocabulary_or_on_fewer_devices(gamma: int) -> None:
    model = scenario(model="llama-2-7b", draft="llama-3.2-1b", calibration="h100-sxm-80gb.magicdec")
    vocabulary = "llama-3.2-1b has 128256 vocabulary entries, llama-2-7b 32000"
    assert (vocabulary in warnings_of(model, 1000, gamma)) == bool(gamma)
    assert warnings_of(scenario(draft="llama-3.2-1b"), 1000, 1) == []
    some = scenario(tp=2, draft="llama-3.2-1b", draft_tp=1)
    all_devices = scenario(tp=2, draft="llama-3.2-1b")
    assert ("the draft runs on 1 of 2 devices" in warnings_of(some, 1000, gamma)) == bool(gamma)
    assert "the draft runs on 1 of 2 devices" not in warnings_of(all_devices, 1000, gamma)


def test_an_acceptance_beyond_where_it_was_measured() -> None:
    short = resolve(Query("gpt-oss-120b", "h100", 1, 4096, 3, draft="eagle3"))
    known = short.known_acceptance
    short = replace(short, acceptance=known.replace(source="a head at short contexts"))
    for context, gamma, warned in ((4096, 1, False), (4097, 1, True), (4097, 0, False)):
        assert any("short prompts" in note for note in warnings_of(short, context, gamma)) == warned
    longer = [
        resolve(Query("gpt-oss-120b", "h100", 1, context, 3, draft="eagle3")) for context in (4096, 16384)
    ]
    spreads = [float(each.known_acceptance.log_spread(3)) for each in longer]
    assert spreads[1] > spreads[0], "two doublings of the context further the acceptance is less certain"
    # 9 / 3 is no more than 3
    block = replace(short, acceptance=known.replace(prefix=(0.5,) * 15, measured_at=(8.0, 15.0)))
    (note,) = (note for note in warnings_of(block, 4096, 1) if "is used for" in note)
    assert note.startswith("the acceptance was measured at 8 drafted tokens and is used for 1;")
    assert not any("is used for" in note for note in warnings_of(block, 4096, 2))


def test_a_context_and_what_is_added_to_it_must_be_within_the_model() -> None:
    """131072 positions: 131068 cached tokens, 3 drafted and the target's own."""
    s = scenario(draft="llama-68m", calibration="h100-sxm-80gb.magicdec")
    assert tuple(caveats.beyond("llama-3.1-8b", scenario(), 131_068, 3)) == ()
    assert tuple(caveats.beyond("llama-3.1-8b", scenario(), 131_069, 3)) == (
        "context 131069 (+4) is beyond llama-3.1-8b's maximum of 131072",
    )
    assert tuple(caveats.beyond("llama-3.1-8b", s, 2045, 3)) == (
        "context 2045 (+4) is beyond llama-68m's maximum of 2048",
    )
    assert not [*caveats.beyond("llama-3.1-8b", s, 131_071, 0)]
    assert not [*caveats.beyond("llama-3.1-8b", s, 2044, 3)]


def test_what_lies_beyond_the_rows_of_an_own_calibration_is_named() -> None:
    measured_range = MeasuredRange(
        model="llama-3.1-8b", draft="eagle", draft_kv="full", batch=(2, 8), context=(1000, 4000), gamma=(1, 3)
    )
    s = scenario(draft="eagle")
    assert list(unlike_measured(s, 1.0, 1.0, 9)) == []
    c = s.machine.calibration.replace(measured=measured_range)

    def notes(s, *at) -> list[str]:
        s = replace(s, machine=replace(s.machine, calibration=c))
        unlike = (note.partition(": intervals")[0] for note in unlike_measured(s, *at))
        return [note.removeprefix(f"{c.name} was timed ") for note in unlike]

    assert notes(s, 2.0, 1000.0, 1) == []
    assert notes(s, 8.0, 4000.0, 3) == []
    assert notes(s, 2.0, 1000.0, 0) == []
    assert notes(s, 1.0, 480.0, 7) == [
        "at batch 2 to 8, not 1",
        "at context 1000 to 4000, not 480",
        "at gamma 1 to 3, not 7",
    ]
    assert notes(s, 17.0, 8200.0, 0) == ["at batch 2 to 8, not 17", "at context 1000 to 4000, not 8200"]
    assert notes(s, 2.0, 1000.0, 4) == [], "5 tokens for 4 are near"
    assert notes(scenario(model="qwen3-8b", draft="eagle"), 2.0, 1000.0, 1) == [
        "serving llama-3.1-8b, not qwen3-8b"
    ]
    other = scenario(draft="llama-3.2-1b")
    assert notes(other, 2.0, 1000.0, 0) == []
    assert notes(other, 2.0, 1000.0, 1) == ["with draft eagle (full), not llama-3.2-1b (full)"]


def test_devices_that_an_engine_does_not_start_on_are_refused_with_those_it_does() -> None:
    """Qwen2.5-0.5B: 14 heads, 2 KV heads. DeepSeek-R1: experts 2048 wide in blocks of 128, so that 16 share
    one.
    """
    with pytest.raises(InputError, match=r"has 2 \(one of 1, 2, 14\), given 7"):
        scenario(model="qwen2.5-0.5b", tp=7)
    r1 = scenario(model="deepseek-r1", hardware="b200", tp=8)
    for tp, ep, fine in ((16, 1, True), (32, 1, False), (16, 2, True), (96, 4, False), (24, 1, False)):
        arguments = (r1.machine.calibration, r1.machine.gpu, r1.target, r1.precision, tp, ep, 1)
        if fine:
            check_engine(*arguments)
        else:
            with pytest.raises(InputError, match=f"{tp // ep} devices would divide a block; use --ep {tp}"):
                check_engine(*arguments)


@pytest.mark.parametrize(
    ("model", "tp", "part"),
    [("qwen3-4b", 8, "dense MLPs"), ("qwen3-next-80b-a3b", 8, "shared experts"), ("qwen3-8b", 8, None)],
)
def test_no_matrix_of_an_fp8_checkpoint_is_cut_inside_a_block(model: str, tp: int, part: str | None) -> None:
    """Widths 9728, 512 (whole experts do not help the shared one) and 12288 over 8 devices."""
    ep = tp if model == "qwen3-next-80b-a3b" else 1
    question = {"model": model, "weights": "fp8-block", "tp": tp, "ep": ep, "hardware": "h200"}
    if part is None:
        scenario(**question)
        return
    with pytest.raises(InputError, match=f"{part} of {model} are .* would divide a block"):
        scenario(**question)


def test_no_verdict_is_sure_of_a_draft_with_layers_on_the_host() -> None:
    ask = {"batch": 1, "context": 1000, "weights": "iq4_xs", "draft": "mtp", "gamma": 2, "alpha": 0.9}
    on_device = pm.whatif("qwen3.6-27b", "rtx-3090", **ask)
    on_host = pm.whatif("qwen3.6-27b", "rtx-3090", **ask, gpu_layers=25, host_bandwidth=80)
    assert on_device.verdict == "pays"
    assert on_host.verdict == "likely_pays"


def test_an_older_version_on_the_other_side_of_the_baseline_is_named() -> None:
    """EAGLE-3 of Qwen3-30B-A3B in SGLang, which sgl-project/sglang#14824 measured at 0.72 in 0.5.5."""
    query = Query("qwen3-30b-a3b", "h100", 1, 500, gamma=3, tp=2, engine="sglang", draft="eagle3")
    query = replace(query, tokens_per_iteration=1.86)
    now = pm.whatif(query)
    older = other_verdict(query, now.verdict, now.speedup)
    assert older is not None
    assert older.version == "0.5.5"
    assert older.verdict == "does_not_pay"
    assert older.speedup < 1 < now.speedup
