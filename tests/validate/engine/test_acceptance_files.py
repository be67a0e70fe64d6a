"""Acceptance figures as engines print them."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import assume, given, settings, strategies as st

from perfmodel.cli import run
from perfmodel.validate.engine.acceptance import (
    AcceptanceSubject,
    draft_length,
    import_file,
)
from perfmodel.validate.engine.acceptance.counters import Counters
from tests.refusals import refused
from tests.validate.engine.figures import acceptance, page, subject

FILES = Path(__file__).parent / "files"


@pytest.mark.parametrize(
    ("name", "gamma", "omega"),
    [
        # survival .833 .690 .518: 1 + their sum
        ("vllm-serve-draft3-1.json", 3, 1 + 0.83333 + 0.69048 + 0.51786),
        # three lines of 343 + 1240 + 131 accepted tokens, at 3.04, 3.02 and 3.05 tokens a draft
        ("vllm-log-draft3.txt", 3, 1 + (343 + 1240 + 131) / (343 / 2.041 + 1240 / 2.023 + 131 / 2.047)),
        # the histogram of two requests: 44 + 38 x 1 + 31 x 2 + 37 x 3 accepted over 150 iterations
        ("sglang-requests.jsonl", 3, 1 + (38 + 62 + 111) / 150),
        # two log lines, the first with twice as many requests
        ("sglang-log.txt", 3, (8 * 2.43 + 4 * 2.37) / 12),
        ("sglang-server-info.json", 3, 2.41),
        ("sglang-metrics.txt", 3, 2.4),
        # 300 tokens after the first ones, 150 of them accepted: 150 iterations of 450/150 drafted tokens
        ("llama-server.jsonl", 3, 2.0),
    ],
)
def test_every_figure_gives_the_tokens_per_iteration_that_it_states(tmp_path, name, gamma, omega) -> None:
    measured = acceptance(FILES / name, gamma, tmp_path)
    assert measured.tokens_per_iteration(gamma) == pytest.approx(omega, rel=2e-3)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        # a + a^2 + a^3 = 1.2 of three drafted tokens
        ("Decode batch, #running-req: 1, #token: 900, accept len: 2.20, accept rate: 0.40,", "alpha 0.607"),
        # 1.5 of three, or 2.5 of five with the bonus token
        (
            "Decode batch, #running-req: 1, #token: 900, accept len: 2.50, accept rate: 0.50,",
            "3 or 4 drafted",
        ),
        (
            '{"prompt_tokens": 9, "completion_tokens": 250, "spec_verify_ct": 100, '
            '"spec_num_proposed_drafts": 300}',
            "alpha 0.691",
        ),
        ('{"accept_length": 2.5}', "error: --gamma: must be given"),
        ("nothing", "holds no acceptance figures known here"),
    ],
)
def test_the_draft_length_of_an_import_is_that_of_the_text(tmp_path, capsys, text: str, printed: str) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    run(["validate", "acceptance", "--import", str(path), "--target", "m", "--draft", "d"])
    assert printed in capsys.readouterr().err


@pytest.mark.parametrize(
    ("counts", "length"),
    [
        ([(303, 101), (60, 20)], 3),
        ([(303, 101), (40, 20)], None),
        ([(303, 101), (None, 20)], None),
        ([(305, 101)], None),
        ([(0, 101)], None),
        ([(303, 0)], None),
    ],
)
def test_requests_of_sglang_state_the_drafted_tokens(counts, length: int | None) -> None:
    keys = ("spec_num_proposed_drafts", "spec_verify_ct")
    requests = [{"meta_info": dict(zip(keys, pair, strict=True))} for pair in counts]
    assert draft_length(json.dumps(requests)) == length
    assert draft_length('{"spec_num_proposed_drafts": [') is None


def test_a_metrics_page_of_n_grams_counts_short_drafts_as_they_are(tmp_path) -> None:
    """394 tokens in 104 drafts where 4 is the longest: an n-gram that finds no more stops there.

    The run gave 512 tokens to 4 requests: 508 - 394 = 114 iterations, as many as its clients saw chunks.
    """
    whole = tmp_path / "whole.txt"
    page = (FILES / "vllm-metrics-ngram4.txt").read_text()
    whole.write_text(f"{page}vllm:generation_tokens_total 512\nvllm:request_success_total 4\n")
    measured = acceptance(whole, 4, tmp_path, draft="ngram")
    assert measured.tokens_per_iteration(4) == pytest.approx(508 / 114, rel=1e-9)
    assert "3.79 tokens on average" in import_file(whole, None, subject(4, "ngram")).source
    for draft, says in (("ngram", "must hold the generated tokens"), ("draft", "the draft length changed")):
        refused(says, import_file, FILES / "vllm-metrics-ngram4.txt", None, subject(4, draft))


def test_counters_of_sglang_replace_its_gauge_of_the_last_interval(tmp_path) -> None:
    """40 requests with 1040 tokens, the first of each from its prompt; the page states the draft length."""
    path = tmp_path / "page.txt"
    page = (FILES / "sglang-metrics.txt").read_text()
    counters = {"spec_verify_calls": 400, "generation_tokens": 1040, "num_requests": 40}
    lines = [f'sglang:{name}_total{{model_name="m"}} {count}\n' for name, count in counters.items()]
    path.write_text(page + "".join(lines))
    assert acceptance(path, 3, tmp_path).tokens_per_iteration(3) == pytest.approx(2.5)
    assert draft_length(page) == 3
    for missing in lines:
        rest = [line for line in lines if line != missing]
        path.write_text(page + "".join(rest))
        assert acceptance(path, 3, tmp_path).tokens_per_iteration(3) == pytest.approx(2.4)


@settings(max_examples=60, deadline=None)
@given(
    rates=st.lists(st.floats(0.3, 0.95), min_size=2, max_size=6),
    short=st.integers(1, 5),
    share=st.floats(0.1, 0.9),
    seed=st.integers(0, 2**16),
)
def test_two_lengths_are_taken_apart_whatever_they_are(rates, short, share, seed) -> None:
    """An independent oracle: drafts are drawn one by one and counted as the engine counts them."""
    long = len(rates)
    if short >= long:
        short = long - 1
    draw = random.Random(seed)
    accepted = [0] * long
    tokens = 0
    drafts = 20_000
    for _ in range(drafts):
        length = short if draw.random() < share else long
        tokens += length
        for j in range(length):
            if draw.random() >= rates[j]:
                break
            accepted[j] += 1
    counted = Counters(drafts, tuple(map(float, accepted)), tokens)
    assume(not counted.one_length)  # 4 and 5 tokens, a tenth of them 4: that is 5 as far as one can tell
    two_rates = counted.rates("x", lengths=(short, long))
    reached = 1.0
    for rate, found_rate in zip(rates, two_rates["positions"], strict=True):
        left = drafts * reached * min(share, 1 - share)
        tolerance = 5 / max(left, 1) ** 0.5
        assert found_rate == pytest.approx(rate, abs=tolerance)
        reached *= rate


def counted(last: str, label: str = 'position="2"') -> str:
    """A Prometheus page with a value, and a label, at the last of three positions."""
    per = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    two_positions = page(100, 300, [74, 49])
    return f"{two_positions}{per}{{{label}}} {last}\n"


DEEP = "[" * 200_000
HUGE = "9" * 400
NO_COUNT = r"spec_decode_num_acc\w+ position 2: must be a finite count"


@pytest.mark.parametrize(
    ("format", "text", "says"),
    [
        (
            None,
            '{"internal_states": [{"avg_spec_accept_length": 2.1}], "speculative_adaptive": true}',
            "tive_adaptive",
        ),
        ("sglang", '{"internal_states": {"avg_spec_accept_length": 2.1}}', "accept length: must be from 1"),
        (None, "Decode batch, #running-req: 1, accept len: 4.20, accept rate: 0.64, x", "--gamma: must be 5"),
        (None, '{"meta_info": {"spec_correct_drafts_histogram": [1, "a"]}}', "a list of counts"),
        (
            None,
            '{"timings": {"predicted_n": 100, "draft_n": 100, "draft_n_accepted": 49}}',
            "--spec-draft-p-min 0",
        ),
        (None, '{"timings": {"predicted_n": 100, "draft_n": 10, "draft_n_accepted": 49}}', "at most draft_n"),
        (None, "sglang:spec_accept_length 0.0\n", "above 0: nothing was decoded"),
        (None, "nothing of the kind", "holds no acceptance figures known here"),
        ("tensorrt", "{}", "--format"),
        *(
            ("vllm", counted(last), NO_COUNT)
            for last in ("NaN", "-5", "+Inf", "1e", "1e999", "", "27 soon", "27 1 2")
        ),
        ("vllm", counted("27", 'position="7"'), "without gaps"),
        ("vllm", "vllm:spec_decode_num_drafts_total 100", "must hold spec_decode counters"),
        ("vllm", counted("27", 'other_position="2"'), "labelled with its position"),
        ("vllm", '{"num_drafts": 100, "num_accepted_tokens_per_pos": [60, 80]}', "must not rise"),
        *(
            (
                "vllm",
                f'{{"num_drafts": {n}, "num_accepted_tokens_per_pos": [1, 1, 1]}}',
                "must hold spec_decode counters",
            )
            for n in ("Infinity", HUGE, "true")
        ),
        ("vllm", '{"a":' + DEEP, "nested so deeply"),
        *(("sglang", text, "must hold JSON objects") for text in ("[1, 2]", '"x"', "", "[]")),
        ("sglang", '{"meta_info": 3}', "must hold accept_length"),
        ("sglang", '[{"accept_length": 2}, {"spec_verify_ct": 1}]', "must hold accept_length"),
        ("sglang", '{"a": 1}\n{"a": x}', "line 2: must be valid JSON"),
        ("sglang", '{"a": 1}\n{"a": ', "ends in the middle of a JSON object"),
        ("sglang", DEEP, "nested so deeply"),
        ("sglang", '{"accept_length": 4.5}', r"gamma \+ 1 = 4"),
        *(
            ("sglang", f'{{"accept_length": {given}}}', rf"given \[{shown}")
            for given, shown in (("true", "True"), ("NaN", "nan"), (HUGE, "999"))
        ),
        ("sglang", '{"completion_tokens": 10, "spec_verify_ct": 0}', "given None"),
        ("sglang", f'{{"completion_tokens": {HUGE}, "spec_verify_ct": 1}}', "tokens: must be a finite count"),
        (
            "sglang",
            '[{"completion_tokens": 9, "spec_verify_ct": -1}, {"completion_tokens": 9, "spec_verify_ct": 9}]',
            "spec_verify_ct: must be a finite count, 0 or more, in each request, given -1",
        ),
    ],
)
def test_figures_that_say_nothing_are_refused(tmp_path, format, text, says) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    refused(says, import_file, path, format, subject(3))


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (AcceptanceSubject("", "self", "full", (4096,), 3), "--target: must be a name, given ''"),
        (AcceptanceSubject("t", " ", "full", (4096,), 3), "--draft: must be a name"),
        (AcceptanceSubject("t", "self", "full", (4096,), 0), "--gamma: must be from 1 to 4096"),
    ],
)
def test_what_the_figures_are_of_must_have_a_name(tmp_path, one, says) -> None:
    (tmp_path / "metrics.txt").write_text(counted("27"))
    refused(says, import_file, tmp_path / "metrics.txt", "vllm", one)


def test_the_draft_length_is_held_against_the_positions(tmp_path, capsys) -> None:
    path = tmp_path / "metrics.txt"
    path.write_text(page(10, 10, [5]))
    table = import_file(path, None, subject(1))
    assert table.rows[0].histogram == (5, 5)
    unstated = AcceptanceSubject("t", "d", "full", (1,), 4096, gamma_given=False)
    assert import_file(path, None, unstated).rows
    out = str(tmp_path / "out")
    flags = ["validate", "acceptance", "--import", str(path), "--target", "t", "--out", out]
    assert run(flags) == 2
    assert "--context: must be given" in capsys.readouterr().err, "no length is stated, and none invented"
    flags += ["--context", "1k"]
    assert run([*flags, "--gamma", "2"]) == 2
    unwrapped = " ".join(capsys.readouterr().err.split())
    assert f"--gamma: must be 1, the positions in {path}, given 2" in unwrapped
    assert run(flags) == 0, "the default is no statement"
    refused("--gamma: must be from 1 to 4096, given 4097", import_file, path, None, subject(4097))
    path.write_text('{"accept_length": 2.0}\n')
    refused("--lengths: must be left out", import_file, path, None, subject(3, lengths=(1, 3)))


TWO = (
    '{"completion_tokens": 95.2, "spec_verify_ct": 40}\n{"meta_info": {"completion_tokens": 200, '
    '"spec_verify_ct": 60}}'
)
"""295.2 tokens, bonus tokens among them, in 100 passes; one request a line, or a list of them."""


@pytest.mark.parametrize(
    ("text", "omega"),
    [
        ('[{"accept_length": 2.0}, {"accept_length": 3.0}]', 2.5),
        *((text, 2.952) for text in (TWO, f"[{TWO}]".replace("\n", ","), '{"accept_length": 2.952}')),
        ('{"accept_length": 4.0}', 4.0),
        ('{"accept_length": 1}', 1.0),
        ("sglang:spec_accept_length 0\nsglang:spec_accept_length 2.0\nsglang:spec_accept_length 3.0\n", 2.5),
        (
            '{"meta_info": {"spec_correct_drafts_histogram": [1, 0, 0, 1]}}\n'
            '{"meta_info": {"spec_correct_drafts_histogram": [2]}}',
            1.75,
        ),
        (
            "Decode batch, #running-req: 0, accept len: 4.00, accept rate: 1.00,\n"
            "Decode batch, #running-req: 3, accept len: 1.30, accept rate: 0.09,",
            1.975,
        ),  # too low to tell a length
        (
            '{"prompt_n": 9, "predicted_n": 101, "draft_n": 161, "draft_n_accepted": 50}',
            2.0,
        ),  # 3.22 of 3 may be
        ('{"predicted_n": 2, "draft_n": 3, "draft_n_accepted": 0}', 1.0),
    ],
)
def test_tokens_per_iteration_at_their_ends(tmp_path, text, omega) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    assert acceptance(path, 3, tmp_path).tokens_per_iteration(3) == pytest.approx(omega)
