"""The library of published acceptance: what every row must hold, and how a question finds its figures."""

import math
from dataclasses import replace
from statistics import stdev

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query, resolve
from perfmodel.answers.question.acceptance_of import published_acceptance
from perfmodel.answers.question.arguments import TASKS
from perfmodel.errors import InputError
from perfmodel.specs import acceptance_library, load_model, short_name
from perfmodel.specs.acceptance.acceptance_library import AcceptanceLibrary, LibraryEntry
from perfmodel.specs.acceptance.library_row import LibraryRow


def test_every_row_is_possible_and_has_a_source() -> None:
    seen = set()
    for row in acceptance_library().rows:
        assert list(row.tokens) == sorted(set(row.tokens))
        assert all(1 < tokens <= length + 1 for length, tokens in row.tokens.items()), row
        if row.survival:
            assert list(row.survival) == sorted(row.survival, reverse=True)
            assert 1 + sum(row.survival) == pytest.approx(row.tokens[len(row.survival)], rel=0.05)
        assert row.task in TASKS
        assert row.figures >= 1
        assert len(row.source) > 8
        key = (row.target, row.draft, row.head, row.task, row.thinking)
        assert key not in seen
        seen.add(key)
    assert len({row.target for row in acceptance_library().rows}) >= 45


def test_a_checkpoint_is_found_by_its_own_name_and_not_by_its_shape() -> None:
    assert short_name("meta-llama/Llama-3.3-70B-Instruct") == short_name("llama-3.3-70b") == "llama-3.3-70b"
    assert short_name("Qwen/Qwen3-30B-A3B-Instruct-2507") == "qwen3-30b-a3b-2507"
    assert short_name("llama-3.1-8b") == "llama-3.1-8b"
    assert load_model("llama-3.3-70b").name == "llama-3.1-70b"
    assert acceptance_library().find("llama-3.1-70b", "eagle3") is None


def row(
    target: str, draft: str, task: str, tokens: str, spread: float | None = None, **more: str
) -> LibraryRow:
    lengths = "/".join(str(k + 1) for k in range(len(tokens.split("/"))))
    stated = {"head": "", "thinking": "", "positions": "", "drafted": lengths, "source": "a page"} | more
    return LibraryRow(
        target=target,
        draft=draft,
        task=task,
        tokens_per_iteration=tokens,
        spread=spread,
        figures=1,
        temperature="0",
        engine="vllm",
        **stated,
    )


ROWS = (
    row("a", "eagle3", "chat", "1.8/2.4/2.8", 0.1, thinking="on"),
    row("a", "eagle3", "chat", "1.9/2.5", 0.3, source="a page; another"),
    row("a", "eagle3", "code", "1.5/2.0/4.0", 0.0),
    row("a", "eagle3", "math", "2.0"),
    row("a", "eagle3", "chat", "1.1", 0.7, head="other"),
    row("b", "mtp", "code", "1.9/2.0", 0.5, positions="0.9/0.45"),
    row("b", "mtp", "mixed", "1.5", positions="0.5"),
    row("b-2", "mtp", "summary", "1.4"),
    row("c", "ngram", "chat", "1.2/1.3/1.31"),
    row("a-0528", "mtp", "chat", "1.4"),
)


def test_a_kind_with_eight_published_ratios_has_its_own_decay() -> None:
    """Acceptance stays at 0.5 in five rows. In the others it is 0.8, 0.5 and 0.25, with ratios of 5/8 and
    1/2.
    """
    steady = [row(f"a{i}", "mtp", "chat", "1.5/1.75/1.875") for i in range(5)]
    falling = [row(f"b{i}", "eagle3", "chat", "1.8/2.2/2.3") for i in range(4)]
    four = AcceptanceLibrary([*steady, *falling]).typical
    three = AcceptanceLibrary([*steady, *falling[:3]]).typical
    assert four.decay("eagle3") == pytest.approx((5 / 8 + 1 / 2) / 2)
    assert three.decay("eagle3") == pytest.approx(1.0)


