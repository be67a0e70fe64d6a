"""Tables of draft lengths: cover everything once, never below a constant, do not flicker, parse as engines
want.
"""

import itertools
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import perfmodel
from perfmodel import cli
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.draft_lengths import (
    DEFAULT_HYSTERESIS,
    LengthTable,
    Range,
    _table,
    inside,
    length_tables,
)
from perfmodel.answers.advice.engine_lines import export, five_item_rows
from perfmodel.answers.advice.schedule import schedule
from perfmodel.answers.advice.served_target import served_target
from perfmodel.answers.advice.servers import ServedTarget
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query
from perfmodel.errors import InputError
from perfmodel.speculation import speedups
from tests.refusals import refused
from tests.speculation.scenarios import scenario as llama

scenario = partial(llama, hardware="h100-sxm-80gb", draft="eagle", alpha=0.7)


def table_of(*ranges: Range) -> LengthTable:
    """A table of these ranges, which gains 1.5x over no draft and 1.4x with the best constant length."""
    return LengthTable(ranges, 1, 1, 1.5, 2, 1.4, (1.0,))


def batches(of: Range) -> range:
    return range(of.low, of.high + 1)


def assert_covers(table, max_batch: int) -> None:
    covered = [batch for one in table.ranges for batch in batches(one)]
    assert covered == list(range(1, max_batch + 1))
    lengths = [one.tokens for one in table.ranges]
    assert all(before != after for before, after in itertools.pairwise(lengths))


def lengths_of(table: LengthTable) -> np.ndarray:
    """The draft length at each batch size from 1."""
    return np.array([r.tokens for r in table.ranges for _ in batches(r)])


ROW = st.lists(st.floats(0.2, 3.0), min_size=4, max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=40), st.floats(0, 0.2))
def test_any_surface_gets_a_table_that_beats_constants_and_earns_its_borders(rows: list, toll: float) -> None:
    """Also on surfaces that no model gives; checked against every table there is where that is feasible."""
    slowness = np.array(rows)
    slowness[:, 0] = 1.0
    n = len(rows)
    weights = np.full(n, 1 / n)
    table = _table(slowness, weights, toll, 0, 1)
    assert_covers(table, n)
    assert table.speedup >= max(table.by_constant) * (1 - 1e-12)
    chosen = lengths_of(table)

    def cost(ks: np.ndarray) -> float:
        changes = np.count_nonzero(np.diff(ks))
        spent = slowness[np.arange(n), ks] @ weights
        return float(spent + toll * changes)

    if n <= 5:
        choices = itertools.product(range(4), repeat=n)
        every = min(cost(np.array(ks)) for ks in choices)
        assert cost(chosen) == pytest.approx(every, rel=1e-12)
    for before, after in itertools.pairwise(table.ranges):
        for kept, gone in ((before, after), (after, before)):
            other = chosen.copy()
            other[gone.low - 1 : gone.high] = kept.tokens
            assert cost(other) >= cost(chosen) - 1e-12


def test_longer_contexts_draft_no_less_and_rectangles_tile() -> None:
    s = scenario(draft="self", draft_kv="streamingllm:512", calibration="ideal", alpha=0.8)
    tables = length_tables(s, (4096, 16384, 65536, 131072), (64,) * 4, 6, hysteresis=0.0)
    assert len(tables) >= 2
    rows = five_item_rows(tables)
    assert rows[0][0] == 1
    assert rows[0][2] == 0
    assert rows[-1][3] == 131072
    points = {}
    for low, high, first, last, k in rows:
        for batch in range(low, high + 1):
            for context in (first, last):
                assert points.setdefault((batch, context), k) == k
    assert (np.diff([lengths_of(t) for t in tables], axis=0) >= 0).all()


def test_three_ranges_of_contexts_that_gain_nothing_apart_share_a_table_and_count_alike() -> None:
    s = scenario()
    tables = length_tables(s, (4096, 8192, 16384), (1,) * 3, 2)
    assert [(table.context_low, table.context_high) for table in tables] == [(0, 16384)]
    spans = ((0, 4095), (4096, 8191), (8192, 16384))
    slowness = [np.mean(1 / speedups(s, 1.0, inside(low, high), np.array([2]))) for low, high in spans]
    assert tables[0].by_constant[2] == pytest.approx(1 / np.mean(slowness))


