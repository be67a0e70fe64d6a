"""Which acceptance an advice uses: of a file of rows, of a named head, of a rate at one position."""

import json

import pytest

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.candidates import find_candidates
from perfmodel.answers.point.whatif import whatif
from tests.answers.advise.questions import question_with


def test_the_rows_of_a_file_name_the_drafts_to_search(tmp_path) -> None:
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
    candidates = find_candidates(question_with(rate={"ngram": "0.2x2"}, acceptance=str(path)))
    drafts = [c.scenario.draft for c in candidates.drafted]
    assert [(draft.name, draft.kv.budget) for draft in drafts] == [("ngram", None), ("self", 777)]
    assert candidates.skips == []
    assert "a test" in candidates.drafted[1].scenario.acceptance.source
    longer = find_candidates(question_with(rate={}, acceptance=str(path), context=131_072))
    assert longer.drafted[0].scenario.acceptance.measured_context == 32_768
    beyond = find_candidates(question_with(rate={}, acceptance=str(path), context=131_073))
    assert beyond.drafted == []
    assert "was measured at 8192 to 32768" in beyond.skips[0].reason


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


def test_no_draft_is_advised_far_beyond_the_one_position_of_a_rate() -> None:
    """vllm#35387: a rate at K = 1 said K = 11, which served 0.57 times the baseline; two more positions."""
    asked = {"model": "qwen3-8b", "hardware": "h100", "context": 2048}
    drafted = {"draft": "eagle3", "rate": "0.85", "batch": 1}
    latency = {"objective": "latency", "rate": {"eagle3": "0.85"}}
    of_one_rate = advise(**asked, **latency)
    assert of_one_rate.chosen.gamma == 3
    assert any("2 more than the position at which" in warning for warning in of_one_rate.warnings)
    assert whatif(**asked, **drafted).gamma_optimal == 3
    assert whatif(**asked, **drafted, gamma=7).gamma_optimal == 9
    by_position = "/".join(["0.85"] * 8)
    of_all = advise(**asked, **latency | {"rate": {"eagle3": by_position}})
    assert of_all.chosen.gamma > 3
    assert not any("is the largest in this search" in warning for warning in of_all.warnings)


@pytest.mark.parametrize(("context", "said"), [(4096, False), (20480, True)])
def test_the_choice_says_that_its_acceptance_was_not_measured_at_this_context(context, said) -> None:
    """Published heads were measured on short prompts."""
    question = {"tp": 2, "context": context, "draft": ["eagle3"]}
    answer = advise("qwen3-32b", "h100", **question)
    words = f"; the acceptance was not measured at {context} tokens"
    assert answer.chosen.gamma
    assert answer.headline().endswith(words) == said
    measured = advise("qwen3-32b", "h100", **question, rate={"eagle3": "0.7/0.6/0.5"})
    assert "not measured" not in measured.headline()


@pytest.mark.parametrize(
    ("path", "rate", "warned"),
    [
        ("./my-finetune", None, True),
        ("./my-finetune", {"eagle3": "0.7"}, False),
        ("/models/Llama-3.1-8B-Instruct", None, False),
        ("/models/Llama-3.1-8B-Instruct/", None, False),
        ("someone/Llama-3.1-8B-Instruct-AWQ", None, False),
    ],
)
def test_a_fine_tune_may_accept_fewer_tokens_than_its_base_model(
    path: str, rate: object, warned: bool
) -> None:
    drafts = {"draft": "eagle3"} if rate is None else {"rate": rate}
    answer = advise("llama-3.1-8b", "h100", context=3072, batch=8, model_path=path, **drafts)
    assert answer.chosen.gamma
    assert any(f"{path} may accept fewer tokens" in warning for warning in answer.warnings) is warned