def test_spreads_and_decay_of_a_small_library_by_hand() -> None:
    """Acceptance 0.8, 0.75, 2/3 of the first row decays by 15/16 and 8/9, 0.5, 1, 4 of the third by 2 and 4;
    0.9 and 0.5 of one printed by position by 5/9. Of the tasks of a head those of `a` alone are three.
    """
    by_hand = AcceptanceLibrary(ROWS, enough_ratios=1)
    typical = by_hand.typical
    decays = {"": 15 / 16, "mtp": 5 / 9, "ngram": 15 / 16}
    for draft, decay in decays.items():
        assert typical.decay(draft) == pytest.approx(decay, rel=1e-12)
    assert typical.first_rates("mtp") == pytest.approx([0.4, 0.4, 0.5, 0.9])
    logs = [math.log(2.5), math.log(4.0), math.log(2.0)]  # chat's later row, code, math
    assert typical.spread_of_data_sets == 0.4
    assert typical.spread_of_tasks == pytest.approx(stdev(logs), rel=1e-12)
    chat = by_hand.find("a", "eagle3")
    code = by_hand.find("a", "eagle3", "code")
    math_text = by_hand.find("a", "eagle3", "math")
    other = by_hand.find("b", "mtp", "chat")
    both = [math.log(2.5), math.log(2.0)]  # chat and code at 2 tokens, chat's longest
    assert chat.spread == pytest.approx(math.sqrt((stdev(both) ** 2 + stdev(logs) ** 2) / 2), rel=1e-12)
    assert chat.printed == pytest.approx({1: 1.85, 2: 2.45}, rel=1e-12)
    expected = chat.printed | {3: 1 + 1.8 * 1.45 / 1.4}
    assert chat.tokens == pytest.approx(expected, rel=1e-12)
    assert chat.survival == ()
    assert chat.source == (
        "chat, thinking on and chat text at short contexts: a page; another; "
        "beyond 2 drafted as a, chat text: a page"
    )
    assert code.spread == 0.0
    assert code.tokens == {1: 1.5, 2: 2.0, 3: 4.0}
    assert math_text.spread == 0.4  # that of no row is known
    assert [r.task for r in other.rows] == ["mixed"]
    assert other.survival == (0.5,)
    both = [math.log(1.9), math.log(1.5)]  # code and mixed at 1
    assert other.spread == pytest.approx(math.sqrt((stdev(both) ** 2 + stdev(logs) ** 2) / 2), rel=1e-12)
    alone = by_hand.find("b-2", "mtp", "chat")
    assert alone.spread == pytest.approx(stdev(logs), rel=1e-12)
    assert by_hand.find("a-0528", "eagle3") == chat
    assert by_hand.drafts_of("a-0528") == ("eagle3", "mtp")
    assert by_hand.drafts_of("a") == ("eagle3",)
    assert LibraryEntry((ROWS[3], replace(ROWS[3], drafted="2")), 0.0).tokens == {1: 2.0}


def test_a_question_without_a_rate_is_less_sure_than_one_with_its_task() -> None:
    point = {"model": "qwen3-32b", "hardware": "h100", "batch": 8, "context": 8192, "tp": 2}
    any_task, with_task = (
        whatif(**point, draft="eagle3", gamma=3, **task) for task in ({}, {"task": "chat"})
    )
    assert with_task.acceptance.tokens_per_iteration == any_task.acceptance.tokens_per_iteration
    widths = [high / low for low, high in (any_task.speedup_interval, with_task.speedup_interval)]
    assert widths[0] > widths[1]
    assert "code text" in whatif(**point, draft="eagle3", task="code").acceptance.source
    assert whatif(**point, draft="dflash").verdict == "unknown_acceptance"
    with pytest.raises(InputError, match="no task named"):
        whatif(**point, draft="eagle3", task="poetry")
    for draft in ("self", "eagle3"):  # a sparse view, or the target itself, is not in the library
        s = resolve(Query("qwen3-32b", "h100", 1, 4096, draft=draft, draft_kv="streamingllm:512", alpha=0.5))
        assert published_acceptance("qwen3-32b", s.draft, context=4096.0) is None