@pytest.mark.parametrize(
    ("changes", "served", "fine", "note"),
    [
        ({"draft": "self", "draft_kv": "full"}, {}, False, "is the target itself: nothing to serve"),
        ({"draft": "self", "draft_kv": "streamingllm:512"}, {}, False, "vLLM runs no draft with a sparse"),
        ({}, {"kv_dtype": "int8"}, True, "SGLang has no int8 KV cache"),
        ({"tp": 4, "draft_tp": 4}, {"tensor_parallel": 4}, True, ""),
        (
            {},
            {"kv_dtype": "int4", "attention_backend": "flashinfer"},
            True,
            "vLLM FLASHINFER has no int4 KV cache",
        ),
        ({"model": "minimax-m2", "draft": "mtp"}, {}, False, "vLLM has no method for a mtp draft"),
        ({"tp": 4, "draft_tp": 2}, {"tensor_parallel": 4}, False, "on 1 or 4 devices, not on 2"),
    ],
)
def test_what_vllm_or_sglang_does_not_serve_is_said(
    changes: dict, served: dict, fine: bool, note: str
) -> None:
    """vLLM has an int8 cache, per token and head."""
    table = table_of(Range(1, 8, 2, 1.5, 2, 1.5))
    target = ServedTarget(**{"model_id": "x"} | served)
    out = export(table, scenario(**changes).draft, target, "some/head")
    assert (out.vllm is not None) == fine
    assert any(note in each for each in out.notes)
    assert not any("vLLM has no int8" in each for each in out.notes)


@pytest.mark.parametrize(("tokens", "fine"), [(2, True), (3, True), (4, False), (5, False), (6, True)])
def test_vllm_runs_mtp_layers_in_whole_rounds(tokens: int, fine: bool) -> None:
    """vLLM 0.32 refuses more tokens than there are layers but for a multiple of them."""
    table = table_of(Range(1, 8, tokens, 1.5, tokens, 1.5))
    out = export(table, scenario(draft="mtp:modules=1").draft, ServedTarget("x", mtp_layers=3))
    assert (out.vllm is not None) == fine
    assert ("--max-gamma 3" in " ".join(out.notes)) != fine


def test_lines_deal_out_experts_and_sequences_as_priced() -> None:
    """DeepSeek-R1 on eight devices: vLLM counts devices and sequences of one group, SGLang those of all."""
    s = scenario(model="deepseek-r1", hardware="h200", tp=8, ep=8, dp=4, draft="mtp")
    few = Range(1, 8, 4, 1.5, 4, 1.5)
    some = Range(9, 10, 2, 1.5, 2, 1.5)
    many = Range(11, 126, 1, 1.5, 1, 1.5)
    table = table_of(few, some, many)
    query = Query("deepseek-r1", "h200", 1, 1)
    out = export(table, s.draft, served_target(query, "org/r1", s))
    assert out.vllm_line.startswith(
        "vllm serve org/r1 --data-parallel-size 4 --enable-expert-parallel --tensor-parallel-size 2 "
        "--max-model-len 2049 --max-num-seqs 32 "
    ), "126 sequences in 4 groups: at most 32 in one"
    assert out.vllm["num_speculative_tokens_per_batch_size"] == [[1, 2, 4], [3, 3, 2], [4, 32, 1]]
    assert "--attn-dp-size 4 --ep 8 --tp 8 --context-length 2049 --max-run" in out.sglang_line
    head = replace(scenario(tp=8).draft, tensor_parallel=8)
    on_groups = ServedTarget("x", 8, data_parallel=8)
    assert export(table, head, on_groups, "h").vllm["draft_tensor_parallel_size"] == 1


