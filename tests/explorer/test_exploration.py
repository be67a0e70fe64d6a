"""The question of the explorer: its axes, its degrees and what a page with sliders cannot show."""

from pathlib import Path

import pytest

from perfmodel import cli
from perfmodel.explorer.exploration import SPARSE, Exploration
from perfmodel.explorer.page import payload
from tests.refusals import refused


def test_batches_and_contexts_are_distinct_and_rise() -> None:
    question = Exploration("llama-3.1-8b", "h100", batch="8,1,8", context="2k,1k", draft_kv="full")
    assert question.axis("batch") == (1, 8)
    assert question.axis("context") == (1024, 2048)
    assert question.points == 4


def test_without_room_a_model_has_the_most_devices_that_divide_it() -> None:
    """44 GB fill four cards of 8 GB, and 20 heads are not divided by eight."""
    question = Exploration("ernie-4.5-21b-a3b", "rtx-4060-8gb", batch="1", context="1k", draft_kv="full")
    assert [group.axis("tp") for group in question.groups()] == [(4,)]


def test_the_weights_of_the_smallest_degree_fill_at_most_half_of_the_memory() -> None:
    """The weights of 44 GB fill 55 % of an H100 and 31 % of an H200."""
    question = Exploration("ernie-4.5-21b-a3b", "h100,h200", batch="1", context="1k", draft_kv="full")
    assert [group.axis("tp") for group in question.groups()] == [(2,), (1,)]


@pytest.mark.parametrize(
    ("draft", "views"),
    [
        (None, ("streamingllm:512", "snapkv:2k", "quest:1k")),
        ("self", ("streamingllm:512", "snapkv:2k", "quest:1k")),
        ("ngram", ("full",)),
        ("llama-3.2-1b", ("full",)),
    ],
)
def test_only_a_self_draft_has_a_sparse_cache_by_default(draft: str | None, views: tuple[str, ...]) -> None:
    assert Exploration("llama-3.1-8b", "h100", draft=draft).axis("draft_kv") == views
    assert Exploration("llama-3.1-8b", "h100", draft=draft, draft_kv="full").axis("draft_kv") == ("full",)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"alpha": "0.7,0.8"}, "alpha: must be one value, the start of its slider, given 2"),
        ({"gamma": "1,2"}, "gamma: must be one value, the start of its slider, given 2"),
        ({"acceptance": "0.7,0.6"}, "acceptance: the page has a slider for acceptance"),
        ({"tokens_per_iteration": "2"}, "tokens_per_iteration: the page has a slider for acceptance"),
        ({"drafts": "foo"}, "drafts: no draft named 'foo'"),
    ],
)
def test_what_a_page_with_sliders_cannot_show_is_refused(given: dict[str, str], words: str) -> None:
    refused(words, Exploration, "llama-3.1-8b", "h100", **given)


def test_a_warning_about_the_draft_names_it() -> None:
    question = Exploration(
        "llama-3.1-8b", "h100", batch="1", context="2k", draft_kv="streamingllm:512,snapkv:4k"
    )
    no_engine, budget = question.doubts()
    assert no_engine.startswith("this engine cannot run the draft streamingllm:512, snapkv:4k: no engine yet")
    assert budget.endswith("the draft snapkv:4k reads the full cache")


def test_the_command_prints_the_warnings_and_then_the_page(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    point = "-m llama-3.1-8b --hardware h100 -b 1 -c 2k --draft-kv streamingllm:512,snapkv:4k"
    assert cli.run(["explore", *point.split(), "-o", str(page)]) == 0
    no_engine, budget, written = capsys.readouterr().err.splitlines()
    assert no_engine.startswith("warning: this engine cannot run the draft streamingllm:512, snapkv:4k")
    assert budget == (
        "warning: KV budget 4096 is not below the context: the draft snapkv:4k reads the full cache"
    )
    assert written == f"4 surfaces, {page.stat().st_size / 1000:.1f} kB, in {page}"


def test_a_self_draft_in_any_spelling_is_named_by_its_method() -> None:
    def methods_of(draft: str) -> list[str]:
        question = Exploration(
            "llama-3.1-8b", "h100", batch="1", context="1k", tp=1, drafts="none", draft=draft
        )
        return [case["method"] for case in payload(question)["cases"]]

    assert methods_of(" Self ") == methods_of("self") == list(SPARSE)
