"""Which number of a pasted text counts where the user states one too, and where the text states several."""

import pytest

from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused
from tests.validate.engine.pasting import sample

INPUT = {"input": 1024}


@pytest.mark.parametrize(
    ("name", "change", "given", "batches"),
    [
        # the user, who knows what a table of all runs does not say
        ("metric_table", ("", ""), {"batch": 4, **INPUT}, [4, 4]),
        ("genai_perf", ("", ""), {"batch": 4}, [4]),
        ("trtllm_bench", ("", ""), {"batch": 2}, [2]),
        ("llama_server_log", ("", ""), {"batch": 4}, [4]),
        ("llama_metrics", ("", ""), {"batch": 4, **INPUT}, [4]),
        ("ollama", ("", ""), {"batch": 4}, [4]),
        ("mtp_bench", ("", ""), {"batch": 4, **INPUT}, [4, 4]),
        ("mlx_lm", ("", ""), {"batch": 4}, [4]),
        ("lm_studio", ("", ""), {"batch": 4}, [4]),
        # the heading of a column, which is of its own run
        ("metric_table", ("Baseline", "Baseline c=1"), {"batch": 4, **INPUT}, [1, 4]),
    ],
)
def test_whose_number_of_requests_counts(name, change, given, batches) -> None:
    steps = read_pasted("-", sample(name).replace(*change), GivenFacts(**given))
    assert [step.batch for step in steps] == batches


@pytest.mark.parametrize(
    ("name", "given", "context"),
    [
        ("trtllm_bench", {"input": 100, "output": 10}, 105),
        ("genai_perf", {"input": 100, "output": 10}, 1024 + 128),
        ("llama_server_log", {"input": 100}, 1520 + 253 / 2),
        ("llama_speculative", {"input": 100}, 12 + 128),
        ("ollama", {"output": 10}, 812 + 320),
        ("sglang_one_batch", {"input": 100}, 1024.5),
        ("sglang_one_batch_server", {"input": 100, "output": 10, "gamma": 3}, 1024 + 128),
        ("sglang_send_one", {"input": 100, "output": 10, "gamma": 3}, 100 + 128),
    ],
)
def test_whose_lengths_count(name, given, context) -> None:
    assert read_pasted("-", sample(name), GivenFacts(**given))[0].context == context


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("llama_server_log", {"gamma": 5}, "-: gamma: must be 3, the draft length in the file, given 5"),
    ],
)
def test_another_draft_length_than_that_of_the_text_is_refused(name, given, says) -> None:
    refused(says, read_pasted, "-", sample(name), GivenFacts(**given))


@pytest.mark.parametrize(
    ("name", "given"), [("llama_speculative", {}), ("mtp_bench", INPUT), ("lm_studio", INPUT)]
)
def test_a_draft_length_that_the_text_only_implies_may_be_stated(name, given) -> None:
    text = sample(name)
    if name == "lm_studio":
        text += "  Total Draft Tokens: 120\n  Accepted Draft Tokens: 69\n"
    steps = read_pasted("-", text, GivenFacts(gamma=7, **given))
    assert {step.gamma for step in steps} == {7}


def test_a_median_counts_before_a_mean() -> None:
    both = sample("genai_perf").replace(" p75 ", " p50 ")
    (timing,) = read_pasted("-", both, GivenFacts())
    assert timing.seconds == pytest.approx(0.0125)


def test_the_acceptance_of_a_column_may_stand_in_its_heading() -> None:
    table = sample("metric_table").replace("| Accept length | - | 2.1 | |\n", "")
    table = table.replace("EAGLE3 (n=3)", "EAGLE3 (n=3, accept length 1.9)").replace("12.10", "1,210.0 ms")
    _, drafting = read_pasted("-", table, GivenFacts(**INPUT))
    assert (drafting.gamma, drafting.tokens_per_iteration) == (3, 1.9)
    assert drafting.tpot_s == pytest.approx(1.21)