def test_chat_at_one_drafted_token_comes_after_mixed_text_with_longer_drafts() -> None:
    """Of Qwen3.8-27B chat was published at one drafted token, mixed text at up to six."""
    usual = acceptance_library().find("qwen3.8-27b", "mtp")
    assert usual.rows[0].task == "mixed"
    assert usual.longer is None
    assert usual.tokens[3] == 3.178
    chat = acceptance_library().find("qwen3.8-27b", "mtp", "chat")
    assert chat.rows[0].task == "chat"
    assert chat.longer is not None
    assert chat.tokens[3] < usual.tokens[3]


KNOWN_TO_TWO = "1.8/2.4"
"""Tokens per iteration with one and two drafted tokens, which are too few for a usual draft."""


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        (("qwen3-8b", "chat", "///2.9/3.0"), ("qwen3-14b", "code", "1.5/2.0/2.2")),
        (("qwen3-8b", "code", "1.5/2.0/2.2"), ("qwen3-14b", "chat", "1.5/2.0/2.2")),
        (("qwen3-14b", "chat", "1.5/2.0/2.2"), ("qwen3-8b", "chat", "1.5/2.0/2.2")),
    ],
    ids=["a length of both", "then the task", "then the target"],
)
def test_of_rows_with_longer_drafts_the_most_similar_one_is_used(worse, better) -> None:
    short = row("qwen3-8b", "eagle3", "chat", KNOWN_TO_TWO)
    rows = [longer(*each) for each in (worse, better)]
    for given in (rows, rows[::-1]):
        assert found_with(short, *given).longer == rows[1]


def found_with(*rows: LibraryRow) -> LibraryEntry:
    """What is found for EAGLE-3 on Qwen3-8B in these rows; the others are of other models."""
    entry = AcceptanceLibrary([*rows, *ROWS], enough_ratios=1).find("qwen3-8b", "eagle3")
    assert entry is not None
    return entry


def longer(target: str, task: str, tokens: str) -> LibraryRow:
    """A row of another head. Empty numbers are lengths that it lacks."""
    figures = {length: each for length, each in enumerate(tokens.split("/"), start=1) if each}
    drafted = "/".join(map(str, figures))
    return replace(row(target, "eagle3", task, "/".join(figures.values()), head="long"), drafted=drafted)


def test_rows_of_another_kind_or_architecture_or_as_short_extend_no_draft() -> None:
    short = row("qwen3-8b", "eagle3", "chat", KNOWN_TO_TWO)
    for other in (
        row("qwen3-14b", "mtp", "chat", "1.5/2.0/2.2"),
        row("llama-3.1-8b", "eagle3", "chat", "1.5/2.0/2.2"),
        row("qwen3-14b", "eagle3", "chat", KNOWN_TO_TWO),
    ):
        assert found_with(short, other).longer is None
    unlisted = [row("new-1", "eagle3", "chat", KNOWN_TO_TWO), row("new-2", "eagle3", "chat", "1.5/2.0/2.2")]
    library = AcceptanceLibrary([*unlisted, *ROWS], enough_ratios=1)
    assert library.find("new-1", "eagle3").longer is None, "their architectures are unknown"


def test_a_head_that_was_measured_to_three_drafted_tokens_is_not_extended_by_another() -> None:
    heads = (longer("qwen3-8b", "chat", "1.8/2.4/2.8/3.0"), longer("qwen3-8b", "chat", "1.7/2.2/2.5"))
    own = replace(heads[1], head="own")
    library = AcceptanceLibrary([heads[0], own, *ROWS], enough_ratios=1)
    assert library.find("qwen3-8b", "eagle3", head="own").tokens == {1: 1.7, 2: 2.2, 3: 2.5}
    assert library.find("qwen3-8b", "eagle3", head="OWN ").head == "own"
    assert library.find("qwen3-8b", "eagle3", head="unknown").head == "long"
    unnamed = replace(heads[1], head="")
    assert AcceptanceLibrary([own, unnamed, *ROWS], enough_ratios=1).find("qwen3-8b", "eagle3").head == "own"
