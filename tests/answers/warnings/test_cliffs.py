"""Cliffs: where one more sequence or token takes much longer, and where a padded batch is noted."""

import re

import pytest

from perfmodel.answers.point.warnings.cliffs import CLIFF, Smaller, cliffs, climb
from perfmodel.answers.question import Query, resolve
from perfmodel.answers.text import Note
from perfmodel.speculation import Scenario

CONTEXT = 128.0


def server(model: str, hardware: str, engine: str, draft: str = "ngram", **more: str) -> Scenario:
    """A server whose passes are short, so that the size of a batch matters."""
    return resolve(Query(model, hardware, 1, 128, 3, engine=engine, draft=draft, alpha=0.6, **more))


def padding(batch: int, graph: int) -> str:
    """The note about a padded batch."""
    return f"CUDA graphs pad batch {batch} to {graph}: up to {graph} sequences take the same time"


def test_a_pass_is_on_a_cliff_if_it_takes_longer_than_in_proportion() -> None:
    """4 of 3 sequences may take 4/3 of the time, 1.1 times as long is always allowed."""
    assert climb(4 / 3, Smaller(1.0, 4.0)) == 0.0
    assert climb(1.34, Smaller(1.0, 4.0)) == pytest.approx(0.34)
    assert climb(CLIFF, Smaller(1.0, 100.0)) == 0.0
    assert climb(3.0, Smaller(1.0, 2.0)) == 2.0


def test_the_largest_climb_counts() -> None:
    assert climb(1.12, Smaller(1.0, 100.0), Smaller(1.06, 100.0)) == pytest.approx(0.12)
    assert climb(1.3, Smaller(1.1, 100.0), Smaller(1.0, 100.0)) == pytest.approx(0.3)


def test_one_sequence_and_a_pass_without_a_time_have_no_smaller_one() -> None:
    assert climb(9.0, Smaller(1.0, 1.0)) == 0.0
    assert climb(9.0, Smaller(0.0, 4.0)) == 0.0


@pytest.mark.parametrize(
    ("batch", "notes"), [(4, []), (5, [padding(5, 8)]), (7, []), (257, [padding(257, 264)]), (258, [])]
)
def test_a_padded_batch_is_noted_if_it_is_much_padded_or_begins_a_cliff(batch: int, notes: list[str]) -> None:
    """SGLang captures graphs for 4, 8 and 264 sequences."""
    found = [*cliffs(server("llama-3.1-8b", "rtx-4090", "sglang"), float(batch), CONTEXT, 0)]
    assert found == notes
    assert all(isinstance(note, Note) for note in found)


def test_a_padded_batch_is_noted_if_only_its_draft_is_on_a_cliff() -> None:
    """The experts of the target hide what the draft's one layer takes for 129 sequences."""
    moe = server("gpt-oss-20b", "a100-sxm-80gb", "sglang", draft="eagle3")
    assert padding(129, 136) in cliffs(moe, 129.0, CONTEXT, 3)
    assert not [*cliffs(moe, 129.0, CONTEXT, 0)], "a baseline does not draft"


def test_decoding_on_a_cliff_without_graphs_is_a_warning() -> None:
    """llama.cpp pads nothing, so each sequence more takes its own time."""
    apple = server("qwen3-8b", "m3-ultra", "llamacpp", weights="q4_k_m")
    (warning,) = cliffs(apple, 4.0, CONTEXT, 0)
    three_s, four_s = (float(apple.target_pass_s(batch, CONTEXT)) for batch in (3.0, 4.0))
    assert warning == f"decoding 4 sequences takes {four_s / three_s - 1:.0%} longer than with one fewer"
    assert not isinstance(warning, Note)


def test_drafting_on_a_cliff_without_graphs_is_a_warning() -> None:
    """The kernel of mlx-dspark for up to 16 rows ends, which the target's reads of the cache hide."""
    apple = server("qwen3-0.6b", "m4-max", "mlx-dspark", draft="mtp:modules=1")
    (warning,) = cliffs(apple, 17.0, 8192.0, 1)
    fewer_s, here_s = (float(apple.draft_pass_s(batch, 8192.0)) for batch in (16.0, 17.0))
    assert warning == f"drafting for 17 sequences takes {here_s / fewer_s - 1:.0%} longer than with one fewer"


def test_verifying_on_a_cliff_says_the_size_of_its_graph() -> None:
    """vLLM captures graphs for 8, 16 and 24 tokens: 5 sequences verify 10 tokens, 4 verify 8."""
    moe = server("qwen3-30b-a3b", "h100", "vllm", draft="eagle3")
    padded, longer = cliffs(moe, 5.0, CONTEXT, 1)
    assert padded == padding(5, 8)
    words = r"verifying 10 tokens \(CUDA graphs: 16\) takes \d+% longer than with one sequence or token fewer"
    assert re.fullmatch(words, longer)
    assert not isinstance(longer, Note)


def test_a_verification_is_compared_with_one_token_less() -> None:
    """llama.cpp has no graphs whose size could be said."""
    apple = server("qwen3-8b", "m3-ultra", "llamacpp", weights="q4_k_m")
    (warning,) = cliffs(apple, 1.0, CONTEXT, 3)
    three_s, four_s = (float(apple.target_pass_s(1.0, CONTEXT, tokens)) for tokens in (3.0, 4.0))
    longer = f"{four_s / three_s - 1:.0%} longer"
    assert warning == f"verifying 4 tokens takes {longer} than with one sequence or token fewer"
