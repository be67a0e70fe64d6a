"""The explorer: its page holds the engine's numbers, and is whole in one file."""

import re
from pathlib import Path
from typing import Any

import pytest

from perfmodel import cli
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import resolve
from perfmodel.explorer import page as explore
from perfmodel.speculation import Workload, predict
from tests.explorer.small import ROUNDING, of_pass, payload_of, queries, value, written


def test_every_time_is_the_engines(content: dict[str, Any]) -> None:
    for case in content["cases"][::3]:
        for place, query in list(queries(content, case))[::4]:
            alone = whatif(query).as_dict()
            gamma = place[2]
            for name, theirs, at in (
                ("target", "target_step", (*place[:2], 0)),
                ("target", "verify_step", place),
                ("draft_step", "draft_step", place),
            ):
                for term, expected_s in of_pass(alone[theirs]).items():
                    shown = value(content, case[name][term], *at)
                    assert shown == pytest.approx(expected_s, rel=ROUNDING), (query, name, term)
            if gamma:
                assert value(content, case["overhead_s"], *place) == pytest.approx(
                    alone["overhead_s"], rel=ROUNDING
                )
                drafted = predict(resolve(query), Workload.of(query.batch, query.context, gamma)).draft_s
                passes = case["draft_passes"][gamma]
                assert passes * alone["draft_step"]["predicted_s"] == pytest.approx(gamma * float(drafted))
            assert (query.batch <= value(content, case["max_batch"], *place)) == alone["memory"]["fits"]
            assert case["inflection_context"][gamma] == (
                alone["inflection"]["inflection_context"] if gamma else 1
            )
            assert case["calibration"] | alone["calibration"] == case["calibration"]


def test_the_page_is_one_file_that_asks_for_nothing(tmp_path: Path) -> None:
    text = written(tmp_path / "one.html")
    assert "://" not in text
    fetched = r"<link|\bsrc\s*=|\bhref\s*=|@import|url\((?!#)|\bfetch\(|XMLHttpRequest|WebSocket|import\("
    assert not re.search(fetched, text)
    assert "default-src 'none'" in text
    assert not re.search(r"/\* \w+\.(css|js|json) \*/", text)  # every part has taken its place
    assert text == written(tmp_path / "again.html")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["again.html", "one.html"]


def test_what_is_named_cannot_end_the_payload() -> None:
    content = {"model": "</script><b>"}
    text = explore.page(content)
    assert payload_of(text) == content
    assert text.count("</script") == explore.page({}).count("</script")


@pytest.mark.parametrize(
    ("given", "drafts"),
    [
        ({}, ["eagle3", "ngram", "streamingllm:512", "snapkv:2k", "quest:1k"]),
        ({"draft": "ngram"}, ["ngram", "eagle3"]),
        ({"draft": "suffix"}, ["suffix", "eagle3", "ngram"]),
        ({"draft": "self", "draft_kv": "quest:1k"}, ["quest:1k", "eagle3", "ngram"]),
        ({"draft_kv": "quest:1k"}, ["quest:1k", "eagle3", "ngram"]),
        (
            {"draft": "eagle3", "draft_kv": "full,streamingllm:512"},
            ["eagle3", "eagle3, streamingllm:512", "ngram"],
        ),
    ],
)
def test_a_stated_draft_comes_first_and_once(given: dict[str, str], drafts: list[str]) -> None:
    grid = explore.Exploration("llama-3.1-8b", "h100", batch="1,8", context="1k,8k", max_gamma=2, **given)
    assert [case["method"] for case in explore.payload(grid)["cases"]] == drafts


def test_a_draft_that_runs_no_model_has_no_draft_step(capsys: pytest.CaptureFixture[str]) -> None:
    question = ["--batch", "256", "--context", "1k", "--gamma", "3", "--alpha", "0.6", "--draft", "ngram"]
    llama = ["--model", "llama-3.1-8b", "--hardware", "h100"]
    assert cli.run(["whatif", *llama, *question, "--verbose"]) == 0
    printed = capsys.readouterr().out
    assert "verification " in printed
    assert "draft step" not in printed
    assert "draft/target 0.00" in printed
    answer = whatif("llama-3.1-8b", "h100", 256, 1024, 3, draft="ngram", alpha=0.6)
    assert answer.draft_step.predicted_s == answer.draft_step.fixed_s == 0.0


def test_without_tp_a_model_has_the_fewest_devices_that_leave_room_for_a_batch() -> None:
    """16 GB fit one H100 of 80 GB; 141 GB fill less than half of four, and of two MI300X of 192 GB."""
    small: dict[str, Any] = {"batch": "1,64", "context": "1k,8k", "draft_kv": "streamingllm:512"}
    grid = explore.Exploration("llama-3.1-8b,llama-3.1-70b", "h100,mi300x", **small)
    degrees = {(case["model"], case["hardware"]): case["tp"] for case in explore.payload(grid)["cases"]}
    assert degrees == {
        ("llama-3.1-8b", "h100-sxm-80gb"): 1,
        ("llama-3.1-8b", "mi300x-192gb"): 1,
        ("llama-3.1-70b", "h100-sxm-80gb"): 4,
        ("llama-3.1-70b", "mi300x-192gb"): 2,
    }