@pytest.mark.parametrize(
    "changes", [{}, {"draft": "self", "draft_kv": "streamingllm:512", "calibration": "ideal"}]
)
def test_a_table_is_judged_by_octaves_and_never_worse_with_more_room(changes: dict) -> None:
    """A batch size counts with the share of its octave, ln(1 + 1/b)."""
    s = scenario(**changes)
    most = 100
    context = 16384.0
    (short,) = length_tables(s, (context,), (most,), 2)
    (table,) = length_tables(s, (context,), (most,), 5)
    assert_covers(table, most)
    batch = np.arange(1.0, most + 1)
    shares = np.log1p(1 / batch)
    values = speedups(s, batch, np.full(most, context), np.arange(6))
    chosen = values[np.arange(most), lengths_of(table)]
    expected = shares.sum() / (shares / chosen).sum()
    assert table.speedup == pytest.approx(expected)
    assert penalised(table) <= penalised(short) + 1e-12


def penalised(table: LengthTable) -> float:
    """Seconds against the baseline's, and the price of each change of length."""
    return 1 / table.speedup + DEFAULT_HYSTERESIS * (len(table.ranges) - 1)


def test_a_table_is_given_only_where_it_gains_more_than_it_costs() -> None:
    """vLLM's dynamic mode costs 14 % (vllm#49548): 5 % are not worth it, and 5 % are where it costs
    nothing.
    """
    question = {
        "hardware": "a100",
        "tp": 4,
        "context": 1024,
        "draft": "llama-3.2-1b",
        "alpha": 0.65,
        "max_batch": 256,
    }
    one = schedule("llama-3.1-70b", **question)
    table = schedule("llama-3.1-70b", **question, dynamic_price=0)
    assert len(table.tables[0].ranges) > 1
    assert table.tables[0].instead is None
    (only,) = one.tables[0].ranges
    assert only.low == 1
    assert only.high == 256
    assert only.tokens == table.tables[0].best_constant
    assert only.interval[0] < only.speedup == only.draft_speedup < only.interval[1]
    gain = f"{table.tables[0].gain - 1:.1%} over a constant {only.tokens}, "
    assert gain in one.tables[0].instead
    assert (
        "the 14% that vLLM's dynamic mode costs (vllm#49548; --dynamic-price sets another cost)"
        in one.tables[0].instead
    )
    assert "num_speculative_tokens_per_batch_size" not in one.tables[0].export.vllm
    slight = schedule("llama-3.1-70b", **question | {"max_batch": 40}, dynamic_price=0).tables[0]
    assert "which is not more than the 2% that a table must gain" in slight.instead
    assert schedule("llama-3.1-70b", **question, engine="magicdec").tables[0].instead is None


def test_each_context_has_the_acceptance_that_was_measured_there() -> None:
    """0.83 at 8,000 tokens and 0.79 at 100,000: one rate for both would draft as long at either."""
    question = {
        "draft": "self",
        "draft_kv": "streamingllm:512",
        "tp": 8,
        "max_batch": 16,
        "hysteresis": 0.0,
        "attention_backend": "flashinfer",  # FlashAttention 2 does not cut 100,000 tokens up to verify
    }
    ends = (8000, 100_000)
    answer = schedule("llama-3.1-8b", "a100", ends, **question)
    for table, alpha in zip(answer.tables, (0.84, 0.79), strict=True):
        fixed = schedule("llama-3.1-8b", "a100", ends, **question, alpha=alpha).tables
        same = next(t for t in fixed if t.context_high == table.context_high)
        assert table.constant_speedup == pytest.approx(same.constant_speedup, rel=0.03)
    refused("measured at 4000 to 100000", schedule, "llama-3.1-8b", "a100", (8000, 401_000), **question)


@pytest.mark.parametrize("flag", ["--model-path", "--draft-path"])
def test_a_path_that_no_line_can_show_is_refused_and_any_letter_taken(flag, capsys) -> None:
    ask = "advise --model llama-3.1-8b --hardware h100 --context 8k --rate eagle3=0.5"
    assert cli.run([*ask.split(), flag, "a\0"]) == 2
    assert f"error: {flag}: must be printable characters" in capsys.readouterr().err
    assert cli.run([*ask.split(), flag, "\u4e2d"]) == 0


