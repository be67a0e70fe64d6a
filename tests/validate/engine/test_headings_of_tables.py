"""Tables and lines that people write by hand: the names of columns, and which rows and lines count."""

import pytest

from perfmodel.errors import InputError
from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused


def table(heading: str, *rows: str) -> str:
    rule = " | ".join(["---"] * len(heading.split("|")))
    return "".join(f"| {line} |\n" for line in (heading, rule, *rows))


def steps(text: str, **given: float) -> list[tuple[float, int, float, float]]:
    """Requests, draft length, tokens per iteration and milliseconds per iteration of each step."""
    timings = read_pasted("-", text, GivenFacts(input=500, **given))
    return [
        (one.batch, one.gamma, round(one.tokens_per_iteration, 3), round(one.seconds * 1e3, 3))
        for one in timings
    ]


@pytest.mark.parametrize(
    "heading",
    [
        *("concurrency", "Max concurrency", "conc", "concurrent", "concurrent requests", "concurrent users"),
        *("users", "clients", "streams", "batch", "batch size", "BS", "parallel", "parallel requests"),
    ],
)
def test_each_name_of_the_concurrent_requests(heading: str) -> None:
    """A rate that rises with them is the total, in any order of the rows."""
    text = table(f"{heading} | tok/s", "8 | 800", "1 | 100")
    assert steps(text) == [(8, 0, 1, 10), (1, 0, 1, 10)]


@pytest.mark.parametrize(
    ("heading", "milliseconds"),
    [
        *(
            (name, 20)
            for name in ("tok/s each", "tok/s/user", "tok/s/req", "tok/s per stream", "t/s per-client")
        ),
        *((name, 160) for name in ("total tok/s", "throughput (tok/s)", "tok/s combined", "overall tok/s")),
    ],
)
def test_each_word_that_says_whose_rate_it_is(heading: str, milliseconds: float) -> None:
    assert steps(table(f"users | {heading}", "8 | 50")) == [(8, 0, 1, milliseconds)]


def test_among_several_rates_the_one_that_says_whose_it_is() -> None:
    text = table("users | tok/s | total tok/s", "1 | 90 | 100", "8 | 70 | 400")
    assert steps(text) == [(1, 0, 1, 10), (8, 0, 1, 20)]


def test_one_request_has_the_rate_of_all_and_of_each() -> None:
    assert steps(table("users | tok/s", "1 | 100")) == [(1, 0, 1, 10)]
    refused("must say whether it is of all requests or of one", steps, table("users | tok/s", "8 | 100"))


def test_a_column_of_prompts_is_no_speed() -> None:
    by_users = table("users | prompt tok/s | total tok/s", "1 | 900 | 100")
    assert steps(by_users) == [(1, 0, 1, 10)]
    by_length = table("n | prefill tok/s | tok/s", "0 | 900 | 100")
    assert steps(by_length) == [(1, 0, 1, 10)]


def test_an_acceptance_in_the_name_of_a_speed_is_no_column_of_acceptance() -> None:
    users = table("users | tok/s with MTP n=2 (acceptance 0.8) | tok/s", "1 | 200 | 100")
    assert steps(users, accepted=2.0) == [(1, 0, 1, 10), (1, 2, 2, 10)]
    lengths = table("n | tok/s (acc: right) | acc", "2 | 130 | 0.8")
    assert steps(lengths) == [(1, 2, 2.6, 20)]


def test_only_words_around_a_table_that_state_an_acceptance_give_all_rows_a_draft() -> None:
    rows = table("users | total tok/s", "1 | 100")
    assert steps(f"MTP n=3 comes later.\n{rows}") == [(1, 0, 1, 10)]
    assert steps(f"MTP n=3, accept length 2\n{rows}") == [(1, 3, 2, 20)]
    in_a_row = table("users | total tok/s | notes", "1 | 100 | MTP n=3, accept length 2", "8 | 400 |")
    assert steps(in_a_row) == [(1, 0, 1, 10), (8, 0, 1, 20)]


@pytest.mark.parametrize(
    "heading",
    [
        *("n", "k", "gamma", "n-max", "draft n_max", "--spec-draft-n-max", "num_speculative_tokens", "MTP"),
        *("draft length", "draft tokens", "eagle3 k", "nextn", "spec n", "config", "Settings", "mode", "run"),
    ],
)
def test_each_name_of_the_draft_lengths(heading: str) -> None:
    text = table(f"{heading} | tok/s | acc", "off | 100 | -", "n=2 | 130 | 0.8")
    assert steps(text) == [(1, 0, 1, 10), (1, 2, 2.6, 20)]


@pytest.mark.parametrize(
    "cell",
    [
        "off",
        "none",
        "no MTP",
        "without",
        "without a draft",
        "Baseline",
        "plain",
        "vanilla",
        "-",
        "–",
        "—",
        "0",
    ],
)
@pytest.mark.parametrize("heading", ["n-max", "config"])
def test_each_word_for_a_row_without_a_draft(heading: str, cell: str) -> None:
    text = table(f"{heading} | tok/s | acc", f"{cell} | 100 | -", "n=2 | 130 | 0.8")
    assert steps(text) == [(1, 0, 1, 10), (1, 2, 2.6, 20)]


@pytest.mark.parametrize("cells", [("tokens=16", "tokens=32"), ("baseline", "vanilla"), ("baseline", "fp8")])
def test_configurations_without_a_baseline_or_a_draft_length_are_no_steps(cells: tuple[str, str]) -> None:
    text = table("config | tok/s", *(f"{cell} | 50" for cell in cells))
    with pytest.raises(InputError, match="no benchmark known here"):
        steps(text)


LINES = "n=2: 130 t/s (accept 0.8)\nn=4: 130 t/s (accept 0.4)\n"
READ = [(1, 2, 2.6, 20), (1, 4, 2.6, 20)]


@pytest.mark.parametrize("baseline", ["no draft: 100 t/s", "100 t/s without a draft", "n=0: 100 t/s"])
def test_a_line_without_a_draft_beside_lines_of_draft_lengths(baseline: str) -> None:
    assert steps(f"{LINES}{baseline}") == [*READ, (1, 0, 1, 10)]


@pytest.mark.parametrize(
    "line",
    [
        *("| no draft | 100 t/s |", "no draft: prompt 900 t/s", "no draft: 100 t/s, then 90 t/s"),
        *("no draft: loaded in 100 ms", "with vision: 100 t/s", "draft 0.6B: 100 t/s", "MTP draft: 59.5 t/s"),
    ],
)
def test_lines_that_are_no_steps_beside_lines_of_draft_lengths(line: str) -> None:
    assert steps(f"{LINES}{line}") == READ


def test_two_lines_of_one_draft_length_are_of_other_settings() -> None:
    with pytest.raises(InputError, match="no benchmark known here"):
        steps(f"{LINES}n=4: 60 t/s (accept 0.5)")


def test_lines_of_draft_lengths_may_state_times_and_requests() -> None:
    text = "8 users\nn=2: TPOT 10 ms, accept length 2\nk 3: 20 ms/token (greedy, seed 7), accept length 3"
    assert steps(text) == [(8, 2, 2, 20), (8, 3, 3, 60)]
    of_all = "8 users\nn=2: 800 t/s, accept length 2\nn=3: 400 t/s, accept length 3"
    assert steps(of_all) == [(8, 2, 2, 20), (8, 3, 3, 60)]
    refused("TPOT: must be above 0", steps, text.replace("10 ms", "0 ms"))
