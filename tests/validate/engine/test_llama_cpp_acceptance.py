"""Acceptance from llama.cpp's counts: its server's timings, and the lines of its log."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfmodel.specs.acceptance.acceptance_rows import AcceptanceRow
from perfmodel.validate.engine.acceptance import draft_length, import_file
from tests.refusals import refused
from tests.validate.engine.figures import subject


def timings(iterations: int, drafted: int, accepted: int, **more: int) -> dict[str, Any]:
    """What the server says of an answer: a first token, then one of each iteration and the accepted ones."""
    counts = {"predicted_n": 1 + iterations + accepted, "draft_n": drafted, "draft_n_accepted": accepted}
    return {"timings": counts | more}


def alpha_of(path: Path, *answers: dict[str, Any]) -> float:
    """The rate at drafts of three."""
    path.write_text("\n".join(map(json.dumps, answers)))
    return import_file(path, None, subject(3)).rows[0].alpha


def test_counts_of_all_answers_are_added(tmp_path: Path) -> None:
    """100 iterations that accept 75 tokens: 1.75 tokens each, at drafts of three a rate of 0.4642."""
    answers = timings(40, 120, 50), timings(60, 180, 25)
    alpha = alpha_of(tmp_path / "a", *answers)
    assert alpha + alpha**2 + alpha**3 == pytest.approx(0.75)
    bare = [answer["timings"] for answer in answers]
    assert alpha_of(tmp_path / "a", *bare) == alpha, "also without their envelope"


@pytest.mark.parametrize("drafted", [277, 300, 323])
def test_a_mean_draft_may_lack_or_exceed_a_few_tokens_at_the_ends_of_answers(
    tmp_path: Path, drafted: int
) -> None:
    assert alpha_of(tmp_path / "a", timings(100, drafted, 100)) == pytest.approx(0.5437, abs=1e-4)


@pytest.mark.parametrize(
    ("drafted", "length"), [(277, 3), (323, 3), (800, 8), (840, 8), (860, 9), (1590, 16)]
)
def test_the_mean_draft_of_a_log_shows_the_draft_length_however_long_it_is(drafted: int, length: int) -> None:
    """100 iterations gain 50 accepted tokens and one token each, after the first token of the answer."""
    times = "eval time = 1000.00 ms / 151 tokens"
    assert (
        draft_length(f"{times}\ndraft acceptance rate = 0.1 ( 50 accepted / {drafted} generated)") == length
    )


@pytest.mark.parametrize(("drafted", "mean"), [(275, "2.75"), (325, "3.25"), (600, "6")])
def test_drafts_that_stop_early_or_are_longer_than_said_are_refused(
    tmp_path: Path, drafted: int, mean: str
) -> None:
    says = f"drafts of {mean} tokens on average where --gamma is 3: .* --spec-draft-p-min 0"
    refused(says, alpha_of, tmp_path / "a", timings(100, drafted, 100))


def test_an_iteration_gains_at_most_its_draft_and_one_token(tmp_path: Path) -> None:
    """All of 320 tokens in 100 iterations are right: 4.2 tokens each, of which drafts of 3 can gain 4."""
    assert alpha_of(tmp_path / "a", timings(100, 320, 320)) == 1.0


@pytest.mark.parametrize(
    "counts",
    [
        {"predicted_n": 401, "draft_n": 300, "draft_n_accepted": 301},  # more than were drafted
        {"predicted_n": 300, "draft_n": 300, "draft_n_accepted": 299},  # no iteration is left
    ],
)
def test_counts_that_contradict_each_other_are_refused(tmp_path: Path, counts: dict[str, int]) -> None:
    refused("draft_n_accepted: must be at most draft_n, and below", alpha_of, tmp_path / "a", counts)


@pytest.mark.parametrize("missing", ["predicted_n", "draft_n"])
def test_an_answer_without_a_count_is_refused(tmp_path: Path, missing: str) -> None:
    answer = timings(100, 300, 100)
    del answer["timings"][missing]
    refused("timings: must be with counts predicted_n, draft_n and", alpha_of, tmp_path / "a", answer)


def test_a_prompt_has_its_cached_tokens_too(tmp_path: Path) -> None:
    """200 tokens behind the first of prompts of 1000 and of 900 + 600: 1100 and 1600 tokens on average."""
    path = tmp_path / "a"
    answers = timings(100, 300, 100, prompt_n=1000), timings(100, 300, 100, prompt_n=900, cache_n=600)
    path.write_text("\n".join(map(json.dumps, answers)))
    (row,) = import_file(path, None, replace(subject(3), context=())).rows
    assert row.context_tokens == 1350
    assert row.context_range_tokens == (1000, 1700)


EVAL = "eval time = 1000.00 ms / {} tokens ( 5.00 ms per token)\n"
DRAFTS = "draft acceptance rate = 0.5 ( {} accepted / {} generated)\n"
BY_POSITION = (
    "draft acceptance = 0.5 ( {} accepted / {} generated), mean acceptance length = 2.0, "
    "acceptance rate per position = ({})\n"
)


def rows_of(path: Path, log: str) -> list[AcceptanceRow]:
    path.write_text(log)
    return list(import_file(path, None, subject(3)).rows)


def test_a_log_without_positions_gives_one_rate(tmp_path: Path) -> None:
    """Two requests of 100 iterations with 75 and with 125 accepted tokens; one that drafted nothing."""
    drafting = EVAL.format(176) + DRAFTS.format(75, 300) + EVAL.format(226) + DRAFTS.format(125, 300)
    (row,) = rows_of(tmp_path / "log", drafting + EVAL.format(9000) + DRAFTS.format(0, 0))
    assert row.alpha + row.alpha**2 + row.alpha**3 == pytest.approx(1.0)
    assert draft_length(drafting) == 3
    refused("nothing was drafted", rows_of, tmp_path / "log", EVAL.format(9) + DRAFTS.format(0, 0))
    refused("eval time: must stand beside", rows_of, tmp_path / "log", DRAFTS.format(75, 300))


def test_positions_of_a_log_are_added_by_the_drafts_of_their_request(tmp_path: Path) -> None:
    """60 accepted at 0.4 + 0.2 are 100 drafts, 90 at 0.9 + 0.9 are 50: 85 and 65 reach their positions."""
    log = BY_POSITION.format(60, 200, "0.4, 0.2") + BY_POSITION.format(90, 100, "0.9, 0.9")
    path = tmp_path / "log"
    path.write_text(log)
    (row,) = import_file(path, None, subject(2)).rows
    assert row.histogram == pytest.approx((65, 20, 65))
    assert draft_length(log) == 2
