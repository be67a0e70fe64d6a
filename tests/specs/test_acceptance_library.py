"""The library of published acceptance: what every row must hold, and how a question finds its figures."""

import math

import numpy as np
import pytest

from perfmodel.answers.acceptance_of import published_acceptance
from perfmodel.answers.arguments import TASKS
from perfmodel.answers.query import Query, resolve
from perfmodel.answers.whatif import whatif
from perfmodel.errors import InputError
from perfmodel.specs import files
from perfmodel.specs.acceptance_library import find_published, library, short_name
from perfmodel.specs.model import load_model
from perfmodel.speculation.acceptance import Acceptance


def test_every_row_is_possible_and_has_a_source() -> None:
    seen = set()
    for row in library():
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
    assert len({row.target for row in library()}) >= 45


def test_a_checkpoint_is_found_by_its_own_name_and_not_by_its_shape() -> None:
    assert short_name("meta-llama/Llama-3.3-70B-Instruct") == short_name("llama-3.3-70b") == "llama-3.3-70b"
    assert short_name("Qwen/Qwen3-30B-A3B-Instruct-2507") == "qwen3-30b-a3b-2507"
    assert short_name("llama-3.1-8b") == "llama-3.1-8b"
    assert load_model("llama-3.3-70b").name == "llama-3.1-70b"
    assert find_published("llama-3.1-70b", "eagle3") is None


def test_forty_checkpoints_have_a_head_with_figures() -> None:
    models = map(load_model, files.bundled_names("models"))
    ids = {name for model in models for name in (model.hf_id, *model.aliases) if name and "/" in name}
    drafts = ("eagle3", "mtp", "dflash", "dspark", "ngram")
    answered = [name for name in ids if any(find_published(short_name(name), draft) for draft in drafts)]
    assert len(answered) >= 40
    assert find_published(short_name("deepseek-ai/DeepSeek-R1-0528"), "mtp") == find_published("deepseek-r1", "mtp")


def test_the_task_is_the_asked_one_else_mixed_text_else_all_of_one_head() -> None:
    chat, code = find_published("qwen3-32b", "eagle3"), find_published("qwen3-32b", "eagle3", "code")
    assert chat is not None
    assert code is not None
    assert [row.task for row in chat.rows] == ["chat"]
    assert [row.task for row in code.rows] == ["code"]
    assert chat.spread > code.spread, "between tasks, and between the data sets of one"
    unasked = find_published("qwen3-32b", "qwen3-1.7b", "math")
    assert unasked is not None
    assert {row.task for row in unasked.rows} == {"chat", "code"}
    assert find_published("qwen3-32b", "mtp") is None


def test_figures_at_several_lengths_by_hand() -> None:
    """1.9 at one token is a_1 = 0.9; 2.61 at three leaves 0.71 for two more: 0.9 (a + a^2) = 0.71."""
    found = Acceptance.from_lengths((1, 3), (1.9, 2.61), "by hand")
    a = (-1 + math.sqrt(1 + 4 * 0.71 / 0.9)) / 2
    assert found.prefix == pytest.approx((0.9, a, a))
    assert found.tokens_per_iteration([1, 3]) == pytest.approx([1.9, 2.61])
    assert found.carried([0, 1, 2, 3]) == pytest.approx([0, 0, math.log(4 / 3), 0])
    carried = Acceptance.from_lengths((1,), (1.9,), "by hand", decay=0.5)
    assert carried.prefix == pytest.approx((0.9, 0.45, 0.225))
    with pytest.raises(InputError, match="tokens per iteration"):
        Acceptance.from_lengths((1,), (2.1,), "impossible")


def test_a_curve_that_falls_is_smoothed_and_never_gains_more_with_the_length() -> None:
    """A K of 7 below the K of 6 (3.00 after 3.16) is pooled with its neighbours; the last figure stands."""
    lengths, printed = (1, 2, 3, 4, 5, 6, 7, 8), (1.92, 2.61, 2.97, 3.0, 3.1, 3.16, 3.0, 3.11)
    found = Acceptance.from_lengths(lengths, printed, "a noisy curve")
    tokens = found.tokens_per_iteration(np.arange(9))
    gains = np.diff(tokens)
    assert np.all(gains >= -1e-12)
    assert np.all(np.diff(gains) <= 1e-9)
    assert tokens[[1, 2, 3, 8]] == pytest.approx([1.92, 2.61, 2.97, 3.11], rel=0.03)
    source = whatif("kimi-k2.5", "h200", 8, "8k", tp=8, draft="eagle3", task="code", alpha=None).acceptance.source
    assert "code text" in source


def test_a_question_without_a_rate_takes_the_library_s_and_states_it() -> None:
    a = whatif("qwen3-32b", "h100", batch=8, context=8192, draft="eagle3", tp=2)
    assert "RedHatAI/Qwen3-32B-speculator.eagle3" in a.acceptance.source
    assert "chat unless --task" in a.acceptance.source
    assert a.acceptance.tokens_per_iteration_interval is not None
    told = whatif("qwen3-32b", "h100", batch=8, context=8192, draft="eagle3", tp=2, gamma=a.query.gamma, task="chat")
    assert told.acceptance.tokens_per_iteration == pytest.approx(a.acceptance.tokens_per_iteration)
    widths = [high / low for low, high in (a.speedup_interval, told.speedup_interval)]
    assert widths[0] > widths[1]
    other = whatif("qwen3-32b", "h100", batch=8, context=8192, draft="mtp", tp=2)
    assert (other.verdict, other.acceptance.source) == (
        "unknown_acceptance",
        "none is known; published for it: eagle3, qwen3-1.7b",
    )
    with pytest.raises(InputError, match="no task named"):
        whatif("qwen3-32b", "h100", batch=8, context=8192, draft="eagle3", task="poetry")


def test_a_sparse_view_or_the_target_itself_is_not_in_the_library() -> None:
    for draft, kv in (("self", "streamingllm:512"), ("eagle3", "streamingllm:512")):
        s = resolve(Query("qwen3-32b", "h100", 1, 4096, draft=draft, draft_kv=kv, alpha=0.5))
        assert published_acceptance("qwen3-32b", s.draft) is None
