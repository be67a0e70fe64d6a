"""Known defects of engines: they are said, nothing is sure where a draft may lose by one, none is advised."""

import pytest

import perfmodel as pm
from perfmodel.specs import Defect

GDN = {
    "model": "qwen3.5-35b-a3b",
    "hardware": "rtx-a6000",
    "weights": "int4-g128",
    "batch": 1,
    "context": 600,
}
DRAFTED = {"tp": 2, "draft": "mtp", "alpha": 0.9}
DFLASH = {"model": "qwen3-8b", "hardware": "h100", "draft": "dflash", "gamma": 7, "alpha": 0.95, "batch": 1}


def defects_named(answer: object) -> list[str]:
    return [note for note in answer.warnings if note.startswith("known defect: ")]  # type: ignore[attr-defined]


def test_a_draft_that_may_lose_by_a_defect_never_surely_pays() -> None:
    """MTP of a model with recurrent layers and experts, on Ampere alone (vllm#47277)."""
    question = GDN | DRAFTED | {"gamma": 3, "hardware": "a100"}
    answer = pm.whatif(**question)
    assert answer.speedup_interval[0] > 1
    assert answer.verdict == "too_close_to_call"
    assert any(note.endswith("(vllm#47277)") for note in defects_named(answer))
    assert not defects_named(pm.whatif(**question | {"gamma": 0}))
    assert not any("47277" in n for n in defects_named(pm.whatif(**question | {"hardware": "l40s"})))
    dense = pm.whatif(**question | {"model": "qwen3.5-27b"})
    assert not any("47277" in note for note in defects_named(dense))
    assert any("54360" in note for note in defects_named(dense))  # only a warning
    assert not any("47277" in note for note in defects_named(pm.whatif(**question, engine="sglang")))
    assert set(pm.sweep(**question | {"batch": "1,2"}).to_frame().verdict) == {"too_close_to_call"}


def test_lengths_that_fall_off_the_captured_graphs_are_said_in_the_versions_that_have_it() -> None:
    """K = 2 of vLLM 0.26 to 0.28; three and seven fit the captured sizes (vllm#53407)."""

    def said(gamma: int, version: str) -> bool:
        question = {"model": "llama-3.1-8b", "hardware": "h100", "batch": 5, "context": 1024}
        answer = pm.whatif(**question, draft="eagle3", gamma=gamma, engine=version)
        return any("53407, #52000" in note for note in defects_named(answer))

    assert said(2, "vllm@0.27")
    assert not said(3, "vllm@0.27")
    assert not said(7, "vllm@0.27")
    assert not said(2, "vllm@0.25")
    assert not said(2, "vllm@0.29")


def test_a_backend_that_is_assumed_is_said_until_it_is_named() -> None:
    """vLLM on AMD runs AITER if it is told to; its own word for it is taken too."""
    question = {"model": "qwen3-8b", "hardware": "mi300x", "batch": 4, "context": 600, "draft": "eagle3"}
    open_, named = (
        pm.whatif(**question, alpha=0.7, gamma=3, **more)
        for more in ({}, {"attention_backend": "ROCM_AITER_FA"})
    )
    assert any("AITER is assumed" in note for note in defects_named(open_))
    assert not defects_named(named)
    assert named.tpot_s == open_.tpot_s


def test_the_assumed_backend_of_a_latent_cache_is_one_that_reads_such_a_cache() -> None:
    """ROCM_AITER_FA does not run MLA."""
    question = {"model": "kimi-k2.5", "hardware": "mi355x", "tp": 8, "weights": "mxfp4", "draft": "eagle3"}
    answer = pm.whatif(**question, batch=4, context=600, alpha=0.7, gamma=3)
    (said,) = [note for note in defects_named(answer) if "AITER is assumed" in note]
    assert "ROCM_AITER_MLA" in said
    assert "ROCM_AITER_FA" not in said


def test_a_defect_begins_at_its_context() -> None:
    short, long = (pm.whatif(**DFLASH, context=context) for context in (32768, 131072))
    assert defects_named(short) == []
    assert short.verdict == "likely_pays"
    assert [note[-12:] for note in defects_named(long)] == ["(vllm#54691)"]
    assert long.verdict == "too_close_to_call"


def test_advise_leaves_out_what_is_known_to_be_slow() -> None:
    question = GDN | {"batch": "1..8", "tp": 2, "rate": {"mtp": 0.9, "ngram": "0.5x4"}}
    answer = pm.advise(**question)
    assert answer.chosen.draft != "mtp"
    assert "known defect" in answer.not_run.runs_in
    assert pm.advise(**question, any_draft=True).chosen.draft == "mtp"
    without_defect = pm.advise(**question, engine="sglang")
    assert "mtp" in [server.draft for server in (without_defect.chosen, without_defect.option) if server]


@pytest.mark.parametrize(("engine", "gamma"), [("vllm", 0), ("sglang", 3)])
def test_traffic_does_not_choose_what_is_known_to_be_slow(engine: str, gamma: int) -> None:
    """Its rows stay, but the verdict is the baseline's."""
    served = {name: value for name, value in (GDN | DRAFTED).items() if name not in ("batch", "context")}
    lengths = {"input_len": 500, "output_len": 200, "request_rate": 0.1, "gamma": 3}
    answer = pm.traffic(**served, **lengths, engine=engine)
    assert answer.rows[1].tpot_s.mean < answer.rows[0].tpot_s.mean
    assert answer.verdicts[0].gamma == gamma
    assert (len(defects_named(answer)) > 0) == (engine == "vllm")


@pytest.mark.parametrize(
    ("version", "has"), [("0.19", False), ("0.20", True), ("0.20.1", True), ("0.25.9", True), ("0.26", False)]
)
def test_a_defect_is_of_its_versions(version: str, has: bool) -> None:
    assert Defect(thread="x#1", effect="slow", since="0.20", until="0.26").of_version(version) == has
    assert Defect(thread="x#1", effect="slow").of_version(version)
