"""What every kind of draft must keep. A file that is added is found by its name, and held to the same."""

import numpy as np
import pytest
from numpy.typing import NDArray

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.schedule import schedule
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query, resolve
from perfmodel.drafts import kinds
from perfmodel.speculation import Prediction, Scenario, Workload, predict, speedups

DRAFTS = {word: kind.example for word, kind in kinds().items()}


BATCHES = (1.0, 64.0)
CONTEXTS = (512.0, 8192.0)


def asked_of(word: str) -> tuple[Scenario, NDArray[np.int_]]:
    """(a question about the draft, the lengths to ask for: 0 to 4, or to the longest that the draft has)."""
    scenario = resolve(Query("llama-3.1-8b", "h100-sxm-80gb", 1, 1, draft=DRAFTS[word], alpha=0.7))
    longest = min(4, scenario.draft.max_gamma or 4)
    return scenario, np.arange(longest + 1)


def predicted_grid(scenario: Scenario, gammas: NDArray[np.int_]) -> Prediction:
    """Axes: BATCHES, CONTEXTS, lengths."""
    batches = np.array(BATCHES)[:, None, None]
    contexts = np.array(CONTEXTS)[:, None]
    return predict(scenario, Workload.of(batches, contexts, gammas), int(gammas[-1]))


@pytest.mark.parametrize("word", DRAFTS)
def test_a_draft_has_the_name_of_its_file_a_source_and_a_description(word: str) -> None:
    kind = kinds()[word]
    assert kind.kind == word
    assert "arXiv" in kind.source or "github.com" in kind.source
    assert kind.__doc__
    assert not kind.__doc__.startswith(f"{kind.__name__}(")
    scenario, _ = asked_of(word)
    assert scenario.draft.name == DRAFTS[word] or scenario.draft.name.startswith(word)


@pytest.mark.parametrize("word", DRAFTS)
def test_no_drafted_token_is_plain_decoding_and_each_one_takes_time(word: str) -> None:
    grid = predicted_grid(*asked_of(word))
    assert np.all(grid.speedup[..., 0] == 1.0)
    assert np.all(np.diff(grid.iteration_s, axis=-1) > -1e-12)  # the host may take longer than any of them


@pytest.mark.parametrize("word", DRAFTS)
def test_a_grid_of_loads_is_answered_as_each_load_alone(word: str) -> None:
    scenario, gammas = asked_of(word)
    grid = predicted_grid(scenario, gammas)
    for b, batch in enumerate(BATCHES):
        for c, context in enumerate(CONTEXTS):
            for gamma in gammas:
                one = predict(scenario, Workload.of(batch, context, gamma), int(gammas[-1]))
                assert one.speedup == pytest.approx(grid.speedup[b, c, gamma], rel=1e-12)
                assert int(one.gamma_optimal) == grid.gamma_optimal[b, c, gamma]
                if gamma:
                    alone = speedups(scenario, batch, context, np.array([gamma]))[..., 0]
                    assert alone == pytest.approx(float(one.speedup))


@pytest.mark.parametrize("word", DRAFTS)
def test_the_memory_of_a_draft_is_counted(word: str) -> None:
    scenario, _ = asked_of(word)
    draft_bytes = scenario.draft.own_weight_bytes(scenario.draft_shard)
    assert (draft_bytes == 0) is scenario.draft.shares_weights
    a = whatif("llama-3.1-8b", "h100-sxm-80gb", 8, 4096, 2, draft=DRAFTS[word], alpha=0.7).as_dict()
    assert a["memory"]["draft_weight_bytes"] == draft_bytes
    assert a["draft_setup_s"] >= 0


ASKED = {"model": "llama-3.1-8b", "hardware": "h100-sxm-80gb"}


@pytest.mark.parametrize("word", DRAFTS)
def test_every_verb_answers_about_a_draft(word: str) -> None:
    draft = DRAFTS[word]
    at = {**ASKED, "draft": DRAFTS[word], "rate": "0.7"}
    assert schedule(**at, context=8192, max_batch=4).as_dict()["tables"]
    served = traffic(**at, input_len=1024, output_len=128, max_concurrency="1,4", gamma=2).as_dict()
    assert [row["concurrency"] for row in served["rows"] if row["gamma"]] == [1, 4]
    advice = advise(**ASKED, context=8192, batch="1,4", rate={draft: 0.7}, any_draft=True).as_dict()
    assert advice["candidates"] > 1
    assert advice["skipped"] == []


def test_a_named_kv_method_is_searched_only_for_drafts_that_read_a_cache() -> None:
    """And a draft kind without a measured acceptance is skipped, not refused."""
    skipped = advise(**ASKED, context=8192, batch="1,4", draft_kv="quest:1024").as_dict()["skipped"]
    for word, kind in kinds().items():
        methods = [row["draft_kv"].partition(":")[0] for row in skipped if row["draft"] == word]
        assert set(methods) <= {"quest" if kind.reads_cache else "full"}, word
