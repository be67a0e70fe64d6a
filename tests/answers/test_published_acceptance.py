"""What an acceptance from the library of published results says about its context, its head and its text."""

import csv
import math
from statistics import fmean

import pytest

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.question import Query, published_head, resolve_costs
from perfmodel.answers.question.acceptance_of import published_acceptance
from perfmodel.reading import data_folder
from perfmodel.specs import acceptance_library
from perfmodel.specs.acceptance.acceptance_library import SHORT_TOKENS
from perfmodel.specs.acceptance.acceptance_rows import CONTEXT_DRIFT, HEAD_DRIFT
from perfmodel.speculation import Acceptance, interval_of

TARGET = "gpt-oss-20b"
HEAD = "RedHatAI/gpt-oss-20b-speculator.eagle3"


@pytest.fixture(scope="module")
def eagle3():
    return resolve_costs(Query(TARGET, "h100", 1, 4096, draft="eagle3")).draft


@pytest.mark.parametrize(("context", "doublings"), [(1, 0), (4096, 0), (8192, 1), (65_536, 4)])
def test_the_interval_widens_beyond_short_contexts(eagle3, context, doublings) -> None:
    found = published_acceptance(TARGET, eagle3, context)
    printed = acceptance_library().find(TARGET, "eagle3").spread
    assert found.measured_context == SHORT_TOKENS == 4096
    assert found.spread == pytest.approx(math.hypot(printed, HEAD_DRIFT * math.sqrt(doublings)))
    assert " text at short contexts: " in found.source


def test_layers_trained_with_the_target_keep_their_acceptance_better_than_heads() -> None:
    layer = resolve_costs(Query("deepseek-r1", "h200", 1, 4096, draft="mtp", tp=8)).draft
    printed = acceptance_library().find("deepseek-r1", "mtp").spread
    found = published_acceptance("deepseek-r1", layer, 65_536)
    assert found.spread == pytest.approx(math.hypot(printed, CONTEXT_DRIFT * 2))


def test_the_interval_of_a_head_covers_its_published_runs_at_long_contexts() -> None:
    """Kimi-K2.5 with EAGLE-3 and three drafted tokens at 17K to 132K tokens (rtx6kpro)."""
    head = resolve_costs(Query("kimi-k2.5", "b200", 1, 4096, draft="eagle3", tp=8)).draft
    runs: dict[float, list[float]] = {}
    with (data_folder("results") / "published" / "public_runs.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        if (row["model"], row["draft"]) == ("kimi-k2.5", "eagle3") and float(row["context_tokens"]) > 4096:
            runs.setdefault(float(row["context_tokens"]), []).append(float(row["tokens_per_iteration"]))
    assert len(runs) == 4
    for context, tokens in runs.items():
        found = published_acceptance("kimi-k2.5", head, context)
        low, high = interval_of(float(found.tokens_per_iteration(3)), float(found.log_spread(3)))
        assert low < fmean(tokens) < high, context


def test_the_head_is_that_of_the_publication_and_not_of_its_words(eagle3) -> None:
    found = published_acceptance(TARGET, eagle3, 4096)
    assert found.head == HEAD
    assert published_head(TARGET, eagle3, found) == HEAD
    assert published_head(TARGET, eagle3, found.extended(99, 0.5)) == HEAD
    assert published_head("qwen3-8b", eagle3, found) is None
    assert published_head(TARGET, eagle3, Acceptance.from_alpha(0.5, f"{HEAD}, my own counters")) is None


def test_a_source_says_how_its_text_was_selected(eagle3) -> None:
    selects = "(--task selects other text)"
    assert selects in published_acceptance(TARGET, eagle3, 4096).source
    assert selects not in published_acceptance(TARGET, eagle3, 4096, "chat").source


def test_a_model_with_one_published_acceptance_is_decided_by_it() -> None:
    """Of Llama-4 Maverick, one figure is known: 2.9 tokens per iteration with three drafted."""
    answer = advise("llama-4-maverick", "8xh200", weights="fp8", batch=(8,), context=1024)
    assert answer.verdict in ("speculate", "likely_speculate")
    assert answer.chosen.draft == "eagle3"
    assert "nvidia/Llama-4-Maverick-17B-128E-Eagle3" in answer.serve.lines["vllm"]
    assert "NVIDIA/TensorRT-LLM#5146" in answer.chosen.acceptance_source