def test_every_context_has_the_seats_that_fit_there() -> None:
    """A cache of 32k leaves a dozen seats; 768 tokens of context must not be cut to them."""
    question = {"model": "llama-3.1-8b", "draft": "eagle3", "alpha": 0.7}
    (short,) = schedule(**question, hardware="h100", context=768).tables
    (long,) = schedule(**question, hardware="h100", context=32768).tables
    both = schedule(**question, hardware="h100", context=(768, 32768))
    last = long.ranges[-1].high
    last_batches = [table.ranges[-1].high for table in both.tables]
    assert last_batches == [short.ranges[-1].high, last]
    assert short.ranges[-1].high > 4 * last
    mixed = schedule(
        **question, hardware="4090", context=(4096, 131072), max_batch=64
    )  # the second holds none
    assert "batches above 9 do not fit at 4096 tokens and are left out" in " ".join(mixed.warnings)
    capped = schedule(**question, hardware="h100", context=(768, 32768), max_batch=64)
    left_out = [warning for warning in capped.warnings if "left out" in warning]
    assert left_out == [f"batches above {last} do not fit at 32768 tokens and are left out"]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"model": "llama-3.1-8b", "draft": "eagle3"}, "serve meta-llama/Llama-3.1-8B-Instruct "),
        ({"model": "meta-llama/Llama-3.1-8B", "draft": "eagle3"}, "serve meta-llama/Llama-3.1-8B "),
        (
            {"model": "llama-3.1-8b", "draft": "ngram", "rate": "0.4x3"},
            "serve meta-llama/Llama-3.1-8B-Instruct ",
        ),
        (
            {"model": "llama-3.1-8b", "draft": "eagle3", "model_path": "a/b", "draft_path": "c/d"},
            "serve a/b ",
        ),
        (
            {"model": "gemma-4-31b", "draft": "mtp", "alpha": 0.7},
            'serve google/gemma-4-31B-it .*"model": "google/gemma-4-31B-it-assistant"',
        ),
        (
            {"model": "qwen3-8b", "draft": "mtp", "draft_path": "c/d", "alpha": 0.7},
            'serve Qwen/Qwen3-8B .*"mtp", "model": "c/d"',
        ),
        (
            {"model": "qwen3.5-27b", "draft": "mtp", "alpha": 0.7},
            '"method": "mtp", "num_speculative_tokens"',
        ),
    ],
)
def test_a_line_names_models_that_belong_together(question, words) -> None:
    """Heads are of the tuned model, unless the user says which one is served."""
    line = schedule(**question, hardware="h100", context=2048, max_batch=4).tables[0].export.vllm_line
    assert re.search(words, line), line


@pytest.mark.parametrize(
    ("answer", "given"),
    [
        (schedule, {"draft": "mtp", "alpha": 0.7}),
        (whatif, {"draft": "mtp", "alpha": 0.7, "batch": 4}),
        (advise, {"rate": {"mtp": 0.7}, "batch": 4}),
    ],
)
def test_no_answer_of_a_head_that_there_is_not(answer, given) -> None:
    question = {"hardware": "h100", "context": 2048} | given
    for model in ("llama-3.1-8b", "qwen3-8b"):
        refused(f"{model} has no known multi-token prediction layer", answer, model, **question)


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (1.0004, ": no gain over a fixed draft length of "),
        (1.0006, ": 0.1 % more than a fixed draft length of "),
    ],
)
def test_a_gain_that_would_be_printed_as_nothing_is_none(gain: float, words: str) -> None:
    question = {"context": "2k,32k", "draft": "ngram", "rate": 0.3, "hysteresis": 0.02}
    answer = perfmodel.schedule("llama-3.1-8b", "a100", **question)
    short = answer.tables[0]
    assert len(short.ranges) > 1
    assert words not in str(answer)
    assert words in str(replace(answer, tables=(replace(short, gain=gain), *answer.tables[1:])))


def test_a_schedule_has_at_most_a_thousand_contexts() -> None:
    question = {"model": "llama-3.1-8b", "hardware": "h100", "alpha": 0.7}
    assert len(schedule.question(**question, context=range(1000, 2000)).context) == 1000
    with pytest.raises(InputError, match="at most 1000 values, given 1001"):
        schedule.question(**question, context=range(1000, 2001))
