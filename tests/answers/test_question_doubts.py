"""Doubts about a question: at which number each begins."""

from dataclasses import replace
from functools import partial

import pytest

from perfmodel.answers.question import Query, caveats, common_doubts, resolve
from perfmodel.speculation import Scenario, memory_of
from tests.speculation.scenarios import scenario as llama

scenario = partial(llama, hardware="h100", context=4096, alpha=0.7)


def doubts_of(s: Scenario, context: float, gamma: int) -> list[str]:
    """Each doubt about one sequence, up to its colon."""
    room = memory_of(s, 1.0, context, gamma, 0.9).single()
    question = Query(s.target.name, s.machine.gpu.name, 1, 1, gamma, draft="self", draft_kv="full")
    found = common_doubts(question, s, 1.0, context, gamma, room)
    return [doubt.partition(":")[0] for doubt in found]


@pytest.mark.parametrize(("context", "gamma", "warned"), [(512, 1, True), (513, 1, False), (512, 0, False)])
def test_a_budget_that_holds_the_whole_context(context: int, gamma: int, warned: bool) -> None:
    sparse = scenario(draft_kv="streamingllm:512")
    assert ("KV budget 512 is not below the context" in doubts_of(sparse, context, gamma)) == warned


@pytest.mark.parametrize("gamma", [0, 1])
def test_a_draft_of_another_vocabulary_or_on_fewer_devices(gamma: int) -> None:
    model = scenario(model="llama-2-7b", draft="llama-3.2-1b", calibration="h100-sxm-80gb.magicdec")
    vocabulary = "llama-3.2-1b has 128256 vocabulary entries, llama-2-7b 32000"
    assert (vocabulary in doubts_of(model, 1000, gamma)) == bool(gamma)
    assert doubts_of(scenario(draft="llama-3.2-1b"), 1000, 1) == []
    some = scenario(tp=2, draft="llama-3.2-1b", draft_tp=1)
    all_devices = scenario(tp=2, draft="llama-3.2-1b")
    assert ("the draft runs on 1 of 2 devices" in doubts_of(some, 1000, gamma)) == bool(gamma)
    assert "the draft runs on 1 of 2 devices" not in doubts_of(all_devices, 1000, gamma)


def short_head(**changes: object) -> Scenario:
    """A head of gpt-oss-120b whose acceptance was measured at short contexts, as its source says."""
    s = resolve(Query("gpt-oss-120b", "h100", 1, 4096, 3, draft="eagle3"))
    assert s.known_acceptance is not None
    acceptance = s.known_acceptance.replace(source="a head at short contexts", **changes)
    return replace(s, acceptance=acceptance)


@pytest.mark.parametrize(
    ("context", "gamma", "warned"), [(4096, 1, False), (4097, 1, True), (4097, 0, False)]
)
def test_an_acceptance_of_short_contexts(context: int, gamma: int, warned: bool) -> None:
    doubts = doubts_of(short_head(), context, gamma)
    assert any("short prompts" in doubt for doubt in doubts) == warned


def test_two_doublings_of_the_context_further_the_acceptance_is_less_certain() -> None:
    known = [
        resolve(Query("gpt-oss-120b", "h100", 1, context, 3, draft="eagle3")).known_acceptance
        for context in (4096, 16_384)
    ]
    near, far = (float(each.log_spread(3)) for each in known if each is not None)
    assert far > near


def test_an_acceptance_of_much_longer_drafts() -> None:
    """9 tokens per iteration over the 2 of one drafted token are more than 3, over the 3 of two are not."""
    block = short_head(prefix=(0.5,) * 15, measured_at=(8.0, 15.0))
    (doubt,) = (each for each in doubts_of(block, 4096, 1) if "is used for" in each)
    assert doubt.startswith("the acceptance was measured at 8 drafted tokens and is used for 1;")
    assert not any("is used for" in each for each in doubts_of(block, 4096, 2))


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
